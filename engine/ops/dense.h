// Fully connected layer.
//
//   x [.., in]   w [out, in]   b [out]   y [.., out]      rows = product of the leading dims
//
//   y_rk = clamp(b_k + sum_i x_ri w_ki)                                                          float
//   y_rk = clamp(zero_y + requant_k(b_k + sum_i (x_ri - zero_x) w_ki))                           int8, NUMERICS.md eq. 1
//   y_rk = clamp(b_k + s_k sum_i x_ri q_ki)                                                      weight-only
//   y_rk = clamp(b_k + s_k t_n sum_i (x_ri - z_n) q_ki)                                          hybrid: int8 x, scale t, zero z
//                                                                                                per row n of axis 0
//
// The other forms, and what becomes of a sum in each: epilogue.h.
//
// Backward, of the float form without a clamp:
//
//   dx_ri = sum_k dy_rk w_ki      dw_ki += sum_r dy_rk x_ri      db_k += sum_r dy_rk (bias_gradient)
#pragma once

#include "engine/ops/epilogue.h"
#include "engine/ops/gradient.h"

namespace nacre {

struct Dense {
  int rows, in, out, rows_per_batch;
  bool per_channel;  // scales: one per output, or one
  Clamp clamp;
  int x_zero, y_zero;

  enum Word { kClamp = 0, kXZero = 3, kYZero = 4, kForm = 5, kBlock = 6 };
  enum Operand { kX, kW, kBias, kScale };

  static Dense from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX], w = operands[kW];
    const int rows = x.product(0, x.rank - 1);
    return {.rows = rows,
            .in = w[1],
            .out = w[0],
            .rows_per_batch = x.rank > 1 ? x.product(1, x.rank - 1) : 1,
            .per_channel = operands.has(kScale) && operands[kScale][0] > 1,
            .clamp = Clamp::from(words, kClamp),
            .x_zero = words.integer(kXZero),
            .y_zero = words.integer(kYZero)};
  }

  uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  template <class T, class Y = T>
  void forward(const T* x, const T* w, Optional<const T> b, Y* y) const {
    using A = typename Element<T>::Accumulator;
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        A sum = 0;
        for (int i = 0; i < in; ++i) sum += A(x[i]) * A(w[k * in + i]);
        y[k] = rounded<T, Y>(clamp.real(b ? sum + A(b[k]) : sum));
      }
  }

  template <Rounding kRounding>
  void forward_int8(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                    const typename Requant<kRounding>::Stored* scale, int8_t* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        int32_t sum = dot(x, w + k * in, x_zero);
        if (b) sum = wrapping_add(sum, b[k]);
        const int32_t code = Requant<kRounding>::apply(sum, scale, per_channel ? k : 0);
        y[k] = clamp.code(wrapping_add(code, y_zero));
      }
  }

  template <class T, class W>  // int8 or int4 weights
  void forward_weight_only(const T* x, const W* w, Optional<const T> b, const float* scale, T* y,
                           WordAt<kForm> form) const {
    using A = typename Element<T>::Accumulator;
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        A sum = 0;
        for (int i = 0; i < in; ++i) sum += A(x[i]) * element<A>(w, k * in + i);
        sum = scaled(sum, A(scale[per_channel ? k : 0]), form.value);
        y[k] = T(clamp.real(b ? sum + A(b[k]) : sum));
      }
  }

  // w_ki = s_kg (q_ki - z_kg), g = i / block, in float32.
  template <class T>
  void forward_grouped(const T* x, const Int4Pair* w, Optional<const T> b, const float* scale, const int8_t* zero,
                       T* y, WordAt<kBlock> block) const {
    using A = typename Element<T>::Accumulator;
    const int size = int(block.value), groups = (in - 1) / size + 1;
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        A sum = 0;
        for (int i = 0; i < in; ++i) {
          const int g = k * groups + i / size;
          sum += A(x[i]) * A(scale[g] * float(int4_code(w, k * in + i) - zero[g]));
        }
        y[k] = T(clamp.real(b ? sum + A(b[k]) : sum));
      }
  }

  template <class T>
  void forward_dynamic(const int8_t* x, const int8_t* w, Optional<const T> b, const T* scale, PerRow<const T> x_scale,
                       T* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out)
      for (int k = 0; k < out; ++k) {
        const Rounded<T> v = quotient(dot(x, w + k * in, 0), scale[per_channel ? k : 0], x_scale[r]);
        y[k] = T(clamp.real((b ? v + Rounded<T>(b[k]) : v).wide()));
      }
  }

  template <class T>
  void forward_float8(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const float* scale,
                      PerRow<const float> x_scale, T* y) const {
    each_float8(x, w, b, scale, x_scale, [&](float v) { *y++ = T(v); });
  }

  void forward_float8_quantized(const Float8E4M3* x, const Float8E4M3* w, Optional<const float> b, const float* scale,
                                PerRow<const float> x_scale, const float* y_scale, Float8E4M3* y) const {
    each_float8(x, w, b, scale, x_scale, [&](float v) { *y++ = Float8E4M3::saturated(v / y_scale[0]); });
  }

  void forward_hybrid(const int8_t* x, const int8_t* w, Optional<const float> b, const float* scale,
                      const float* x_scale, const int32_t* x_zeros, float* y) const {
    for (int r = 0; r < rows; ++r, x += in, y += out) {
      const int n = r / rows_per_batch;
      for (int k = 0; k < out; ++k) {
        const float sum = float(dot(x, w + k * in, x_zeros[n])) * (x_scale[n] * scale[per_channel ? k : 0]);
        y[k] = clamp.real(b ? sum + b[k] : sum);
      }
    }
  }

  static Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW];
    if (x.rank < 1 || w.rank != 2) return Code::kShapeRank;
    if (w[1] != x.last()) return Code::kShapeWeights;
    TRY_CODE(Epilogue({w[0], w[1], x.rank - 1, kClamp, kForm}).check(words, operands));
    for (int i = 0; i + 1 < x.rank; ++i) y->push(x[i]);
    y->push(w[0]);
    return Code::kOk;
  }

  static constexpr auto kAttributes = joined(kClampAttributes, {{"x_zero"}, {"y_zero"}, {"form"}, {"block"}});
  static constexpr const char* kInputs[] = {"x", "w", "bias?", "scale?", "x_scale_or_zero?", "x_zero_or_y_scale?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>, .by = Op::kDenseGradientX, .reads = kReads<gradient_of(0), input_of(kW)>},
      {.of = kOf<kW>, .by = Op::kDenseGradientW, .reads = kReads<gradient_of(0), input_of(kX)>, .adds = true},
      {.of = kOf<kBias>, .by = Op::kBiasGradient, .reads = kReads<gradient_of(0)>, .adds = true,
       .words = &bias_words<kClamp>}};

 private:
  // f(clamp(sum x_scale scale + b)) for every output in order.
  template <class T, class F>
  void each_float8(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const float* scale,
                   PerRow<const float> x_scale, F f) const {
    for (int r = 0; r < rows; ++r, x += in)
      for (int k = 0; k < out; ++k) {
        float sum = 0;
        for (int i = 0; i < in; ++i) sum += float(x[i]) * float(w[k * in + i]);
        sum *= x_scale[r] * scale[per_channel ? k : 0];
        f(clamp.real(b ? sum + float(b[k]) : sum));
      }
  }

  // sum_i (x_i - zero) w_i. Unsigned numbers wrap where untrusted ones would overflow; no valid model's do.
  int32_t dot(const int8_t* x, const int8_t* w, int zero) const {
    uint32_t sum = 0;
    for (int i = 0; i < in; ++i) sum += (uint32_t(x[i]) - uint32_t(zero)) * uint32_t(w[i]);
    return int32_t(sum);
  }
};

struct DenseGradientX {
  int rows, in, out;

  static DenseGradientX from(const Words&, const Operands& operands) {
    const Shape y = operands[0], w = operands[1];
    return {.rows = y.product(0, y.rank - 1), .in = w[1], .out = w[0]};
  }

  uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  template <class T>
  void forward(const T* dy, const T* w, T* dx) const {
    using A = typename Element<T>::Accumulator;
    for (int r = 0; r < rows; ++r, dy += out, dx += in)
      each_run_of(in, [&](int first, int count) {
        A sum[kRun] = {};
        for (int k = 0; k < out; ++k) {
          const A d = A(dy[k]);
          const T* from = w + k * in + first;
          for (int i = 0; i < count; ++i) sum[i] += d * A(from[i]);
        }
        for (int i = 0; i < count; ++i) dx[first + i] = T(sum[i]);
      });
  }

  static Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0], w = operands[1];
    TRY_CODE(real_form(words));
    if (y.rank < 1 || w.rank != 2) return Code::kShapeRank;
    if (w[0] != y.last()) return Code::kShapeWeights;
    if (int64_t{y.product(0, y.rank - 1)} * w[1] > INT32_MAX) return Code::kElements;
    for (int i = 0; i + 1 < y.rank; ++i) dx->push(y[i]);
    dx->push(w[1]);
    return Code::kOk;
  }

  // Gradients are of the float form without a clamp: every attribute is 0.
  static Code real_form(const Words& words) {
    for (int i = Dense::kClamp; i <= Dense::kBlock; ++i)
      if (words[i] != 0) return Code::kAttribute;
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy", "w"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct DenseGradientW {
  int rows, in, out;

  static DenseGradientW from(const Words&, const Operands& operands) {
    const Shape y = operands[0], x = operands[1];
    return {.rows = y.product(0, y.rank - 1), .in = x.last(), .out = y.last()};
  }

  uint64_t work() const { return uint64_t(uint32_t(rows)) * uint32_t(out) * uint32_t(in); }

  // A row of dw stays near while all of x passes.
  template <class T>
  void forward(const T* dy, const T* x, Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    for (int k = 0; k < out; ++k) {
      A* sum = dw.data + k * in;
      for (int r = 0; r < rows; ++r) {
        const A d = A(dy[r * out + k]);
        const T* from = x + r * in;
        for (int i = 0; i < in; ++i) sum[i] += d * A(from[i]);
      }
    }
  }

  static Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape y = operands[0], x = operands[1], w = operands[2];
    TRY_CODE(DenseGradientX::real_form(words));
    if (y.rank < 1 || x.rank != y.rank || w.rank != 2) return Code::kShapeRank;
    for (int i = 0; i + 1 < y.rank; ++i)
      if (x[i] != y[i]) return Code::kShapeInput;
    return w[0] == y.last() && w[1] == x.last() ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr const char* kInputs[] = {"dy", "x", "&dw"};
};

inline constexpr OpRule kDenseRule = {
    .op = Op::kDense, .name = "dense", .numerics = Numerics::kMatmul, .shapes = &Dense::shapes,
    .attributes = Dense::kAttributes, .inputs = Dense::kInputs, .outputs = Dense::kOutputs,
    .gradients = Dense::kGradients, .parameters = 1u << Dense::kW | 1u << Dense::kBias};
inline constexpr OpRule kDenseGradientXRule = {
    .op = Op::kDenseGradientX, .name = "dense_gradient_x", .numerics = Numerics::kMatmul,
    .shapes = &DenseGradientX::shapes, .attributes = Dense::kAttributes, .inputs = DenseGradientX::kInputs,
    .outputs = DenseGradientX::kOutputs};
inline constexpr OpRule kDenseGradientWRule = {
    .op = Op::kDenseGradientW, .name = "dense_gradient_w", .numerics = Numerics::kMatmul,
    .shapes = &DenseGradientW::shapes, .attributes = Dense::kAttributes, .inputs = DenseGradientW::kInputs,
    .outputs = {}};

}  // namespace nacre
