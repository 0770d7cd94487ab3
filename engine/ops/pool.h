// Defines pools over NHWC, with explicit pads and dilation. A global pool has the whole map as its kernel.
//
//   x [batch, in_h, in_w, channels]   y [batch, out_h, out_w, channels]
//   W = the taps of output (h, v) that lie inside x
//
//   average_pool   y_nhvc = clamp(sum_W x / |W|), or / (kernel_h kernel_w) with count_include_pad
//   max_pool       y_nhvc = clamp(max_W x), NaN if W contains a NaN (NUMERICS.md eq. 49)
//
// In int8 and int16, x and y have one quantizer. So the codes are averaged, rounded half away from zero (NUMERICS.md
// eq. 9).
//
// Backward, without a clamp. V is the set of outputs whose windows contain the pixel (p, q) of x:
//
//   average_pool   dx_npqc = sum_V dy_nhvc / |W_hv|
//   max_pool       dx_npqc = sum of dy_nhvc over the outputs in V whose maximum is at (p, q). If values are equal, the
//                  first in a window is the maximum, as in TensorFlow and PyTorch on a CPU. If a window has NaN, its
//                  last NaN is the maximum, as in PyTorch.
#pragma once

#include <limits>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/window.h"

namespace nacre::inline NACRE_ISA {

struct Pool {
  int batch, channels;
  Window window;
  bool count_include_pad;
  Clamp clamp;

  enum Word { kWindow = 0, kKernelH = 8, kKernelW = 9, kCountIncludePad = 10, kClamp = 11, kHigh = 13 };

  static constexpr Pool from(const Words& words, const Operands& operands) {
    return make(words, operands[0], operands[operands.count - 1]);
  }

  template <class T>
  constexpr void average(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_output([&](int n, int h, int v, int c, int e) {
      A sum = 0;
      int count = 0;
      each_tap(n, h, v, c, [&](int i) { sum += A(x[i]), ++count; });
      y[e] = T(clamp.real(sum / A(divisor(count))));
    });
  }

  template <class Q>  // int8_t or int16_t
  constexpr void average_codes(const Q* x, Q* y) const {
    each_output([&](int n, int h, int v, int c, int e) {
      int32_t sum = 0;
      int count = 0;
      each_tap(n, h, v, c, [&](int i) { sum += x[i], ++count; });
      y[e] = clamp.code<Q>(sum > 0 ? (sum + count / 2) / count : (sum - count / 2) / count);
    });
  }

  template <class T>
  constexpr void max(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_output([&](int n, int h, int v, int c, int e) {
      A peak = -std::numeric_limits<A>::infinity();
      each_tap(n, h, v, c, [&](int i) { peak = replaces(A(x[i]), peak) ? A(x[i]) : peak; });
      y[e] = T(clamp.real(peak));
    });
  }

  template <class Q>
  constexpr void max_codes(const Q* x, Q* y) const {
    each_output([&](int n, int h, int v, int c, int e) {
      Q peak = std::numeric_limits<Q>::min();
      each_tap(n, h, v, c, [&](int i) { peak = x[i] > peak ? x[i] : peak; });
      y[e] = clamp.code<Q>(peak);
    });
  }

  constexpr uint64_t work() const {
    return uint64_t(batch) * uint64_t(window.h.out) * uint64_t(window.w.out) * uint64_t(channels) *
           uint64_t(window.h.kernel) * uint64_t(window.w.kernel);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (x.rank != 4) return Code::kShapeRank;
    if (words[kKernelH] >= kMaxWindow || words[kKernelW] >= kMaxWindow) return Code::kStride;
    if (words[kCountIncludePad] > 1) return Code::kAttribute;
    NACRE_TRY_CODE(check_clamp(words, kClamp, operands.element(0)));
    const int kernel_h = words.integer(kKernelH) + 1, kernel_w = words.integer(kKernelW) + 1;
    int out_h = 0, out_w = 0;
    NACRE_TRY_CODE(Window::sizes(words, kWindow, x, kernel_h, kernel_w, &out_h, &out_w));
    NACRE_TRY_CODE(check_taps(words, x, kernel_h, kernel_w));
    if (holds_codes(operands.element(0))) NACRE_TRY_CODE(check_codes(words, operands.element(0), kernel_h * kernel_w));
    *y = {4, {x[0], out_h, out_w, x[3]}};
    return Code::kOk;
  }

  static constexpr auto kAttributes =
      joined(kWindowAttributes, {{"kernel_h", Coding::kLessOne}, {"kernel_w", Coding::kLessOne}, {"count_include_pad"}},
             kClampAttributes);
  static constexpr const char* kInputs[] = {"x"};
  static constexpr const char* kOutputs[] = {"y"};

  // Makes the attributes of average_pool_gradient: those of the step and {in_h, in_w}, so that x need not stay in
  // memory.
  static constexpr int words_of_x(const Words& words, const Operands& operands, int, uint32_t* made) {
    for (int i = 0; i <= kHigh; ++i) made[i] = words[i];
    for (int axis = 1; axis < 3; ++axis) made[kHigh + axis] = uint32_t(operands[0].dims[axis]);
    return kHigh + 3;
  }
  static constexpr Gradient kAverageGradients[] = {
      {.of = kOf<0>, .by = Op::kAveragePoolGradient, .reads = kReads<gradient_of(0)>, .words = &words_of_x}};
  static constexpr Gradient kMaxGradients[] = {
      {.of = kOf<0>, .by = Op::kMaxPoolGradient, .reads = kReads<gradient_of(0), input_of(0)>}};

 protected:
  static constexpr Pool make(const Words& words, Shape x, Shape y) {
    return {.batch = x[0],
            .channels = x[3],
            .window = Window::from(words, kWindow, x, y, words.integer(kKernelH) + 1, words.integer(kKernelW) + 1),
            .count_include_pad = words[kCountIncludePad] != 0,
            .clamp = Clamp::from(words, kClamp)};
  }

  // Returns whether the value of a later tap replaces the maximum.
  template <class A>
  static constexpr bool replaces(A later, A peak) {
    return later > peak || later != later;
  }

  constexpr int divisor(int count) const { return count_include_pad ? window.h.kernel * window.w.kernel : count; }

  // Checks that every window has a tap inside x. Pads are less than the span, so a window without one needs a
  // dilation over the size of x. Such pools are refused.
  static constexpr Code check_taps(const Words& words, Shape x, int kernel_h, int kernel_w) {
    const bool h = kernel_h == 1 || words.integer(kWindow + 2) < x[1];
    const bool w = kernel_w == 1 || words.integer(kWindow + 3) < x[2];
    return h && w ? Code::kOk : Code::kWindow;
  }

  // Checks that sums fit into int32: 2^23 codes of 8 bits, or 2^15 of 16, and half the count do. A padded position
  // would count as the zero point, which the step does not know. So count_include_pad is only allowed for windows
  // without pads.
  static constexpr Code check_codes(const Words& words, ElementType codes, int taps) {
    const uint32_t pads = words[kWindow + 4] | words[kWindow + 5] | words[kWindow + 6] | words[kWindow + 7];
    if (words[kCountIncludePad] != 0 && pads != 0) return Code::kAttribute;
    return taps > 1 << (codes == ElementType::kInt8 ? 23 : 15) ? Code::kAccumulator : Code::kOk;
  }

  template <class F>
  constexpr void each_output(F f) const {
    each_independent(batch, window.h.out, window.w.out, channels, f);
  }

  // Calls f(index into x) for every tap of output (n, h, v, c) inside x.
  template <class F>
  constexpr void each_tap(int n, int h, int v, int c, F f) const {
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

// The common part of the gradients. `window` is that of the forward step, from x to y.
struct PoolGradient : Pool {
  // Checks that y has the shape that the pool makes of x.
  static constexpr Code check(const Words& words, const Operands& x, Shape y) {
    if (words[kClamp] != 0) return Code::kAttribute;
    if (y.rank != 4) return Code::kShapeRank;
    Dims expected;
    NACRE_TRY_CODE(Pool::shapes(words, x, &expected));
    for (int axis = 0; axis < 4; ++axis)
      if (y[axis] != expected.size[axis]) return Code::kShapeInput;
    return Code::kOk;
  }

 protected:
  // Makes dx of every pixel. For each window that contains the pixel, f(sum, use) adds its contribution to a run of
  // channels.
  template <class T, class F>
  constexpr void each_source(T* dx, F f) const {
    using A = typename Element<T>::Accumulator;
    const int runs = runs_of(channels);
    each_independent(batch, window.h.in, window.w.in, runs, [&](int n, int p, int q, int run, int e) {
      const int first = run * kRun, count = length_of_run(channels, run);
      A sum[kRun] = {};
      each_window(p, q, [&](int h, int v) { f(sum, Use{n, p, q, h, v, first, count}); });
      for (int c = 0; c < count; ++c) dx[e / runs * channels + first + c] = T(sum[c]);
    });
  }

  struct Use {  // pixel (n, p, q) of x in the window of output (h, v), and a run of channels
    int n, p, q, h, v, first, count;
  };
  constexpr int index_of_x(const Use& at) const {
    return ((at.n * window.h.in + at.p) * window.w.in + at.q) * channels + at.first;
  }
  constexpr int index_of_y(const Use& at) const {
    return ((at.n * window.h.out + at.h) * window.w.out + at.v) * channels + at.first;
  }

 private:
  template <class F>
  constexpr void each_window(int p, int q, F f) const {
    for (int i = 0; i < window.h.kernel; ++i) {
      const int h = window.h.output(p, i);
      if (h < 0) continue;
      for (int j = 0; j < window.w.kernel; ++j) {
        const int v = window.w.output(q, j);
        if (v >= 0) f(h, v);
      }
    }
  }
};

struct AveragePoolGradient : PoolGradient {
  enum XWord { kInH = kHigh + 1, kInW };

  static constexpr AveragePoolGradient from(const Words& words, const Operands& operands) {
    return {{make(words, operands[1], operands[0])}};
  }

  template <class T>
  constexpr void forward(const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each_source(dx, [&](A* sum, const Use& at) {
      const WindowAxis::Taps rows = window.h.taps(at.h), columns = window.w.taps(at.v);
      const A size = A(divisor((rows.end - rows.first) * (columns.end - columns.first)));
      const T* d = dy + index_of_y(at);
      for (int c = 0; c < at.count; ++c) sum[c] += A(d[c]) / size;
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    if (y.rank != 4) return Code::kShapeRank;
    int64_t elements = int64_t{y[0]} * y[3];
    for (const int word : {int{kInH}, int{kInW}}) {
      if (words[word] < 1 || words[word] > 1u << 28) return Code::kAttribute;
      if (elements > INT32_MAX || (elements *= words[word]) > INT32_MAX) return Code::kElements;
    }
    *dx = {4, {y[0], words.integer(kInH), words.integer(kInW), y[3]}};
    TensorRecord record = {};
    record.element = operands.element(0);
    record.rank = 4;
    for (int axis = 0; axis < 4; ++axis) record.dims[axis] = dx->size[axis];
    const Tensor x = {nullptr, &record};
    return check(words, {&x, 1, 0}, y);
  }

  static constexpr auto kAttributes = joined(Pool::kAttributes, {{"in_h"}, {"in_w"}});
  static constexpr const char* kInputs[] = {"dy"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct MaxPoolGradient : PoolGradient {
  static constexpr MaxPoolGradient from(const Words& words, const Operands& operands) {
    return {{make(words, operands[1], operands[0])}};
  }

  // Returns the work. Every tap of a window visits all taps of that window: up to 2^31 2^28 2^28, clamped to 2^64 -
  // 1.
  constexpr uint64_t work() const {
    const uint64_t once = Pool::work(), taps = uint64_t(window.h.kernel) * uint64_t(window.w.kernel);
    return (once >> 28) * taps >> 35 != 0 ? ~uint64_t{0} : once * taps;
  }

  template <class T>
  constexpr void forward(const T* dy, const T* x, T* dx) const {
    using A = typename Element<T>::Accumulator;
    each_source(dx, [&](A* sum, const Use& at) {
      const T *d = dy + index_of_y(at), *from = x + index_of_x(at);
      for (int c = 0; c < at.count; ++c)
        if (is_maximum(x, A(from[c]), at, c)) sum[c] += A(d[c]);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Operands x = {operands.tensor + 1, 1, operands.rows};
    NACRE_TRY_CODE(check(words, x, operands[0]));
    *dx = dims_of(x[0]);
    return Code::kOk;
  }

  static constexpr const char* kInputs[] = {"dy", "x"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  // Returns whether the value at (p, q) is the maximum of the window.
  template <class T, class A>
  constexpr bool is_maximum(const T* x, A value, const Use& at, int c) const {
    const WindowAxis::Taps rows = window.h.taps(at.h), columns = window.w.taps(at.v);
    for (int i = rows.first; i < rows.end; ++i)
      for (int j = columns.first; j < columns.end; ++j) {
        const int p = window.h.position(at.h, i), q = window.w.position(at.v, j);
        if (p == at.p && q == at.q) continue;
        const A other = A(x[((at.n * window.h.in + p) * window.w.in + q) * channels + at.first + c]);
        const bool before = p < at.p || (p == at.p && q < at.q);
        if (before ? !replaces(value, other) : replaces(other, value)) return false;
      }
    return true;
  }
};

inline constexpr OpRule kAveragePoolRule = {.op = Op::kAveragePool,
                                            .name = "average_pool",
                                            .numerics = Numerics::kReduction,
                                            .shapes = &Pool::shapes,
                                            .attributes = Pool::kAttributes,
                                            .inputs = Pool::kInputs,
                                            .outputs = Pool::kOutputs,
                                            .gradients = Pool::kAverageGradients};
inline constexpr OpRule kMaxPoolRule = {.op = Op::kMaxPool,
                                        .name = "max_pool",
                                        .numerics = Numerics::kReduction,
                                        .shapes = &Pool::shapes,
                                        .attributes = Pool::kAttributes,
                                        .inputs = Pool::kInputs,
                                        .outputs = Pool::kOutputs,
                                        .gradients = Pool::kMaxGradients};
inline constexpr OpRule kAveragePoolGradientRule = {.op = Op::kAveragePoolGradient,
                                                    .name = "average_pool_gradient",
                                                    .numerics = Numerics::kReduction,
                                                    .shapes = &AveragePoolGradient::shapes,
                                                    .attributes = AveragePoolGradient::kAttributes,
                                                    .inputs = AveragePoolGradient::kInputs,
                                                    .outputs = AveragePoolGradient::kOutputs};
inline constexpr OpRule kMaxPoolGradientRule = {.op = Op::kMaxPoolGradient,
                                                .name = "max_pool_gradient",
                                                .numerics = Numerics::kReduction,
                                                .shapes = &MaxPoolGradient::shapes,
                                                .attributes = Pool::kAttributes,
                                                .inputs = MaxPoolGradient::kInputs,
                                                .outputs = MaxPoolGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
