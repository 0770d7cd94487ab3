// Pools over NHWC, with explicit pads and dilation. A global pool has the whole map as its kernel.
//
//   x [batch, in_h, in_w, channels]   y [batch, out_h, out_w, channels]
//   W = the taps of output (h, v) that lie inside x
//
//   average_pool   y_nhvc = clamp(sum_W x / |W|), or / (kernel_h kernel_w) with count_include_pad
//   max_pool       y_nhvc = clamp(max_W x)
//
// int8 has one quantizer for x and y, so codes are averaged: rounded half away from zero, NUMERICS.md eq. 9.
#pragma once

#include <limits>

#include "engine/numeric/element.h"
#include "engine/ops/window.h"

namespace nacre {

struct Pool {
  int batch, channels;
  Window window;
  bool count_include_pad;
  Clamp clamp;

  enum Word { kWindow = 0, kKernelH = 8, kKernelW = 9, kCountIncludePad = 10, kClamp = 11 };

  static Pool from(const Words& words, const Operands& operands) {
    const Shape x = operands[0], y = operands[operands.count - 1];
    return {.batch = x[0],
            .channels = x[3],
            .window = Window::from(words, kWindow, x, y, words.integer(kKernelH) + 1, words.integer(kKernelW) + 1),
            .count_include_pad = words[kCountIncludePad] != 0,
            .clamp = Clamp::from(words, kClamp)};
  }

  template <class T>
  void average(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_output([&](int n, int h, int v, int c) {
      A sum = 0;
      int count = 0;
      each_tap(n, h, v, c, [&](int i) { sum += A(x[i]), ++count; });
      *y++ = T(clamp.real(sum / A(divisor(count))));
    });
  }

  void average_int8(const int8_t* x, int8_t* y) const {
    each_output([&](int n, int h, int v, int c) {
      int32_t sum = 0;
      int count = 0;
      each_tap(n, h, v, c, [&](int i) { sum += x[i], ++count; });
      *y++ = clamp.code(sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count);
    });
  }

  template <class T>
  void max(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_output([&](int n, int h, int v, int c) {
      A peak = -std::numeric_limits<A>::infinity();
      each_tap(n, h, v, c, [&](int i) { peak = A(x[i]) > peak ? A(x[i]) : peak; });
      *y++ = T(clamp.real(peak));
    });
  }

  void max_int8(const int8_t* x, int8_t* y) const {
    each_output([&](int n, int h, int v, int c) {
      int8_t peak = -128;
      each_tap(n, h, v, c, [&](int i) { peak = x[i] > peak ? x[i] : peak; });
      *y++ = clamp.code(peak);
    });
  }

  uint64_t work() const {
    return uint64_t(batch) * uint64_t(window.h.out) * uint64_t(window.w.out) * uint64_t(channels) *
           uint64_t(window.h.kernel) * uint64_t(window.w.kernel);
  }

  static Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (x.rank != 4) return Code::kShapeRank;
    if (words[kKernelH] >= kMaxWindow || words[kKernelW] >= kMaxWindow) return Code::kStride;
    if (words[kCountIncludePad] > 1) return Code::kAttribute;
    TRY_CODE(check_clamp(words, kClamp, operands.element(0)));
    const int kernel_h = words.integer(kKernelH) + 1, kernel_w = words.integer(kKernelW) + 1;
    int out_h = 0, out_w = 0;
    TRY_CODE(Window::sizes(words, kWindow, x, kernel_h, kernel_w, &out_h, &out_w));
    TRY_CODE(check_taps(words, x, kernel_h, kernel_w));
    if (operands.element(0) == ElementType::kInt8) TRY_CODE(check_int8(words, kernel_h * kernel_w));
    *y = {4, {x[0], out_h, out_w, x[3]}};
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {
      kWindowAttributes[0],
      kWindowAttributes[1],
      kWindowAttributes[2],
      kWindowAttributes[3],
      kWindowAttributes[4],
      kWindowAttributes[5],
      kWindowAttributes[6],
      kWindowAttributes[7],
      {"kernel_h", Coding::kLessOne},
      {"kernel_w", Coding::kLessOne},
      {"count_include_pad"},
      {"clamp"},
      {"low", Coding::kBound},
      {"high", Coding::kBound}};
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  int divisor(int count) const { return count_include_pad ? window.h.kernel * window.w.kernel : count; }

  // Every window has a tap inside x. Pads are less than the span, so a window without one needs a dilation over the
  // size of x; such pools are refused.
  static Code check_taps(const Words& words, Shape x, int kernel_h, int kernel_w) {
    const bool h = kernel_h == 1 || words.integer(kWindow + 2) < x[1];
    const bool w = kernel_w == 1 || words.integer(kWindow + 3) < x[2];
    return h && w ? Code::kOk : Code::kWindow;
  }

  // A sum of 2^23 codes and half the count fit into int32. A padded position would count as the zero point, which the
  // step does not know: count_include_pad is for windows without pads.
  static Code check_int8(const Words& words, int taps) {
    const uint32_t pads = words[kWindow + 4] | words[kWindow + 5] | words[kWindow + 6] | words[kWindow + 7];
    if (words[kCountIncludePad] != 0 && pads != 0) return Code::kAttribute;
    return taps > (1 << 23) ? Code::kAccumulator : Code::kOk;
  }

  template <class F>
  void each_output(F f) const {
    for (int n = 0; n < batch; ++n)
      for (int h = 0; h < window.h.out; ++h)
        for (int v = 0; v < window.w.out; ++v)
          for (int c = 0; c < channels; ++c) f(n, h, v, c);
  }

  // f(index into x) for every tap of output (n, h, v, c) inside x.
  template <class F>
  void each_tap(int n, int h, int v, int c, F f) const {
    for (int i = 0; i < window.h.kernel; ++i) {
      const int row = window.h.position(h, i);
      if (!window.h.inside(row)) continue;
      for (int j = 0; j < window.w.kernel; ++j) {
        const int column = window.w.position(v, j);
        if (window.w.inside(column)) f(((n * window.h.in + row) * window.w.in + column) * channels + c);
      }
    }
  }
};

inline constexpr OpRule kAveragePoolRule = {Op::kAveragePool,  "average_pool", Numerics::kReduction, &Pool::shapes,
                                            Pool::kAttributes, Pool::kInputs,  Pool::kOutputs};
inline constexpr OpRule kMaxPoolRule = {Op::kMaxPool,      "max_pool",    Numerics::kReduction, &Pool::shapes,
                                        Pool::kAttributes, Pool::kInputs, Pool::kOutputs};

}  // namespace nacre
