// Kernel forms of pools, means, reduce, arg_max, softmax, log_softmax and norms, in plain C++. The code is in run.h,
// over vectors. Results in codes equal those of the reference to the bit.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/arg_max.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/log_softmax.h"
#include "engine/ops/norm.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/softmax.h"

namespace nacre::inline NACRE_ISA {

// ---- Pools, over vectors of channels.

struct FastPool : Pool {
  static FastPool of(const Words& words, const Operands& operands) { return {make_op<Pool>(words, operands)}; }
  int divisor_of(int count) const { return divisor(count); }
};
template <class T>
struct FastAveragePool : FastPool {
  static FastAveragePool from(const Words& words, const Operands& operands) { return {FastPool::of(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};
// Divides in float32, in which sums of up to 2^16 codes are exact.
struct FastCodeAveragePool : FastPool {
  static FastCodeAveragePool from(const Words& words, const Operands& operands) {
    return {FastPool::of(words, operands)};
  }
  void run(const int8_t* x, int8_t* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands&) {
    return (words.integer(kKernelH) + 1) * (words.integer(kKernelW) + 1) <= 1 << 16;
  }
};
template <class T>
struct FastMaxPool : FastPool {
  static FastMaxPool from(const Words& words, const Operands& operands) { return {FastPool::of(words, operands)}; }
  void run(const T* x, T* y, const Args& args) const;
};
struct FastCodeMaxPool : FastPool {
  static FastCodeMaxPool from(const Words& words, const Operands& operands) { return {FastPool::of(words, operands)}; }
  void run(const int8_t* x, int8_t* y, const Args& args) const;
};

// ---- Reductions of x over the middle of [outer][count][inner]. Any of the three may be 1.

struct Extent {
  int outer = 1, count = 1, inner = 1;
  bool fits = true;  // whether the axes have this form

  static Extent of(uint32_t axes, Shape x) {
    Extent e;
    int* size = &e.inner;  // moves from inner to count to outer
    for (int axis = x.rank - 1; axis >= 0; --axis) {
      if (x[axis] == 1) continue;
      const bool reduced = (axes >> axis & 1) != 0;
      if (reduced && size == &e.inner) size = &e.count;
      if (!reduced && size == &e.count) size = &e.outer;
      if (reduced && size == &e.outer) e.fits = false;
      *size *= x[axis];
    }
    return e;
  }
};

[[gnu::cold, gnu::noinline]] inline Extent extent_of(uint32_t axes, const Operands& operands) {
  return Extent::of(axes, operands[0]);
}
inline uint64_t work_of(const Extent& e) { return uint64_t(uint32_t(e.outer)) * uint32_t(e.count) * uint32_t(e.inner); }

template <class T>
struct FastMean {
  Extent extent;
  static FastMean from(const Words& words, const Operands& operands) {
    return {extent_of(words[Mean::kAxes], operands)};
  }
  uint64_t work() const { return work_of(extent); }
  void run(const T* x, T* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).extent.fits; }
};
template <Rounding kRounding>
struct FastCodeMean {
  Extent extent;
  int x_zero, y_zero;
  static FastCodeMean from(const Words& words, const Operands& operands) {
    return {extent_of(words[Mean::kAxes], operands), words.integer(Mean::kXZero), words.integer(Mean::kYZero)};
  }
  uint64_t work() const { return work_of(extent); }
  void run(const int8_t* x, Optional<const int32_t> requant, int8_t* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).extent.fits; }
};
template <class T>
struct FastReduce {
  Extent extent;
  uint32_t function;
  static FastReduce from(const Words& words, const Operands& operands) {
    return {extent_of(words[Reduce::kAxes], operands), words[Reduce::kFunction]};
  }
  uint64_t work() const { return work_of(extent); }
  void run(const T* x, T* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).extent.fits; }
};

// Indices are counted in float32, which holds all whole numbers up to 2^24.
template <class T, class I>
struct FastArgMax {
  ArgMax op;
  static FastArgMax from(const Words& words, const Operands& operands) { return {make_op<ArgMax>(words, operands)}; }
  uint64_t work() const { return op.work(); }
  void run(const T* x, I* y) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).op.width < 1 << 24; }
};

// ---- Functions of rows. A row of 16-bit numbers that are contiguous in memory is copied to float32 in scratch, one
// row at a time.

template <class T>
size_t row_bytes(int width) {
  return std::is_same_v<T, float> ? 0 : size_t(width) * sizeof(float);
}

template <class T, bool kLogarithm>
struct FastSoftmax {
  Extent extent;  // softmax goes along `count`
  float beta;

  static FastSoftmax from(const Words& words, const Operands& operands) {
    const Extent e = softmax_extent(words.integer(Softmax::kAxis), operands);
    return {e, kLogarithm ? 1.0f : words.real(Softmax::kBeta)};
  }
  void run(const T* x, T* y, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) {
    return std::is_same_v<T, float> || from(words, operands).extent.inner == 1;
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return row_bytes<T>(from(words, operands).extent.count);
  }

 private:
  [[gnu::cold, gnu::noinline]] static Extent softmax_extent(int axis, const Operands& operands) {
    const Shape x = operands[0];
    return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank), true};
  }
};

// The exponential of a code depends only on its distance to the maximum. Bind makes a table of all 256 exponentials in
// units of 2^-31, then a table of them in units of 2^-19, which are the terms of the sum.
inline constexpr int kDistances = 256;
template <Rounding kRounding>
struct FastCodeSoftmax {
  int rows, width;

  static FastCodeSoftmax from(const Words& words, const Operands& operands) {
    const Softmax op = make_op<Softmax>(words, operands);
    return {op.outer, op.width};
  }
  void run(const int8_t* x, int8_t* y, const Args& args) const;

  static bool constant(const Operands&) { return true; }
  static size_t table_bytes(const FastCodeSoftmax&) { return 2 * kDistances * sizeof(int32_t); }
  [[gnu::cold, gnu::noinline]] void fill(const Words& words, const Operands&, std::byte* to) const {
    const FixedPoint scale = {words.integer(Softmax::kMultiplier), words.integer(Softmax::kShift)};
    auto* const table = reinterpret_cast<int32_t*>(to);
    for (int d = 0; d < kDistances; ++d) {
      table[d] = -d >= words.integer(Softmax::kDiffMin) ? exp_of_negative<5>(multiply<kRounding>(-d, scale)) : 0;
      table[kDistances + d] = rounding_shift_right(table[d], 12);
    }
  }
};

template <class T>
struct FastLayerNorm {
  LayerNorm op;
  static FastLayerNorm from(const Words& words, const Operands& operands) {
    return {make_op<LayerNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, Optional<const float> scale, Optional<const float> bias, T* y, const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return row_bytes<T>(from(words, operands).op.width);
  }
};

// y = (x - mean) factor + bias; scratch holds the factors of all channels.
template <class T>
struct FastBatchNorm {
  BatchNorm op;
  static FastBatchNorm from(const Words& words, const Operands& operands) {
    return {make_op<BatchNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const float* scale, const float* bias, const float* mean, const float* variance, T* y,
           const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return size_t(from(words, operands).op.channels) * sizeof(float);
  }
};

namespace fast::reduction {

template <bool kLog>
struct SoftmaxOf {
  template <class T>
  using Form = FastSoftmax<T, kLog>;
};
template <class Tier>
constexpr auto lines() {
  return floats<FastAveragePool>("AveragePool", Op::kAveragePool, Pool::shapes) +
         line<FastCodeAveragePool>("AveragePoolI8", Op::kAveragePool, Pool::shapes) +
         floats<FastMaxPool>("MaxPool", Op::kMaxPool, Pool::shapes) +
         line<FastCodeMaxPool>("MaxPoolI8", Op::kMaxPool, Pool::shapes) +
         floats<FastMean>("Mean", Op::kMean, Mean::shapes) + codes<FastCodeMean>("Mean", Op::kMean, Mean::shapes) +
         floats<FastReduce>("Reduce", Op::kReduce, Reduce::shapes) +
         floats<SoftmaxOf<false>::Form>("Softmax", Op::kSoftmax, Softmax::shapes, 1) +
         codes<FastCodeSoftmax>("Softmax", Op::kSoftmax, Softmax::shapes, 1) +
         floats<SoftmaxOf<true>::Form>("LogSoftmax", Op::kLogSoftmax, LogSoftmax::shapes, 1) +
         floats<FastLayerNorm>("LayerNorm", Op::kLayerNorm, LayerNorm::shapes, 1) +
         floats<FastBatchNorm>("BatchNorm", Op::kBatchNorm, BatchNorm::shapes, 1) +
         line<FastArgMax<float, int32_t>>("ArgMaxF32", Op::kArgMax, ArgMax::shapes) +
         line<FastArgMax<float, int64_t>>("ArgMaxF32I64", Op::kArgMax, ArgMax::shapes) +
         line<FastArgMax<Float16, int32_t>>("ArgMaxF16", Op::kArgMax, ArgMax::shapes) +
         line<FastArgMax<Float16, int64_t>>("ArgMaxF16I64", Op::kArgMax, ArgMax::shapes) +
         line<FastArgMax<Bfloat16, int32_t>>("ArgMaxBf16", Op::kArgMax, ArgMax::shapes) +
         line<FastArgMax<Bfloat16, int64_t>>("ArgMaxBf16I64", Op::kArgMax, ArgMax::shapes);
}

}  // namespace fast::reduction

}  // namespace nacre::inline NACRE_ISA
