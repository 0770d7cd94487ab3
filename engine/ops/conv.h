// Convolutions over NHWC, with explicit pads, groups and dilation.
//
//   x [batch, in_h, in_w, in_c]   b [out_c]   y [batch, out_h, out_w, out_c]
//   conv2d            w [out_c, kernel_h, kernel_w, in_c / groups]
//   depthwise_conv2d  w [kernel_h, kernel_w, out_c], out_c = in_c multiplier: output k reads input k / multiplier
//
//   y_nhwk = epilogue(sum_{i,j,c} x_{n, h sh - top + i dh, w sw - left + j dw, c} w_kijc, b_k)       epilogue.h
//
// With a residual [batch, out_h, out_w, out_c], or an activation that is no clamp, the step is fused: fused_epilogue.h.
// sh, sw: strides; dh, dw: dilations. Positions outside x have the real value 0. Backward: conv_gradient.h.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/epilogue_shapes.h"
#include "engine/ops/fused_epilogue.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/window.h"

namespace nacre::inline NACRE_ISA {

// Holds what conv2d and depthwise_conv2d share: sizes, the loop over outputs, and the epilogues.
struct Conv2d {
  int batch, in_c, out_c, group_in, group_out;  // depthwise: one input channel a group, `multiplier` outputs
  int w_channel, w_column;  // strides in w: of an output channel, of a tap within a row of the window
  Window window;
  int x_zero;
  Epilogue epilogue;

  enum Word { kWindow = 0, kClamp = 8, kXZero = 11, kYZero = 12, kGroups = 13, kForm = 14, kBlock = 15 };
  enum Operand { kX, kW, kBias, kScale, kResidual = kScale };

  static constexpr Conv2d from(const Words& words, const Operands& operands) {
    const Shape w = operands[kW];
    Conv2d op = make(words, operands[kX], operands[operands.count - 1], w[1], w[2], words.integer(kGroups) + 1);
    op.epilogue.per_channel = has_channel_scales(operands);
    return op;
  }

  constexpr uint64_t work() const {
    const uint64_t outputs = uint64_t(uint32_t(batch * window.h.out * window.w.out)) * uint32_t(out_c);
    return outputs * uint32_t(window.h.kernel * window.w.kernel) * uint32_t(group_in);
  }

  template <class T, class Y = T>
  constexpr void forward(const T* x, const T* w, Optional<const T> b, Y* y) const {
    each_output([&](const Pixel& pixel, int k, int e) { y[e] = epilogue.real<T, Y>(sum(x, w, pixel, k), b, k); });
  }

  template <class T>
  constexpr void forward_fused(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y) const {
    const FusedEpilogue fused = {epilogue.clamp};
    each_output([&](const Pixel& pixel, int k, int e) { y[e] = fused.real(sum(x, w, pixel, k), b, k, residual, e); });
  }

  template <Rounding kRounding>
  constexpr void forward_int8(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                              const typename Requant<kRounding>::Stored* scale, int8_t* y) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.int8<kRounding>(dot(x, w, x_zero, pixel, k), b, scale, k);
    });
  }

  constexpr void forward_int16(const int16_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale,
                               int16_t* y) const {
    each_output([&](const Pixel& at, int k, int e) { y[e] = epilogue.int16(sum(x, w, at, k), b.data, scale, k); });
  }
  constexpr void forward_int16_wide(const int16_t* x, const int8_t* w, const int64_t* b, const int32_t* scale,
                                    int16_t* y) const {
    each_output([&](const Pixel& at, int k, int e) { y[e] = epilogue.int16(sum(x, w, at, k), b, scale, k); });
  }

  template <class T, class W, class S = float>  // int8 or int4 weights
  constexpr void forward_weight_only(const T* x, const W* w, Optional<const T> b, const S* scale, T* y,
                                     WordAt<kForm> form) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.weight_only<T>(sum(x, w, pixel, k), b, scale, form.value, k);
    });
  }

  // Weights are w = S(c_kg (q - z_kg)) with g = t / block for term t of output k's filter, in the order i, j, c. S is
  // the type of the scales.
  template <class T, class W = Int4Pair, class S = float>  // int4 or int8 weights
  constexpr void forward_grouped(const T* x, const W* w, Optional<const T> b, const S* scale, const int8_t* zero, T* y,
                                 WordAt<kBlock> block) const {
    using A = typename Element<T>::Accumulator;
    const int size = int(block.value), groups = (window.h.kernel * window.w.kernel * group_in - 1) / size + 1;
    each_output([&](const Pixel& pixel, int k, int e) {
      A s = 0;
      each_run(pixel, k, [&](int xi, int wi, int length) {
        const int first = (wi - k * w_channel) / w_column * group_in;  // the run's first term
        for (int c = 0; c < length; ++c) {
          const int g = k * groups + (first + c) / size;
          s += A(x[xi + c]) * A(decoded<S>(float(element<int>(w, wi + c) - zero[g]), scale[g]));
        }
      });
      y[e] = epilogue.scaled_in_sum<T, S>(s, b, k);
    });
  }

  template <class T>
  constexpr void forward_dynamic(const int8_t* x, const int8_t* w, Optional<const T> b, const T* scale,
                                 PerRow<const T> x_scale, T* y) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.dynamic<T>(dot(x, w, 0, pixel, k), b, scale, x_scale[pixel.n], k);
    });
  }

  template <class T>
  constexpr void forward_float8(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const float* scale,
                                PerRow<const float> x_scale, T* y) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.scaled<T>(sum(x, w, pixel, k), b, scale, x_scale[pixel.n], k);
    });
  }

  template <class T>  // terms T(x t_n) T(w c_k)
  constexpr void forward_float8_each(const Float8E4M3* x, const Float8E4M3* w, Optional<const T> b, const T* scale,
                                     PerRow<const T> x_scale, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_output([&](const Pixel& pixel, int k, int e) {
      const T t = x_scale[pixel.n], c = scale[epilogue.scale_index(k)];
      A s = 0;
      each_run(pixel, k, [&](int xi, int wi, int length) {
        for (int i = 0; i < length; ++i) s += A(decoded(float(x[xi + i]), t)) * A(decoded(float(w[wi + i]), c));
      });
      y[e] = epilogue.scaled_in_sum<T, T>(s, b, k);
    });
  }

  constexpr void forward_float8_quantized(const Float8E4M3* x, const Float8E4M3* w, Optional<const float> b,
                                          const float* scale, PerRow<const float> x_scale, const float* y_scale,
                                          Float8E4M3* y) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.float8_quantized(sum(x, w, pixel, k), b, scale, x_scale[pixel.n], y_scale[0], k);
    });
  }

  constexpr void forward_hybrid(const int8_t* x, const int8_t* w, Optional<const float> b, const float* scale,
                                const float* x_scale, const int32_t* x_zeros, float* y) const {
    each_output([&](const Pixel& pixel, int k, int e) {
      y[e] = epilogue.scaled<float>(float(dot(x, w, x_zeros[pixel.n], pixel, k)), b, scale, x_scale[pixel.n], k);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW];
    if (x.rank != 4 || w.rank != 4) return Code::kShapeRank;
    const uint32_t groups = words[kGroups] + 1;
    if (groups == 0 || uint32_t(x[3]) % groups != 0 || uint32_t(w[0]) % groups != 0) return Code::kGroups;
    if (uint32_t(w[3]) != uint32_t(x[3]) / groups) return Code::kShapeWeights;
    NACRE_TRY_CODE(EpilogueShapes({w[0], w.product(1, 4), 1, kClamp, kForm}).check(words, operands));
    return window_shape(words, x, w[1], w[2], w[0], y);
  }

  static constexpr Code shapes_fused(const Words& words, const Operands& operands, Dims* y) {
    return fused_shapes<Conv2d>(words, operands, y);
  }

  static constexpr auto kAttributes = joined(
      kWindowAttributes, kClampAttributes, {{"x_zero"}, {"y_zero"}, {"groups", Coding::kLessOne}, {"form"}, {"block"}});
  static constexpr const char* kInputs[] = {
      "x", "w", "bias?", "scale_or_residual?", "x_scale_or_zero?", "x_zero_or_y_scale?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr uint32_t kParameters = 1u << kW | 1u << kBias;

  // Makes the attributes of a gradient step for x: those of the step, {clamp .. block}, and the dims of x without the
  // batch.
  static constexpr int words_of_x(const Words& words, const Operands& operands, int, uint32_t* made) {
    for (int i = 0; i <= kBlock; ++i) made[i] = words[i];
    for (int axis = 1; axis < 4; ++axis) made[kBlock + axis] = uint32_t(operands[kX].dims[axis]);
    return kBlock + 4;
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>, .by = Op::kConv2dGradientX, .reads = kReads<gradient_of(0), input_of(kW)>, .words = &words_of_x},
      {.of = kOf<kW>, .by = Op::kConv2dGradientW, .reads = kReads<gradient_of(0), input_of(kX)>, .adds = true},
      {.of = kOf<kBias>,
       .by = Op::kBiasGradient,
       .reads = kReads<gradient_of(0)>,
       .adds = true,
       .words = &bias_words<kClamp>}};

 protected:
  static constexpr Conv2d make(const Words& words, Shape x, Shape y, int kernel_h, int kernel_w, int groups) {
    const int group_in = x[3] / groups;
    return {.batch = x[0],
            .in_c = x[3],
            .out_c = y[3],
            .group_in = group_in,
            .group_out = y[3] / groups,
            .w_channel = kernel_h * kernel_w * group_in,
            .w_column = group_in,
            .window = Window::from(words, kWindow, x, y, kernel_h, kernel_w),
            .x_zero = words.integer(kXZero),
            .epilogue = {.clamp = Clamp::from(words, kClamp), .y_zero = words.integer(kYZero), .per_channel = false}};
  }
  static constexpr bool has_channel_scales(const Operands& operands) {
    return operands.has(kScale) && operands[kScale][0] > 1;
  }

  static constexpr Code window_shape(const Words& words, Shape x, int kernel_h, int kernel_w, int out_c, Dims* y) {
    int out_h = 0, out_w = 0;
    NACRE_TRY_CODE(Window::sizes(words, kWindow, x, kernel_h, kernel_w, &out_h, &out_w));
    *y = {4, {x[0], out_h, out_w, out_c}};
    return Code::kOk;
  }

  // Describes one window. Its first tap that lies inside the tensor x has index `x` there, and index `w` in the weights
  // of channel 0. Its consecutive products form `rows` times `columns` runs of `length`. If no tap is inside x there
  // are no runs, and `x` may have wrapped.
  struct Pixel {
    int n;
    uint32_t x, w;
    int rows, columns, length;
  };

  // Calls f(pixel, output channel, e) for every element e of y. The calls are independent of each other.
  template <class F>
  constexpr void each_output(F f) const {
    if constexpr (kThreads) {
      const int columns = window.w.out, rows = window.h.out;
      for (int e : independent(batch * rows * columns * out_c)) {
        const int at = e / out_c, h = at / columns % rows;
        f(pixel_at(at / columns / rows, h, at % columns, window.h.taps(h)), e % out_c, e);
      }
    } else {
      int e = 0;
      each_pixel([&](const Pixel& pixel) {
        for (int k = 0; k < out_c; ++k, ++e) f(pixel, k, e);
      });
    }
  }

  // Calls f(pixel) for every position of y, in order. A whole row of the window is one run if the group has all
  // channels and columns are not dilated.
  template <class F>
  constexpr void each_pixel(F f) const {
    for (int n = 0; n < batch; ++n)
      for (int h = 0; h < window.h.out; ++h) {
        const WindowAxis::Taps rows = window.h.taps(h);
        for (int v = 0; v < window.w.out; ++v) f(pixel_at(n, h, v, rows));
      }
  }
  constexpr Pixel pixel_at(int n, int h, int v, const WindowAxis::Taps& rows) const {
    const bool whole_rows = group_in == in_c && w_column == in_c && window.w.dilation == 1;
    const WindowAxis::Taps columns = window.w.taps(v);
    const int count = columns.end - columns.first;
    const uint32_t row = uint32_t(n * window.h.in) + uint32_t(window.h.position(h, rows.first));
    const uint32_t first = row * uint32_t(window.w.in) + uint32_t(window.w.position(v, columns.first));
    return {.n = n,
            .x = first * uint32_t(in_c),
            .w = uint32_t((rows.first * window.w.kernel + columns.first) * w_column),
            .rows = rows.end - rows.first,
            .columns = whole_rows ? (count > 0 ? 1 : 0) : count,
            .length = whole_rows ? count * in_c : group_in};
  }

  // Calls f(index into x, index into w, length) for the runs of output k at `pixel`, in order of i, j, c. Indices are
  // unsigned, because those past the last run, which are not used, may be beyond int.
  template <class F>
  constexpr void each_run(const Pixel& pixel, int k, F f) const {
    uint32_t x_row = pixel.x + uint32_t(k / group_out * group_in), w_row = pixel.w + uint32_t(k * w_channel);
    const uint32_t x_columns = uint32_t(window.w.dilation) * uint32_t(in_c), w_columns = uint32_t(w_column);
    const uint32_t x_rows = uint32_t(window.h.dilation) * uint32_t(window.w.in) * uint32_t(in_c);
    const uint32_t w_rows = uint32_t(window.w.kernel) * w_columns;
    for (int i = 0; i < pixel.rows; ++i, x_row += x_rows, w_row += w_rows) {
      uint32_t xi = x_row, wi = w_row;
      for (int j = 0; j < pixel.columns; ++j, xi += x_columns, wi += w_columns) f(int(xi), int(wi), pixel.length);
    }
  }

 private:
  // Returns the sum of products of output k at `pixel`.
  template <class T, class W, class A = typename Element<T>::Accumulator>
  constexpr A sum(const T* x, const W* w, const Pixel& pixel, int k) const {
    A sum = 0;
    each_run(pixel, k, [&](int xi, int wi, int length) {
      for (int c = 0; c < length; ++c) sum += A(x[xi + c]) * element<A>(w, wi + c);
    });
    return sum;
  }

  // Returns the sum of products (x - zero) w of output k at `pixel`. The sum is unsigned: it wraps if that of an
  // untrusted model would overflow. That of a valid model does not.
  constexpr int32_t dot(const int8_t* x, const int8_t* w, int zero, const Pixel& pixel, int k) const {
    uint32_t sum = 0;
    each_run(pixel, k, [&](int xi, int wi, int length) {
      const int8_t *a = x + xi, *b = w + wi;
      uint32_t part = 0;  // kept in a register: `sum` is captured by reference
      for (int c = 0; c < length; ++c) part += (uint32_t(a[c]) - uint32_t(zero)) * uint32_t(b[c]);
      sum += part;
    });
    return int32_t(sum);
  }
};

struct DepthwiseConv2d : Conv2d {
  static constexpr DepthwiseConv2d from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX], w = operands[kW];
    DepthwiseConv2d op = {make(words, x, operands[operands.count - 1], w[0], w[1], x[3])};
    op.epilogue.per_channel = has_channel_scales(operands);
    op.w_channel = 1;
    op.w_column = w[2];
    return op;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW];
    if (x.rank != 4 || w.rank != 3) return Code::kShapeRank;
    if (words[kGroups] != 0) return Code::kGroups;
    if (w[2] % x[3] != 0) return Code::kShapeWeights;
    NACRE_TRY_CODE(EpilogueShapes({w[2], w[0] * w[1], 1, kClamp, kForm}).check(words, operands));
    return window_shape(words, x, w[0], w[1], w[2], y);
  }
  static constexpr Code shapes_fused(const Words& words, const Operands& operands, Dims* y) {
    return fused_shapes<DepthwiseConv2d>(words, operands, y);
  }

  static constexpr Gradient kGradients[] = {
      {.of = kOf<kX>,
       .by = Op::kDepthwiseConv2dGradientX,
       .reads = kReads<gradient_of(0), input_of(kW)>,
       .words = &words_of_x},
      {.of = kOf<kW>, .by = Op::kDepthwiseConv2dGradientW, .reads = kReads<gradient_of(0), input_of(kX)>, .adds = true},
      {.of = kOf<kBias>,
       .by = Op::kBiasGradient,
       .reads = kReads<gradient_of(0)>,
       .adds = true,
       .words = &bias_words<kClamp>}};
};

inline constexpr OpRule kConv2dRule = {.op = Op::kConv2d,
                                       .name = "conv2d",
                                       .numerics = Numerics::kMatmul,
                                       .shapes = &shapes_of_form<Conv2d>,
                                       .attributes = Conv2d::kAttributes,
                                       .inputs = Conv2d::kInputs,
                                       .outputs = Conv2d::kOutputs,
                                       .gradients = Conv2d::kGradients,
                                       .parameters = Conv2d::kParameters};
inline constexpr OpRule kDepthwiseConv2dRule = {.op = Op::kDepthwiseConv2d,
                                                .name = "depthwise_conv2d",
                                                .numerics = Numerics::kMatmul,
                                                .shapes = &shapes_of_form<DepthwiseConv2d>,
                                                .attributes = Conv2d::kAttributes,
                                                .inputs = Conv2d::kInputs,
                                                .outputs = Conv2d::kOutputs,
                                                .gradients = DepthwiseConv2d::kGradients,
                                                .parameters = Conv2d::kParameters};

}  // namespace nacre::inline NACRE_ISA
