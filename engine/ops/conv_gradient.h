// Gradients of the convolutions of conv.h, of the float form without a clamp.
//
//   dy [batch, out_h, out_w, out_c]      x, dx [batch, in_h, in_w, in_c]      w, dw as in conv.h
//
//   conv2d            dx_npqc = sum_{i,j} sum_{k in the group of c} dy_nhvk w_kijc     with (h, v) such that
//                                                       h sh - top + i dh = p, v sw - left + j dw = q; 0 where none is
//                     dw_kijc += sum_{n,h,v} dy_nhvk x_{n, h sh - top + i dh, v sw - left + j dw, c}
//   depthwise_conv2d  the same with w_ijk, and c = k / multiplier
//   bias              db_k += sum_{n,h,v} dy_nhvk (bias_gradient)
//
// With a stride over 1 the size of y does not determine that of x: gradient_x has it in the words {in_h, in_w, in_c},
// so that x need not stay in memory.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/conv.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

// What the gradient steps share: attributes, and their shape rules.
struct ConvGradient : Conv2d {
  enum XWord { kInH = kBlock + 1, kInW, kInC };

  // Gradients are of the float form without a clamp.
  static constexpr Code real_form(const Words& words) {
    for (const int word : {int{kClamp}, kClamp + 1, kClamp + 2, int{kXZero}, int{kYZero}, int{kForm}, int{kBlock}})
      if (words[word] != 0) return Code::kAttribute;
    return Code::kOk;
  }

  // The dims of x from the words, with the rows of this run.
  static constexpr Code x_dims(const Words& words, Shape y, Dims* x) {
    x->push(y[0]);
    int64_t elements = y[0];
    for (const int word : {int{kInH}, int{kInW}, int{kInC}}) {
      if (words[word] < 1 || words[word] > 1u << 28) return Code::kAttribute;
      if ((elements *= words[word]) > INT32_MAX) return Code::kElements;
      x->push(words.integer(word));
    }
    return Code::kOk;
  }

  // Whether y is what conv2d, or depthwise_conv2d, makes of x and w.
  static constexpr Code check_conv(const Words& words, Shape x, Shape w, Shape y) {
    TRY_CODE(real_form(words));
    if (x.rank != 4 || w.rank != 4 || y.rank != 4) return Code::kShapeRank;
    const uint32_t groups = words[kGroups] + 1;
    if (groups == 0 || uint32_t(x[3]) % groups != 0 || uint32_t(w[0]) % groups != 0) return Code::kGroups;
    if (uint32_t(w[3]) != uint32_t(x[3]) / groups) return Code::kShapeWeights;
    return check_output(words, x, y, {4, {x[0], w[1], w[2], w[0]}});
  }
  static constexpr Code check_depthwise(const Words& words, Shape x, Shape w, Shape y) {
    TRY_CODE(real_form(words));
    if (x.rank != 4 || w.rank != 3 || y.rank != 4) return Code::kShapeRank;
    if (words[kGroups] != 0) return Code::kGroups;
    if (w[2] % x[3] != 0) return Code::kShapeWeights;
    return check_output(words, x, y, {4, {x[0], w[0], w[1], w[2]}});
  }

  static constexpr auto kXAttributes = joined(kAttributes, {{"in_h"}, {"in_w"}, {"in_c"}});
  static constexpr const char* kXInputs[] = {"dy", "w"};
  static constexpr const char* kXOutputs[] = {"dx"};
  static constexpr const char* kWInputs[] = {"dy", "x", "&dw"};

 protected:
  // f(n, p, q, j, e) for every pixel (p, q) of every image n of x, and `more` times for each: e counts them,
  // independent of each other.
  template <class F>
  constexpr void each_source(int more, F f) const {
    each_independent(batch, window.h.in, window.w.in, more, f);
  }

  // f(pixel of y, tap of w) for every product that pixel (p, q) of image n is in.
  template <class F>
  constexpr void each_use(int n, int p, int q, F f) const {
    for (int i = 0; i < window.h.kernel; ++i) {
      const int h = window.h.output(p, i);
      if (h < 0) continue;
      for (int j = 0; j < window.w.kernel; ++j) {
        const int v = window.w.output(q, j);
        if (v >= 0) f((n * window.h.out + h) * window.w.out + v, i * window.w.kernel + j);
      }
    }
  }

 private:
  // made: {batch, kernel_h, kernel_w, out_c}
  static constexpr Code check_output(const Words& words, Shape x, Shape y, const Dims& made) {
    Dims expected;
    TRY_CODE(window_shape(words, x, made.size[1], made.size[2], made.size[3], &expected));
    for (int axis = 0; axis < 4; ++axis)
      if (y[axis] != expected.size[axis]) return Code::kShapeInput;
    return Code::kOk;
  }
};

struct Conv2dGradientX : ConvGradient {
  static constexpr Conv2dGradientX from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], w = operands[1], x = operands[2];
    return {{make(words, x, y, w[1], w[2], words.integer(kGroups) + 1)}};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* w, T* dx) const {
    const int runs = runs_of(group_in);
    each_source(in_c / group_in * runs, [&](int n, int p, int q, int at, int e) {
      const int group = at / runs, first = at % runs * kRun, pixel = e / (in_c / group_in * runs);
      const int count = length_of_run(group_in, at % runs);
      run(dy, w + first, n, p, q, group, count, dx + pixel * in_c + group * group_in + first);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    if (y.rank != 4) return Code::kShapeRank;
    TRY_CODE(x_dims(words, y, dx));
    return check_conv(words, {4, dx->size, 0}, operands[1], y);
  }

 private:
  // `count` channels of one pixel and group; w begins at the first of them.
  template <class T>
  constexpr void run(const T* dy, const T* w, int n, int p, int q, int group, int count, T* dx) const {
    using A = typename Element<T>::Accumulator;
    A sum[kRun] = {};
    each_use(n, p, q, [&](int pixel, int tap) {
      for (int k = group * group_out; k < (group + 1) * group_out; ++k) {
        const A d = A(dy[pixel * out_c + k]);
        const T* from = w + k * w_channel + tap * w_column;
        for (int c = 0; c < count; ++c) sum[c] += d * A(from[c]);
      }
    });
    for (int c = 0; c < count; ++c) dx[c] = T(sum[c]);
  }
};

struct Conv2dGradientW : ConvGradient {
  static constexpr Conv2dGradientW from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], x = operands[1], w = operands[2];
    return {{make(words, x, y, w[1], w[2], words.integer(kGroups) + 1)}};
  }

  // A few filters at a time, over all of x: their sums stay in the cache.
  template <class T>
  constexpr void forward(const T* dy, const T* x, Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    constexpr int kFilters = kThreads ? 1 : 8;
    for (int block : independent((out_c - 1) / kFilters + 1)) {
      const int first = block * kFilters, end = out_c - first < kFilters ? out_c : first + kFilters;
      uint32_t pixels = 0;  // unsigned: past the last pixel it may be beyond int
      each_pixel([&](const Pixel& pixel) {
        for (int k = first; k < end; ++k) {
          const A d = A(dy[pixels + uint32_t(k)]);
          each_run(pixel, k, [&](int xi, int wi, int length) {
            const T* from = x + xi;
            A* sum = dw.data + wi;
            for (int c = 0; c < length; ++c) sum[c] += d * A(from[c]);
          });
        }
        pixels += uint32_t(out_c);
      });
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    return check_conv(words, operands[1], operands[2], operands[0]);
  }
};

struct DepthwiseConv2dGradientX : ConvGradient {
  static constexpr DepthwiseConv2dGradientX from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], w = operands[1], x = operands[2];
    return {{make(words, x, y, w[0], w[1], x[3])}};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* w, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const int runs = runs_of(in_c);
    each_source(runs, [&](int n, int p, int q, int run, int e) {
      const int first = run * kRun, count = length_of_run(in_c, run);
      A sum[kRun] = {};
      each_use(n, p, q, [&](int pixel, int tap) {
        const T *d = dy + pixel * out_c + first * group_out, *from = w + tap * out_c + first * group_out;
        for (int c = 0; c < count; ++c)
          for (int m = 0; m < group_out; ++m) sum[c] += A(d[c * group_out + m]) * A(from[c * group_out + m]);
      });
      for (int c = 0; c < count; ++c) dx[e / runs * in_c + first + c] = T(sum[c]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    if (y.rank != 4) return Code::kShapeRank;
    TRY_CODE(x_dims(words, y, dx));
    return check_depthwise(words, {4, dx->size, 0}, operands[1], y);
  }
};

struct DepthwiseConv2dGradientW : ConvGradient {
  static constexpr DepthwiseConv2dGradientW from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], x = operands[1], w = operands[2];
    return {{make(words, x, y, w[0], w[1], x[3])}};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* x, Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    for (int run : independent(runs_of(in_c))) {
      const int first = run * kRun, end = first + length_of_run(in_c, run);
      const T* from = x;
      for (int n = 0; n < batch; ++n)
        for (int p = 0; p < window.h.in; ++p)
          for (int q = 0; q < window.w.in; ++q, from += in_c)
            each_use(n, p, q, [&](int pixel, int tap) {
              const T* d = dy + pixel * out_c;
              A* sum = dw.data + tap * out_c;
              for (int c = first; c < end; ++c)
                for (int m = 0; m < group_out; ++m) sum[c * group_out + m] += A(d[c * group_out + m]) * A(from[c]);
            });
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    return check_depthwise(words, operands[1], operands[2], operands[0]);
  }
};

inline constexpr OpRule kConv2dGradientXRule = {.op = Op::kConv2dGradientX,
                                                .name = "conv2d_gradient_x",
                                                .numerics = Numerics::kMatmul,
                                                .shapes = &Conv2dGradientX::shapes,
                                                .attributes = ConvGradient::kXAttributes,
                                                .inputs = ConvGradient::kXInputs,
                                                .outputs = ConvGradient::kXOutputs};
inline constexpr OpRule kConv2dGradientWRule = {.op = Op::kConv2dGradientW,
                                                .name = "conv2d_gradient_w",
                                                .numerics = Numerics::kMatmul,
                                                .shapes = &Conv2dGradientW::shapes,
                                                .attributes = Conv2d::kAttributes,
                                                .inputs = ConvGradient::kWInputs,
                                                .outputs = {}};
inline constexpr OpRule kDepthwiseConv2dGradientXRule = {.op = Op::kDepthwiseConv2dGradientX,
                                                         .name = "depthwise_conv2d_gradient_x",
                                                         .numerics = Numerics::kMatmul,
                                                         .shapes = &DepthwiseConv2dGradientX::shapes,
                                                         .attributes = ConvGradient::kXAttributes,
                                                         .inputs = ConvGradient::kXInputs,
                                                         .outputs = ConvGradient::kXOutputs};
inline constexpr OpRule kDepthwiseConv2dGradientWRule = {.op = Op::kDepthwiseConv2dGradientW,
                                                         .name = "depthwise_conv2d_gradient_w",
                                                         .numerics = Numerics::kMatmul,
                                                         .shapes = &DepthwiseConv2dGradientW::shapes,
                                                         .attributes = Conv2d::kAttributes,
                                                         .inputs = ConvGradient::kWInputs,
                                                         .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
