// Defines the gradients of the convolutions of conv.h, for the float form without a clamp.
//
//   dy [batch, out_h, out_w, out_c]      x, dx [batch, in_h, in_w, in_c]      w, dw as in conv.h
//
//   conv2d            dx_npqc = sum_{i,j} sum_{k in the group of c} dy_nhvk w_kijc     with (h, v) such that
//                                                       h sh - top + i dh = p, v sw - left + j dw = q; 0 where none is
//                     dw_kijc += sum_{n,h,v} dy_nhvk x_{n, h sh - top + i dh, v sw - left + j dw, c}
//   depthwise_conv2d  the same with w_ijk, and c = k / multiplier
//   bias              db_k += sum_{n,h,v} dy_nhvk (bias_gradient)
//
// If a stride is over 1, the size of y does not determine that of x. gradient_x therefore has it in the words {in_h,
// in_w, in_c}, so that x need not stay in memory.
//
// Training that multiplies float8 codes, x and w E4M3 and dy E5M2, has steps t_x, t_w and t_dy (ops/dense.h):
//
//   conv2d_gradient_x         dx_npqc = (t_dy t_w) (the sum of products of codes)
//   conv2d_float8_gradient_w  dw_kijc += (t_dy t_x) (the sum of products of codes)
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/conv.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

// Common part of the gradient steps: attributes and shape rules.
struct ConvGradient : Conv2d {
  enum XWord { kInH = kBlock + 1, kInW, kInC };

  // Checks that the step has no clamp, zero points, form or block. Steps with any of these have no such gradients.
  static constexpr Code real_form(const Words& words) {
    for (const int word : {int{kClamp}, kClamp + 1, kClamp + 2, int{kXZero}, int{kYZero}, int{kForm}, int{kBlock}})
      if (words[word] != 0) return Code::kAttribute;
    return Code::kOk;
  }

  // Reads the dims of x from the words, with the rows of this run.
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

  // Checks that y has the shape that conv2d, or depthwise_conv2d, makes of x and w.
  static constexpr Code check_conv(const Words& words, Shape x, Shape w, Shape y) {
    NACRE_TRY_CODE(real_form(words));
    if (x.rank != 4 || w.rank != 4 || y.rank != 4) return Code::kShapeRank;
    const uint32_t groups = words[kGroups] + 1;
    if (groups == 0 || uint32_t(x[3]) % groups != 0 || uint32_t(w[0]) % groups != 0) return Code::kGroups;
    if (uint32_t(w[3]) != uint32_t(x[3]) / groups) return Code::kShapeWeights;
    return check_output(words, x, y, {4, {x[0], w[1], w[2], w[0]}});
  }
  static constexpr Code check_depthwise(const Words& words, Shape x, Shape w, Shape y) {
    NACRE_TRY_CODE(real_form(words));
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
  // Calls f(n, p, q, j, e) for every pixel (p, q) of every image n of x, `more` times with j = 0, 1, .. e counts the
  // calls, which are independent of each other.
  template <class F>
  constexpr void each_source(int more, F f) const {
    each_independent(batch, window.h.in, window.w.in, more, f);
  }

  // Calls f(pixel of y, tap of w) for every product that contains pixel (p, q) of image n.
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
  // Checks y against a convolution of x with `made` = {batch, kernel_h, kernel_w, out_c}.
  static constexpr Code check_output(const Words& words, Shape x, Shape y, const Dims& made) {
    Dims expected;
    NACRE_TRY_CODE(window_shape(words, x, made.size[1], made.size[2], made.size[3], &expected));
    for (int axis = 0; axis < 4; ++axis)
      if (y[axis] != expected.size[axis]) return Code::kShapeInput;
    return Code::kOk;
  }
};

struct Conv2dGradientX : ConvGradient {
  static constexpr Conv2dGradientX from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], w = operands[1], x = operands[operands.count - 1];
    return {{make(words, x, y, w[1], w[2], words.integer(kGroups) + 1)}};
  }

  template <class T>
  constexpr void forward(const T* dy, const T* w, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each_run_of_x([&](int n, int p, int q, int group, int first, int count, int at) {
      A sum[kRun] = {};
      add_uses(dy, w + first, n, p, q, group, count, sum);
      for (int c = 0; c < count; ++c) dx[at + c] = T(sum[c]);
    });
  }

  template <class T>
  constexpr void forward_codes(const Float8E5M2* dy, const Float8E4M3* w, const float* w_step, const float* dy_step,
                               T* dx) const {
    const float step = dy_step[0] * w_step[0];
    each_run_of_x([&](int n, int p, int q, int group, int first, int count, int at) {
      float sum[kRun] = {};
      add_uses(dy, w + first, n, p, q, group, count, sum);
      for (int c = 0; c < count; ++c) dx[at + c] = T(sum[c] * step);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    if (y.rank != 4) return Code::kShapeRank;
    if (operands.has(2) != operands.has(3)) return Code::kShapeScale;
    if (operands.has(2) && (!is(operands, 2, 1) || !is(operands, 3, 1))) return Code::kShapeScale;
    NACRE_TRY_CODE(x_dims(words, y, dx));
    return check_conv(words, {4, dx->size, 0}, operands[1], y);
  }

  static constexpr const char* kInputs[] = {"dy", "w", "w_step?", "dy_step?"};

 protected:
  // Calls f(n, p, q, group, first, count, at) for every run of `count` channels from `first` on, of a group of pixel
  // (p, q) of image n. The run begins at dx[at].
  template <class F>
  constexpr void each_run_of_x(F f) const {
    const int runs = runs_of(group_in), more = in_c / group_in * runs;
    each_source(more, [&](int n, int p, int q, int run, int e) {
      const int group = run / runs, first = run % runs * kRun;
      f(n, p, q, group, first, length_of_run(group_in, run % runs), e / more * in_c + group * group_in + first);
    });
  }

 private:
  // Adds to the gradients of `count` channels of one pixel and group. w begins at the first of these channels.
  template <class D, class W, class A>
  constexpr void add_uses(const D* dy, const W* w, int n, int p, int q, int group, int count, A* sum) const {
    each_use(n, p, q, [&](int pixel, int tap) {
      for (int k = group * group_out; k < (group + 1) * group_out; ++k) {
        const A d = A(dy[pixel * out_c + k]);
        const W* from = w + k * w_channel + tap * w_column;
        for (int c = 0; c < count; ++c) sum[c] += d * A(from[c]);
      }
    });
  }
};

struct Conv2dGradientW : ConvGradient {
  static constexpr Conv2dGradientW from(const Words& words, const Operands& operands) {
    const Shape y = operands[0], x = operands[1], w = operands[operands.count - 1];
    return {{make(words, x, y, w[1], w[2], words.integer(kGroups) + 1)}};
  }

  // Takes a few filters at a time, over all of x, so that their sums stay in the cache.
  template <class T>
  constexpr void forward(const T* dy, const T* x, Update<typename Element<T>::Accumulator> dw) const {
    using A = typename Element<T>::Accumulator;
    constexpr int kFilters = kThreads ? 1 : 8;
    for (int block : independent((out_c - 1) / kFilters + 1)) {
      const int first = block * kFilters, end = out_c - first < kFilters ? out_c : first + kFilters;
      uint32_t pixels = 0;  // unsigned, because past the last pixel it may be beyond int
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

struct Conv2dFloat8GradientW : Conv2dGradientW {
  static constexpr Conv2dFloat8GradientW from(const Words& words, const Operands& operands) {
    return {Conv2dGradientW::from(words, operands)};
  }

  // Takes one run of channels of a tap at a time, over all of x. Its sums are multiplied by the steps before they are
  // added.
  constexpr void forward_codes(const Float8E5M2* dy, const Float8E4M3* x, const float* dy_step, const float* x_step,
                               Update<float> dw) const {
    const float step = dy_step[0] * x_step[0];
    const WindowAxis &h = window.h, &w = window.w;
    each_independent(out_c, h.kernel, w.kernel, runs_of(group_in), [&](int k, int i, int j, int run, int) {
      const int first = run * kRun, count = length_of_run(group_in, run);
      const int channel = k / group_out * group_in + first;
      float sum[kRun] = {};
      each_read(i, j, [&](int pixel, int read) {
        const float d = float(dy[pixel * out_c + k]);
        const Float8E4M3* from = x + read * in_c + channel;
        for (int c = 0; c < count; ++c) sum[c] += d * float(from[c]);
      });
      float* const to = dw.data + k * w_channel + (i * w.kernel + j) * w_column + first;
      for (int c = 0; c < count; ++c) to[c] += sum[c] * step;
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    if (!is(operands, 2, 1) || !is(operands, 3, 1)) return Code::kShapeScale;
    return check_conv(words, operands[1], operands[4], operands[0]);
  }

  static constexpr const char* kInputs[] = {"dy", "x", "dy_step", "x_step", "&dw"};

 protected:
  // Calls f(pixel of y, pixel of x) for every product that contains tap (i, j) of the windows.
  template <class F>
  constexpr void each_read(int i, int j, F f) const {
    const WindowAxis &h = window.h, &w = window.w;
    for (int n = 0; n < batch; ++n)
      for (int o = 0; o < h.out; ++o) {
        const int p = h.position(o, i);
        if (!h.inside(p)) continue;
        for (int v = 0; v < w.out; ++v)
          if (const int q = w.position(v, j); w.inside(q)) f((n * h.out + o) * w.out + v, (n * h.in + p) * w.in + q);
      }
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
    NACRE_TRY_CODE(x_dims(words, y, dx));
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
    if constexpr (kThreads) return by_weight<T, A>(dy, x, dw.data);
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

 private:
  // Makes one weight at a time, each by a team of threads. The terms of each weight are those of forward.
  template <class T, class A>
  constexpr void by_weight(const T* dy, const T* x, A* dw) const {
    const WindowAxis &h = window.h, &w = window.w;
    for (int e : teams(h.kernel * w.kernel * out_c)) {
      const int k = e % out_c, i = e / out_c / w.kernel, j = e / out_c % w.kernel;
      A sum = leads() ? dw[e] : A(0);
      for (int pixel : of_team(batch * h.out * w.out)) {
        const int n = pixel / w.out / h.out, p = h.position(pixel / w.out % h.out, i), q = w.position(pixel % w.out, j);
        if (h.inside(p) && w.inside(q))
          sum += A(dy[pixel * out_c + k]) * A(x[((n * h.in + p) * w.in + q) * in_c + k / group_out]);
      }
      sum = team_sum(sum);
      if (leads()) dw[e] = sum;
    }
  }
};

inline constexpr OpRule kConv2dGradientXRule = {.op = Op::kConv2dGradientX,
                                                .name = "conv2d_gradient_x",
                                                .numerics = Numerics::kMatmul,
                                                .shapes = &Conv2dGradientX::shapes,
                                                .attributes = ConvGradient::kXAttributes,
                                                .inputs = Conv2dGradientX::kInputs,
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
                                                         .outputs = {},
                                                         .threads = {.teams = &elements_of_last}};
inline constexpr OpRule kConv2dFloat8GradientWRule = {.op = Op::kConv2dFloat8GradientW,
                                                      .name = "conv2d_float8_gradient_w",
                                                      .numerics = Numerics::kMatmul,
                                                      .shapes = &Conv2dFloat8GradientW::shapes,
                                                      .attributes = Conv2d::kAttributes,
                                                      .inputs = Conv2dFloat8GradientW::kInputs,
                                                      .outputs = {}};

}  // namespace nacre::inline NACRE_ISA
