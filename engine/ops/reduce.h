// Computes the mean over any set of axes.
//
//   y_j = mean_{i in axes} x_ij                                                              float
//   y_j = clamp(zero_y + (sum_i x_ij - count zero_x) M / count)                       int8, int16: NUMERICS.md eq. 10
//
// For codes, requant is the pair of M = scale_x / scale_y; if it is absent, M is 1. The pair of M / count is
// computed from requant in integers, once per step, as in TFLite.
//
// Backward:   dx_ij = dy_j / count
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/walk.h"

namespace nacre::inline NACRE_ISA {

// Returns floor(value / divisor) by shift and subtract. A 64-bit division would link 770 bytes of helper on a
// Cortex-M.
constexpr uint64_t divide(uint64_t value, uint32_t divisor) {
  uint64_t quotient = 0, rest = 0;
  for (int bit = 63; bit >= 0; --bit) {
    rest = rest << 1 | (value >> bit & 1);
    quotient <<= 1;
    if (rest >= divisor) rest -= divisor, quotient |= 1;
  }
  return quotient;
}

// Returns the pair of M / count: m' = floor(m 2^n / count), s' = s - n, n = min(floor(log2 count), 31 + s). No pair
// that the converter makes has a shift outside [-31, 31].
constexpr FixedPoint divide(FixedPoint scale, int count) {
  if (scale.shift < -31 || scale.shift > 31) return {0, 0};
  int n = 31 - std::countl_zero(uint32_t(count));
  if (n > 31 + scale.shift) n = int(31 + scale.shift);
  const uint64_t m = divide(uint64_t(scale.multiplier < 0 ? 0 : scale.multiplier) << n, uint32_t(count));
  return {int32_t(m), scale.shift - n};
}

struct Mean {
  Walk<1> outer, inner;  // over y, and over the elements of x whose mean is one element of y
  int x_zero, y_zero;

  enum Word { kAxes = 0, kKeepDims = 1, kXZero = 2, kYZero = 3 };

  static constexpr Mean from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    Mean mean = {.outer = {}, .inner = {}, .x_zero = words.integer(kXZero), .y_zero = words.integer(kYZero)};
    for (int axis = 0; axis < x.rank; ++axis) {
      Walk<1>& walk = (words[kAxes] >> axis & 1) != 0 ? mean.inner : mean.outer;
      walk.size[walk.rank] = x[axis];
      walk.stride[0][walk.rank++] = stride_of(x, axis);
    }
    return mean;
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    const int count = terms();
    outer.each_independent([&](const int32_t* at, int e) {
      A sum = 0;
      inner.each([&](const int32_t* i) { sum += A(x[at[0] + i[0]]); });
      y[e] = T(sum / A(count));
    });
  }

  template <Rounding kRounding, class Q = int8_t>
  constexpr void forward_codes(const Q* x, Optional<const int32_t> requant, Q* y) const {
    constexpr FixedPoint kOne = {1 << 30, 1};
    const int count = terms();
    const FixedPoint scale = divide(requant ? FixedPoint{requant[0], requant[1]} : kOne, count);
    const Clamp all = {};
    outer.each_independent([&](const int32_t* at, int e) {
      int32_t sum = 0;
      inner.each([&](const int32_t* i) { sum += x[at[0] + i[0]]; });
      y[e] = all.code<Q>(wrapping_add(multiply<kRounding>(sum - x_zero * count, scale), y_zero));
    });
  }

  constexpr uint64_t work() const {
    uint64_t elements = uint64_t(terms());
    for (int i = 0; i < outer.rank; ++i) elements *= uint64_t(outer.size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kAxes] >> x.rank != 0) return Code::kAttributeAxis;
    if (words[kKeepDims] > 1) return Code::kAttribute;
    for (const int word : {kXZero, kYZero}) NACRE_TRY_CODE(check_zero(words.integer(word), operands.element(0)));
    NACRE_TRY_CODE(check_pairs(operands, 1, 1));
    int count = 1;
    for (int axis = 0; axis < x.rank; ++axis) {
      const bool reduced = (words[kAxes] >> axis & 1) != 0;
      if (reduced) count *= x[axis];
      if (!reduced || words[kKeepDims] != 0) y->push(reduced ? 1 : x[axis]);
    }
    // 2^23 * 255 < 2^31 and 2^15 * 2^15 < 2^31: the sum of x - zero_x fits into int32.
    const ElementType type = operands.element(0);
    const int most = type == ElementType::kInt8 ? 1 << 23 : 1 << 15;
    return holds_codes(type) && count > most ? Code::kAccumulator : Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"axes"}, {"keep_dims"}, {"x_zero"}, {"y_zero"}};
  static constexpr const char* kInputs[] = {"x", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};

  // Makes the attributes of mean_gradient: {axes, keep_dims} and the dims of x, so that x need not stay in memory.
  static constexpr int words_of_x(const Words& words, const Operands& operands, int, uint32_t* made) {
    made[kAxes] = words[kAxes];
    made[kKeepDims] = words[kKeepDims];
    return 2 + words_of_dims(operands[0], made + 2);
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kMeanGradient, .reads = kReads<gradient_of(0)>, .words = &words_of_x}};

 private:
  constexpr int terms() const {
    int product = 1;
    for (int i = 0; i < inner.rank; ++i) product *= inner.size[i];
    return product;
  }
};

struct MeanGradient {
  Walk<1> walk;  // over x, with the offset into dy
  int count;

  enum Word { kAxes = 0, kKeepDims = 1, kRank = 2 };

  static constexpr MeanGradient from(const Words& words, const Operands& operands) {
    const Shape x = operands[operands.count - 1];
    MeanGradient op = {.walk = {}, .count = 1};
    op.walk.rank = x.rank;
    int stride = 1;
    for (int axis = x.rank - 1; axis >= 0; --axis) {
      const bool reduced = (words[kAxes] >> axis & 1) != 0;
      op.walk.size[axis] = x[axis];
      op.walk.stride[0][axis] = reduced ? 0 : stride;
      (reduced ? op.count : stride) *= x[axis];
    }
    return op;
  }

  template <class T>
  constexpr void forward(const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    walk.each_independent([&](const int32_t* at, int e) { dx[e] = T(A(dy[at[0]]) / A(count)); });
  }

  // Computes the shape of dx. Axis 0 of x has the rows of this run, unless it is reduced.
  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape y = operands[0];
    NACRE_TRY_CODE(dims_of_words(words, kRank, dx));
    if (words[kAxes] >> dx->rank != 0) return Code::kAttributeAxis;
    if (words[kKeepDims] > 1) return Code::kAttribute;
    int rank = 0;
    for (int axis = 0; axis < dx->rank; ++axis) {
      const bool reduced = (words[kAxes] >> axis & 1) != 0;
      if (reduced && words[kKeepDims] == 0) continue;
      if (rank >= y.rank || y.dims[rank] != (reduced ? 1 : dx->size[axis])) return Code::kShapeInput;
      if (axis == 0 && !reduced) dx->size[0] = y[0];
      ++rank;
    }
    return rank == y.rank ? Code::kOk : Code::kShapeRank;
  }

  static constexpr Attribute kAttributes[] = {{"axes"}, {"keep_dims"}, {"rank"}, {"dims", Coding::kInteger, kMaxRank}};
  static constexpr const char* kInputs[] = {"dy"};
  static constexpr const char* kOutputs[] = {"dx"};
};

inline constexpr OpRule kMeanRule = {.op = Op::kMean,
                                     .name = "mean",
                                     .numerics = Numerics::kReduction,
                                     .shapes = &Mean::shapes,
                                     .attributes = Mean::kAttributes,
                                     .inputs = Mean::kInputs,
                                     .outputs = Mean::kOutputs,
                                     .gradients = Mean::kGradients};
inline constexpr OpRule kMeanGradientRule = {.op = Op::kMeanGradient,
                                             .name = "mean_gradient",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &MeanGradient::shapes,
                                             .attributes = MeanGradient::kAttributes,
                                             .inputs = MeanGradient::kInputs,
                                             .outputs = MeanGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
