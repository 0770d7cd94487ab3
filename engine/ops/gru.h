// Runs a gated recurrent unit over whole sequences.  Cho et al. 2014, arXiv:1406.1078, eq. 5 to 8; with reset_after
// the reset gate comes after the product, as in cuDNN.
//
//   x [batch, time, 3 h]  W_x u_t and its bias for the layer's input u; one dense before this op makes it for all steps
//   w [3 h, h]   bias? [3 h]   h0? [batch, h] (0 if absent)   y [batch, time, h]
//
//   z = sigmoid(x_z + w_z y_{t-1} + b_z)   r = sigmoid(x_r + w_r y_{t-1} + b_r)                     y_{-1} = h0
//   n = tanh(x_n + w_n (r y_{t-1}) + b_n)        reset_after = 0: the paper, ONNX by default
//   n = tanh(x_n + r q), q = w_n y_{t-1} + b_n   reset_after = 1: PyTorch, Keras by default, ONNX linear_before_reset
//   y_t = (1 - z) n + z y_{t-1}
//
// Rows of x, w and bias are ordered z, r, n: as in Keras (GRUCell) and ONNX (z, r, h). PyTorch has r, z, n.
//
// The training form has one more output, gates [batch, time, 3 h] = z, r, n. With reset_after it is [batch, time, 4
// h] = z, r, n, q. Inference has y alone.
//
// Backward goes from the last step t to the first. da is the gradient of the sums inside z, r and n. After the last
// step dh = 0:
//
//   dy'  = dy_t + dh       da_z = dy' (y_{t-1} - n) z (1 - z)    da_n = dy' (1 - z) (1 - n^2)
//   reset_after = 1:       da_r = da_n q r (1 - r)               dq = da_n r
//                          dh = dy' z + w_z^T da_z + w_r^T da_r + w_n^T dq
//   reset_after = 0:       v = w_n^T da_n                        da_r = v y_{t-1} r (1 - r)
//                          dh = dy' z + w_z^T da_z + w_r^T da_r + v r
//   dx_t = da              in the end dh0 = dh, which is an output if there is an h0
//
//   dw_z += sum da_z y_{t-1}^T   dw_r alike   dw_n += sum dq y_{t-1}^T, or sum da_n (r y_{t-1})^T
//   dbias += sum da_z, sum da_r, and sum dq or sum da_n
//
// da is read back from dx, so it is rounded to its type.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/recurrent.h"

namespace nacre::inline NACRE_ISA {

struct Gru {
  Sequence size;
  bool reset_after;

  enum Operand { kX, kW, kBias, kH0 };

  static constexpr Gru from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    return {.size = {.batch = x[0], .time = x[1], .width = operands[kW][1]}, .reset_after = words[0] != 0};
  }

  constexpr uint64_t work() const { return size.work(3); }
  static constexpr size_t scratch_bytes(const Words&, const Operands& operands) {  // r y_{t-1}, z [batch, 2, h]
    return 2 * samples_bytes(operands[kX][0], operands[kW][1], operands.element(kX));
  }

  template <class T>
  constexpr void forward(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y,
                         Scratch<typename Element<T>::Accumulator> scratch) const {
    run(x, w, bias, h0, y, scratch.data, [](int, int, int, auto) {});
  }

  template <class T>
  constexpr void forward_training(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y, T* gates,
                                  Scratch<typename Element<T>::Accumulator> scratch) const {
    run(x, w, bias, h0, y, scratch.data, [&](int step, int gate, int j, auto v) {
      if (gate < saved(reset_after)) gates[(step * saved(reset_after) + gate) * size.width + j] = T(v);
    });
  }

  // Returns the number of gates that training keeps.
  static constexpr int saved(bool reset_after) { return reset_after ? 4 : 3; }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    const Shape x = operands[kX];
    if (words[0] > 1) return Code::kAttribute;
    NACRE_TRY_CODE(check_sequence(operands, kX, kW, 3));
    const int width = operands[kW][1];
    if (operands.has(kBias) && !is(operands, kBias, 3 * width)) return Code::kShapeBias;
    if (operands.has(kH0) && !is(operands, kH0, x[0], width)) return Code::kShapeInput;
    for (const int size : {width, saved(words[0] != 0) * width}) {
      outputs->push(x[0]);
      outputs->push(x[1]);
      outputs++->push(size);
    }
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"reset_after"}};
  static constexpr const char* kInputs[] = {"x", "w", "bias?", "h0?"};
  static constexpr const char* kOutputs[] = {"y", "gates?"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX, kH0>,
       .by = Op::kGruGradient,
       .reads = kReads<output_of(1), output_of(0), input_of(kW), input_of(kH0), gradient_of(0)>},
      {.of = kOf<kW>,
       .by = Op::kGruGradientW,
       .reads = kReads<input_gradient_of(kX), output_of(1), output_of(0), input_of(kH0)>,
       .adds = true},
      {.of = kOf<kBias>,
       .by = Op::kGruGradientBias,
       .reads = kReads<input_gradient_of(kX), output_of(1)>,
       .adds = true}};

 private:
  // Calls keep(step, gate, j, value) for gates z, r, n, q of unit j of each step. Steps are counted over all samples.
  template <class T, class A, class F>
  constexpr void run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y, A* scratch,
                     F keep) const {
    const int h = size.width;
    size.each_step_apart(y, h0.data, [&](int n, int step, const T* previous) {
      A *const reset = scratch + n * 2 * h, *const update = reset + h;
      const T* in = x + step * 3 * h;
      T* out = y + step * h;
      const auto sum = [&](int row) {
        const A s = recurrent<A>(w, previous, row, h);
        return bias ? s + A(bias[row]) : s;
      };
      for (int j = 0; j < h; ++j) {
        update[j] = logistic(A(in[j]) + sum(j));
        const A r = logistic(A(in[h + j]) + sum(h + j));
        reset[j] = reset_after || previous == nullptr ? r : r * A(previous[j]);
        keep(step, 0, j, update[j]);
        keep(step, 1, j, r);
      }
      for (int j = 0; j < h; ++j) {
        const int row = 2 * h + j;
        A inner = 0;  // the number that is added to x_n
        if (reset_after) {
          const A q = sum(row);
          keep(step, 3, j, q);
          inner = reset[j] * q;
        } else {
          for (int k = 0; previous != nullptr && k < h; ++k) inner += A(w[row * h + k]) * reset[k];
          if (bias) inner += A(bias[row]);
        }
        const A candidate = std::tanh(A(in[row]) + inner);
        keep(step, 2, j, candidate);
        const A before = previous == nullptr ? A(0) : A(previous[j]);
        out[j] = T((1 - update[j]) * candidate + update[j] * before);
      }
    });
  }
};

struct GruGradient {
  Sequence size;
  bool reset_after;

  enum Operand { kGates, kY, kW, kH0, kDy };

  static constexpr GruGradient from(const Words& words, const Operands& operands) {
    const Shape y = operands[kY];
    return {.size = {.batch = y[0], .time = y[1], .width = y[2]}, .reset_after = words[0] != 0};
  }

  constexpr uint64_t work() const { return size.work(3); }
  static constexpr size_t scratch_bytes(const Words&, const Operands& operands) {  // dh and v [batch, 2, h]
    return 2 * samples_bytes(operands[kY][0], operands[kW][1], operands.element(kGates));
  }

  template <class T>
  constexpr void forward(const T* gates, const T* y, const T* w, Optional<const T> h0, const T* dy, T* dx,
                         Scratch<typename Element<T>::Accumulator> scratch) const {
    run(gates, y, w, h0, dy, dx, scratch.data, [](int, int, auto) {});
  }

  template <class T>
  constexpr void forward_states(const T* gates, const T* y, const T* w, Optional<const T> h0, const T* dy, T* dx,
                                T* dh0, Scratch<typename Element<T>::Accumulator> scratch) const {
    run(gates, y, w, h0, dy, dx, scratch.data, [&](int n, int j, auto dh) { dh0[n * size.width + j] = T(dh); });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* outputs) {
    const Shape y = operands[kY], w = operands[kW];
    if (words[0] > 1) return Code::kAttribute;
    if (y.rank != 3 || w.rank != 2) return Code::kShapeRank;
    const int64_t width = w[1];
    if (w[0] != 3 * width) return Code::kShapeWeights;
    const int64_t saved = Gru::saved(words[0] != 0) * width;
    if (y[2] != width || !same(y, operands[kDy]) || saved > INT32_MAX) return Code::kShapeInput;
    if (!is_sequence(operands[kGates], y, int(saved))) return Code::kShapeInput;
    if (operands.has(kH0) && !is(operands, kH0, y[0], y[2])) return Code::kShapeInput;
    outputs[0].push(y[0]);
    outputs[0].push(y[1]);
    outputs[0].push(int32_t(3 * width));
    outputs[1].push(y[0]);
    outputs[1].push(y[2]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"gates", "y", "w", "h0?", "dy"};
  static constexpr const char* kOutputs[] = {"dx", "dh0?"};

 private:
  // Calls keep(n, j, dh) with the gradient of h0 of unit j.
  template <class T, class A, class F>
  constexpr void run(const T* gates, const T* y, const T* w, Optional<const T> h0, const T* dy, T* dx, A* scratch,
                     F keep) const {
    const int h = size.width, saved = Gru::saved(reset_after);
    for (int n : independent(size.batch)) {
      A *const dh = scratch + n * 2 * h, *const v = dh + h;
      for (int j = 0; j < h; ++j) dh[j] = 0;
      for (int t = size.time - 1; t >= 0; --t) {
        const int step = n * size.time + t;
        const T *z = gates + step * saved * h, *r = z + h, *candidate = r + h;
        const T* previous = t > 0 ? y + (step - 1) * h : h0 ? h0.data + n * h : nullptr;
        const auto before = [&](int j) { return previous == nullptr ? A(0) : A(previous[j]); };
        T* da = dx + step * 3 * h;
        for (int j = 0; j < h; ++j) {
          const A d = A(dy[step * h + j]) + dh[j], c = A(candidate[j]), u = A(z[j]);
          da[j] = T(d * (before(j) - c) * u * (1 - u));
          da[2 * h + j] = T(d * (1 - u) * (1 - c * c));
          dh[j] = d * u;
          v[j] = 0;
        }
        // v = w_n^T dq, or w_n^T da_n
        for (int k = 0; k < h; ++k) {
          const A d = reset_after ? A(da[2 * h + k]) * A(r[k]) : A(da[2 * h + k]);
          for (int j = 0; j < h; ++j) v[j] += A(w[(2 * h + k) * h + j]) * d;
        }
        for (int j = 0; j < h; ++j) {
          const A reset = A(r[j]), slope = reset * (1 - reset);
          da[h + j] = T(slope * (reset_after ? A(da[2 * h + j]) * A(candidate[h + j]) : v[j] * before(j)));
          dh[j] += reset_after ? v[j] : v[j] * reset;
        }
        add_transposed(w, da, 2 * h, h, dh);
      }
      for (int j = 0; j < h; ++j) keep(n, j, dh[j]);
    }
  }
};

struct GruGradientW {
  Sequence size;
  bool reset_after;

  enum Operand { kDx, kGates, kY, kH0, kDw };

  static constexpr GruGradientW from(const Words& words, const Operands& operands) {
    const Shape y = operands[kY];
    return {.size = {.batch = y[0], .time = y[1], .width = y[2]}, .reset_after = words[0] != 0};
  }

  constexpr uint64_t work() const { return size.work(3); }

  template <class T>
  constexpr void forward(const T* dx, const T* gates, const T* y, Optional<const T> h0,
                         Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    const int h = size.width;
    for (int k : independent(3 * h))
      size.each_step(y, h0.data, [&](int step, const T* previous) {
        if (previous == nullptr) return;
        const T* r = gates + (step * Gru::saved(reset_after) + 1) * h;
        const bool candidate = k >= 2 * h;
        const A d = A(dx[step * 3 * h + k]), dq = candidate && reset_after ? d * A(r[k - 2 * h]) : d;
        for (int j = 0; j < h; ++j)
          dw.data[k * h + j] += dq * (candidate && !reset_after ? A(r[j]) * A(previous[j]) : A(previous[j]));
      });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape y = operands[kY];
    if (words[0] > 1) return Code::kAttribute;
    NACRE_TRY_CODE(check_sequence(operands, kDx, kDw, 3));
    const int64_t width = operands[kDw][1], saved = Gru::saved(words[0] != 0) * width;
    if (saved > INT32_MAX || !is_sequence(y, operands[kDx], int(width))) return Code::kShapeInput;
    if (!is_sequence(operands[kGates], y, int(saved))) return Code::kShapeInput;
    return !operands.has(kH0) || is(operands, kH0, y[0], int(width)) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"dx", "gates", "y", "h0?", "&dw"};
};

struct GruGradientBias {
  Sequence size;
  bool reset_after;

  static constexpr GruGradientBias from(const Words& words, const Operands& operands) {
    const Shape dx = operands[0];
    return {.size = {.batch = dx[0], .time = dx[1], .width = operands[2][0] / 3}, .reset_after = words[0] != 0};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(size.batch * size.time)) * uint32_t(3 * size.width); }

  template <class T>
  constexpr void forward(const T* dx, const T* gates, Update<typename Element<T>::Accumulator> dbias) const {
    using A = typename Element<T>::Accumulator;
    const int h = size.width;
    for (int k : independent(3 * h))
      for (int step = 0; step < size.batch * size.time; ++step) {
        const T* r = gates + (step * Gru::saved(reset_after) + 1) * h;
        const A d = A(dx[step * 3 * h + k]);
        dbias.data[k] += reset_after && k >= 2 * h ? d * A(r[k - 2 * h]) : d;
      }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape dx = operands[0], gates = operands[1], dbias = operands[2];
    if (words[0] > 1) return Code::kAttribute;
    if (dx.rank != 3 || gates.rank != 3 || dbias.rank != 1) return Code::kShapeRank;
    if (dx[2] != dbias[0] || dbias[0] % 3 != 0) return Code::kShapeBias;
    const int64_t saved = int64_t{Gru::saved(words[0] != 0)} * (dbias[0] / 3);
    return gates[0] == dx[0] && gates[1] == dx[1] && gates[2] == saved ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"dx", "gates", "&dbias"};
};

inline constexpr OpRule kGruRule = {.op = Op::kGru,
                                    .name = "gru",
                                    .numerics = Numerics::kMatmul,
                                    .shapes = &Gru::shapes,
                                    .attributes = Gru::kAttributes,
                                    .inputs = Gru::kInputs,
                                    .outputs = Gru::kOutputs,
                                    .gradients = Gru::kGradients,
                                    .parameters = 0b110};
inline constexpr OpRule kGruGradientRule = {.op = Op::kGruGradient,
                                            .name = "gru_gradient",
                                            .numerics = Numerics::kMatmul,
                                            .shapes = &GruGradient::shapes,
                                            .attributes = Gru::kAttributes,
                                            .inputs = GruGradient::kInputs,
                                            .outputs = GruGradient::kOutputs};
inline constexpr OpRule kGruGradientWRule = {.op = Op::kGruGradientW,
                                             .name = "gru_gradient_w",
                                             .numerics = Numerics::kMatmul,
                                             .shapes = &GruGradientW::shapes,
                                             .attributes = Gru::kAttributes,
                                             .inputs = GruGradientW::kInputs,
                                             .outputs = {}};
inline constexpr OpRule kGruGradientBiasRule = {.op = Op::kGruGradientBias,
                                                .name = "gru_gradient_bias",
                                                .numerics = Numerics::kReduction,
                                                .shapes = &GruGradientBias::shapes,
                                                .attributes = Gru::kAttributes,
                                                .inputs = GruGradientBias::kInputs,
                                                .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
