// The backward pass of integer training through convolutions, pools and sums. integer_gradient.h explains errors,
// ranges, f, and the bounds low and high; conv_gradient.h explains the windows.
//
//   e int8 [batch, out_h, out_w, out_c]      x, dx int8 [batch, in_h, in_w, in_c]      w as in conv.h
//
//   conv2d_int8_gradient_w            dw_kijc += sum_{n,h,v} e_nhvk (x_npqc - zero), p = h sh - top + i dh,
//                                                                                     q = v sw - left + j dw
//   conv2d_int8_gradient_x            a_npqc = sum_{i,j} sum_k e_nhvk f_k w_kijc; dx from a as in dense_int8_gradient_x
//   depthwise_conv2d_int8_gradient_w  the same with w_ijk, and c = k / multiplier
//   depthwise_conv2d_int8_gradient_x
//   average_pool_int8_gradient        dx_npqc = e of the window that contains the pixel. The pixel's error is e / |W|;
//                                     the scale takes that factor. Windows do not overlap and have no pads
//   max_pool_int8_gradient            dx_npqc = e of the window if the pixel is its first maximum, else 0
//   mask_error                        dx = e if low < x < high, else 0: used after a step that passes errors unchanged
//   add_errors                        a = sum of e f 2^(E - E_0) of two errors of one value, E_0 the larger E;
//                                     y = clip(round(a / 2^(E_y - E_0))),   amax = max(amax, |a|)
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/integer_gradient.h"
#include "engine/ops/pool.h"

namespace nacre::inline NACRE_ISA {

// The attributes are those of the convolution. Gradients of w also have x_zero. Gradients of x also have low and
// high, with clamp 1.
struct ConvInt8Gradient : ConvGradient {
  // The words of the window alone, which check_conv takes.
  struct Plain {
    uint32_t data[kGroups + 1] = {};
    constexpr explicit Plain(const Words& words) {
      for (int i = 0; i < Window::kWords; ++i) data[i] = words[kWindow + i];
      data[kGroups] = words[kGroups];
    }
    constexpr Words words() const { return {data, kGroups + 1}; }
  };

  static constexpr Code check_w(const Words& words, const Operands& operands) {
    const Shape e = operands[0];
    for (const int word : {int{kClamp}, kClamp + 1, kClamp + 2, int{kYZero}, int{kForm}, int{kBlock}})
      if (words[word] != 0) return Code::kAttribute;
    NACRE_TRY_CODE(check_zero(words.integer(kXZero), ElementType::kInt8));
    return e.rank == 4 ? check_terms(operands, e.product(0, 3)) : Code::kShapeRank;
  }

  static constexpr Code check_x(const Words& words, const Operands& operands, Dims* dx) {
    for (const int word : {int{kXZero}, int{kYZero}, int{kForm}, int{kBlock}})
      if (words[word] != 0) return Code::kAttribute;
    if (words[kClamp] != Clamp::kBounds || !ErrorCodes::holds(words, kClamp + 1)) return Code::kAttribute;
    if (operands[0].rank != 4 || operands[3].rank != 4) return Code::kShapeRank;
    if (!is(operands, 2, operands[0][3])) return Code::kShapeScale;
    if (operands.has(4) && !is(operands, 4, 2)) return Code::kShapeScale;
    *dx = dims_of(operands[3]);
    return is(operands, 5, 2) && is(operands, 6, 1) ? Code::kOk : Code::kShapeScale;
  }

  static constexpr const char* kWInputs[] = {"error", "x", "&dw"};
  static constexpr const char* kXInputs[] = {"error", "w", "channel_factor", "x", "error_range?", "range", "&amax"};
};

struct Conv2dInt8GradientW : Conv2dFloat8GradientW {
  static constexpr Conv2dInt8GradientW from(const Words& words, const Operands& operands) {
    return {{Conv2dGradientW::from(words, operands)}};
  }

  // Takes one run of channels of a tap at a time, over all of x.
  constexpr void forward_int8(const int8_t* error, const int8_t* x, Update<int32_t> dw) const {
    const WindowAxis &h = window.h, &w = window.w;
    each_independent(out_c, h.kernel, w.kernel, runs_of(group_in), [&](int k, int i, int j, int run, int) {
      const int first = run * kRun, count = length_of_run(group_in, run);
      const int channel = k / group_out * group_in + first;
      int32_t sum[kRun] = {};
      each_read(i, j, [&](int pixel, int read) {
        const int32_t e = error[pixel * out_c + k];
        const int8_t* const from = x + read * in_c + channel;
        for (int c = 0; c < count; ++c) sum[c] += e * (from[c] - x_zero);
      });
      int32_t* const to = dw.data + k * w_channel + (i * w.kernel + j) * w_column + first;
      for (int c = 0; c < count; ++c) to[c] = saturating(int64_t{to[c]} + sum[c]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(ConvInt8Gradient::check_w(words, operands));
    return check_conv(ConvInt8Gradient::Plain(words).words(), operands[1], operands[2], operands[0]);
  }
};

struct DepthwiseConv2dInt8GradientW : Conv2dFloat8GradientW {
  static constexpr DepthwiseConv2dInt8GradientW from(const Words& words, const Operands& operands) {
    const Shape e = operands[0], x = operands[1], w = operands[2];
    return {{{{make(words, x, e, w[0], w[1], x[3])}}}};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* x, Update<int32_t> dw) const {
    const WindowAxis &h = window.h, &w = window.w;
    each_independent(h.kernel, w.kernel, 1, runs_of(out_c), [&](int i, int j, int, int run, int) {
      const int first = run * kRun, count = length_of_run(out_c, run);
      int32_t sum[kRun] = {};
      each_read(i, j, [&](int pixel, int read) {
        const int8_t *const e = error + pixel * out_c + first, *const from = x + read * in_c;
        for (int c = 0; c < count; ++c) {
          const int channel = group_out == 1 ? first + c : (first + c) / group_out;
          sum[c] += e[c] * (from[channel] - x_zero);
        }
      });
      int32_t* const to = dw.data + (i * w.kernel + j) * out_c + first;
      for (int c = 0; c < count; ++c) to[c] = saturating(int64_t{to[c]} + sum[c]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(ConvInt8Gradient::check_w(words, operands));
    return check_depthwise(ConvInt8Gradient::Plain(words).words(), operands[1], operands[2], operands[0]);
  }
};

struct Conv2dInt8GradientX : Conv2dGradientX {
  int low, high;

  static constexpr Conv2dInt8GradientX from(const Words& words, const Operands& operands) {
    const Shape e = operands[0], w = operands[1], x = operands[3];
    return {{{{make(words, x, e, w[1], w[2], words.integer(kGroups) + 1)}}},
            words.integer(kClamp + 1),
            words.integer(kClamp + 2)};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* w, const int32_t* channel_factor, const int8_t* x,
                              Optional<const int32_t> error_range, const int32_t* range, Update<uint32_t> amax,
                              int8_t* dx) const {
    const ErrorCodes codes(low, high, range, error_range);
    each_run_of_x([&](int n, int p, int q, int group, int first, int count, int at) {
      uint32_t sum[kRun] = {};
      each_use(n, p, q, [&](int pixel, int tap) {
        for (int k = group * group_out; k < (group + 1) * group_out; ++k) {
          const uint32_t e = uint32_t(int32_t{error[pixel * out_c + k]}) * uint32_t(channel_factor[k]);
          const int8_t* const from = w + k * w_channel + tap * w_column + first;
          for (int c = 0; c < count; ++c) sum[c] += e * uint32_t(int32_t{from[c]});
        }
      });
      codes.store(sum, count, x + at, dx + at, amax.data);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(ConvInt8Gradient::check_x(words, operands, dx));
    return check_conv(ConvInt8Gradient::Plain(words).words(), operands[3], operands[1], operands[0]);
  }
};

struct DepthwiseConv2dInt8GradientX : ConvGradient {
  int low, high;

  static constexpr DepthwiseConv2dInt8GradientX from(const Words& words, const Operands& operands) {
    const Shape e = operands[0], w = operands[1], x = operands[3];
    return {{make(words, x, e, w[0], w[1], x[3])}, words.integer(kClamp + 1), words.integer(kClamp + 2)};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* w, const int32_t* channel_factor, const int8_t* x,
                              Optional<const int32_t> error_range, const int32_t* range, Update<uint32_t> amax,
                              int8_t* dx) const {
    const ErrorCodes codes(low, high, range, error_range);
    const int runs = runs_of(in_c);
    each_source(runs, [&](int n, int p, int q, int run, int e) {
      const int first = run * kRun, count = length_of_run(in_c, run), at = e / runs * in_c + first;
      uint32_t sum[kRun] = {};
      each_use(n, p, q, [&](int pixel, int tap) {
        const int8_t *const d = error + pixel * out_c, *const from = w + tap * out_c;
        for (int c = 0; c < count; ++c)
          for (int k = (first + c) * group_out; k < (first + c + 1) * group_out; ++k)
            sum[c] += uint32_t(int32_t{d[k]}) * uint32_t(channel_factor[k]) * uint32_t(int32_t{from[k]});
      });
      codes.store(sum, count, x + at, dx + at, amax.data);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(ConvInt8Gradient::check_x(words, operands, dx));
    return check_depthwise(ConvInt8Gradient::Plain(words).words(), operands[3], operands[1], operands[0]);
  }
};

// Checks that windows do not overlap: a pixel of x is in one at most. Each window must have all of its taps.
constexpr Code check_apart(const Words& words) {
  for (int axis = 0; axis < 2; ++axis) {
    if (words[Pool::kWindow + axis] < words[Pool::kKernelH + axis]) return Code::kStride;
    if (words[Pool::kWindow + 2 + axis] != 0) return Code::kStride;
    if (words[Pool::kWindow + 4 + axis] != 0 || words[Pool::kWindow + 6 + axis] != 0) return Code::kPadding;
  }
  return Code::kOk;
}

struct AveragePoolInt8Gradient : PoolGradient {
  static constexpr AveragePoolInt8Gradient from(const Words& words, const Operands& operands) {
    return {{make(words, operands[1], operands[0])}};
  }

  // Computes dx. x is read only for its dims.
  constexpr void forward_int8(const int8_t* error, const int8_t*, int8_t* dx) const {
    each_source(dx, [&](int32_t* sum, const Use& at) {
      const int8_t* const e = error + index_of_y(at);
      for (int c = 0; c < at.count; ++c) sum[c] += e[c];
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Operands x = {operands.tensor + 1, 1, operands.rows};
    NACRE_TRY_CODE(check(words, x, operands[0]));
    *dx = dims_of(x[0]);
    return check_apart(words);
  }

  static constexpr const char* kInputs[] = {"error", "x"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct MaxPoolInt8Gradient : MaxPoolGradient {
  static constexpr MaxPoolInt8Gradient from(const Words& words, const Operands& operands) {
    return {MaxPoolGradient::from(words, operands)};
  }

  constexpr void forward_int8(const int8_t* error, const int8_t* x, int8_t* dx) const { forward(error, x, dx); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(MaxPoolGradient::shapes(words, operands, dx));
    return check_apart(words);
  }
};

struct MaskError {
  int elements, low, high;

  static constexpr MaskError from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.integer(0), words.integer(1)};
  }

  constexpr void forward(const int8_t* error, const int8_t* x, int8_t* dx) const {
    for (int i : independent(elements)) dx[i] = x[i] > low && x[i] < high ? error[i] : int8_t{0};
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    if (!ErrorCodes::holds(words, 0)) return Code::kAttribute;
    *dx = dims_of(operands[1]);
    return operands[0].elements() == operands[1].elements() ? Code::kOk : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"low"}, {"high"}};
  static constexpr const char* kInputs[] = {"error", "x"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct AddErrors {
  int elements;
  int32_t factor_a, factor_b;
  static constexpr int kFactorBits = 16;  // fraction bits of a factor; 1 is 2^16

  static constexpr AddErrors from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.integer(0), words.integer(1)};
  }

  constexpr void forward(const int8_t* a, const int8_t* b, Optional<const int32_t> a_range,
                         Optional<const int32_t> b_range, const int32_t* range, Update<uint32_t> amax,
                         int8_t* y) const {
    const int32_t ea = a_range ? a_range[0] : 0, eb = b_range ? b_range[0] : 0, largest = ea > eb ? ea : eb;
    const ErrorCodes codes(-129, 128, range, Optional<const int32_t>{&largest});
    for (int i : independent(elements)) {
      const int32_t sum =
          aligned(a[i] * factor_a, int64_t{largest} - ea) + aligned(b[i] * factor_b, int64_t{largest} - eb);
      const uint32_t bits = uint32_t(sum);
      codes.store(&bits, 1, a + i, y + i, amax.data);
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    for (const int word : {0, 1})
      if (words[word] > 1u << kFactorBits) return Code::kAttribute;
    for (const int slot : {2, 3})
      if (operands.has(slot) && !is(operands, slot, 2)) return Code::kShapeScale;
    if (!is(operands, 4, 2) || !is(operands, 5, 1)) return Code::kShapeScale;
    *y = dims_of(operands[0]);
    return same(operands[0], operands[1]) ? Code::kOk : Code::kShapeInput;
  }

  static constexpr Attribute kAttributes[] = {{"factor_a"}, {"factor_b"}};
  static constexpr const char* kInputs[] = {"a", "b", "a_range?", "b_range?", "range", "&amax"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  static constexpr int32_t aligned(int32_t v, int64_t down) {
    return down > 31 ? 0 : rounding_shift_right(v, int(down));
  }
};

inline constexpr OpRule kConv2dInt8GradientWRule = {.op = Op::kConv2dInt8GradientW,
                                                    .name = "conv2d_int8_gradient_w",
                                                    .numerics = Numerics::kMatmul,
                                                    .shapes = &Conv2dInt8GradientW::shapes,
                                                    .attributes = Conv2d::kAttributes,
                                                    .inputs = ConvInt8Gradient::kWInputs,
                                                    .outputs = {}};
inline constexpr OpRule kConv2dInt8GradientXRule = {.op = Op::kConv2dInt8GradientX,
                                                    .name = "conv2d_int8_gradient_x",
                                                    .numerics = Numerics::kMatmul,
                                                    .shapes = &Conv2dInt8GradientX::shapes,
                                                    .attributes = Conv2d::kAttributes,
                                                    .inputs = ConvInt8Gradient::kXInputs,
                                                    .outputs = ConvGradient::kXOutputs};
inline constexpr OpRule kDepthwiseConv2dInt8GradientWRule = {.op = Op::kDepthwiseConv2dInt8GradientW,
                                                             .name = "depthwise_conv2d_int8_gradient_w",
                                                             .numerics = Numerics::kMatmul,
                                                             .shapes = &DepthwiseConv2dInt8GradientW::shapes,
                                                             .attributes = Conv2d::kAttributes,
                                                             .inputs = ConvInt8Gradient::kWInputs,
                                                             .outputs = {}};
inline constexpr OpRule kDepthwiseConv2dInt8GradientXRule = {.op = Op::kDepthwiseConv2dInt8GradientX,
                                                             .name = "depthwise_conv2d_int8_gradient_x",
                                                             .numerics = Numerics::kMatmul,
                                                             .shapes = &DepthwiseConv2dInt8GradientX::shapes,
                                                             .attributes = Conv2d::kAttributes,
                                                             .inputs = ConvInt8Gradient::kXInputs,
                                                             .outputs = ConvGradient::kXOutputs};
inline constexpr OpRule kAveragePoolInt8GradientRule = {.op = Op::kAveragePoolInt8Gradient,
                                                        .name = "average_pool_int8_gradient",
                                                        .numerics = Numerics::kReduction,
                                                        .shapes = &AveragePoolInt8Gradient::shapes,
                                                        .attributes = Pool::kAttributes,
                                                        .inputs = AveragePoolInt8Gradient::kInputs,
                                                        .outputs = AveragePoolInt8Gradient::kOutputs};
inline constexpr OpRule kMaxPoolInt8GradientRule = {.op = Op::kMaxPoolInt8Gradient,
                                                    .name = "max_pool_int8_gradient",
                                                    .numerics = Numerics::kReduction,
                                                    .shapes = &MaxPoolInt8Gradient::shapes,
                                                    .attributes = Pool::kAttributes,
                                                    .inputs = AveragePoolInt8Gradient::kInputs,
                                                    .outputs = AveragePoolInt8Gradient::kOutputs};
inline constexpr OpRule kMaskErrorRule = {.op = Op::kMaskError,
                                          .name = "mask_error",
                                          .numerics = Numerics::kPointwise,
                                          .shapes = &MaskError::shapes,
                                          .attributes = MaskError::kAttributes,
                                          .inputs = MaskError::kInputs,
                                          .outputs = MaskError::kOutputs};
inline constexpr OpRule kAddErrorsRule = {.op = Op::kAddErrors,
                                          .name = "add_errors",
                                          .numerics = Numerics::kPointwise,
                                          .shapes = &AddErrors::shapes,
                                          .attributes = AddErrors::kAttributes,
                                          .inputs = AddErrors::kInputs,
                                          .outputs = AddErrors::kOutputs};

}  // namespace nacre::inline NACRE_ISA
