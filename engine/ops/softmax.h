// Computes softmax over one axis.
//
//   y_i = exp(beta (x_i - m)) / sum_j exp(beta (x_j - m)),   m = max_j x_j
//
// Subtracting m keeps every exponential in [0, 1], and the sum is at least 1. So nothing overflows or is divided by
// 0. The exponential is computed twice and not stored, because y may be float16 and would round it before the
// division.
//
// int8, over the last axis: TFLite's fixed point, NUMERICS.md eq. 11. y has scale 1/256 and zero point -128; if y is
// int16, 1/65536 and -32768. `multiplier` and `shift` are the pair of min(beta scale_x 2^26, 2^31 - 1). A number that
// is further than `diff_min` below the maximum gives 0.
//
// int16, over the last axis: exp and 1 / (1 + x) from tables, NUMERICS.md eq. 11t. y has scale 2^-15 and zero point
// 0. `multiplier` and `shift` are the pair of beta scale_x 65535 / 10. tables is [2, 513].
//
// Backward, from y alone:   dx_i = beta y_i (dy_i - sum_j dy_j y_j)
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point_functions.h"
#include "engine/ops/curve.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Softmax {
  int outer, width, inner;
  uint32_t beta;  // float32 bits, since the int8 form uses no float register
  FixedPoint scale;
  int diff_min;

  enum Word { kAxis = 0, kBeta = 1, kMultiplier = 2, kShift = 3, kDiffMin = 4 };

  static constexpr Softmax from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    const int axis = words.integer(kAxis);
    return {.outer = x.product(0, axis),
            .width = x[axis],
            .inner = x.product(axis + 1, x.rank),
            .beta = words[kBeta],
            .scale = {words.integer(kMultiplier), words.integer(kShift)},
            .diff_min = words.integer(kDiffMin)};
  }

  template <class T>
  constexpr void forward(const T* x, T* y) const {
    using A = typename Element<T>::Accumulator;
    const A b = A(std::bit_cast<float>(beta));
    each_team(outer, inner, [&](int o, int i) {
      const T* from = x + o * width * inner + i;
      T* to = y + o * width * inner + i;
      A peak = A(from[0]), sum = 0;
      for (int j : of_team(width)) peak = A(from[j * inner]) > peak ? A(from[j * inner]) : peak;
      peak = team_max(peak);
      for (int j : of_team(width)) sum += std::exp((A(from[j * inner]) - peak) * b);
      sum = team_sum(sum);
      for (int j : of_team(width)) to[j * inner] = T(std::exp((A(from[j * inner]) - peak) * b) / sum);
    });
  }

  template <Rounding kRounding, class Y = int8_t>  // or int16_t
  constexpr void forward_int8(const int8_t* logits, Y* codes) const {
    constexpr int kBits = 8 * sizeof(Y), kLowest = -(1 << (kBits - 1));
    for (int o : independent(outer)) {
      Y* y = codes + o * width;
      row_int8<kRounding, kBits>(logits + o * width, [y](int j, int32_t share) { y[j] = Y(kLowest + share); });
    }
  }

  // Calls store(j, round(2^bits y_j), at most 2^bits - 1) for one row of codes. Returns sum_j exp(beta (x_j - m)),
  // Q12.
  template <Rounding kRounding, int kBits, class Store>
  constexpr int32_t row_int8(const int8_t* x, Store store) const {
    constexpr int32_t kHighest = (1 << kBits) - 1;
    int peak = -128;
    for (int j = 0; j < width; ++j) peak = x[j] > peak ? x[j] : peak;
    int32_t sum = 0;  // Q12: at most 4095 terms of at most 1
    for (int j = 0; j < width; ++j)
      if (x[j] - peak >= diff_min) sum += rounding_shift_right(exponential<kRounding>(x[j] - peak), 12);
    const int zeros = std::countl_zero(uint32_t(sum));
    const int32_t reciprocal = reciprocal_of_one_plus(int32_t((uint32_t(sum) << zeros) - (uint32_t{1} << 31)));
    const int exponent = 12 - zeros + 31 - kBits;
    for (int j = 0; j < width; ++j) {
      int32_t share = 0;
      if (x[j] - peak >= diff_min && exponent <= 31)  // for smaller x every y rounds to 0
        share = rounding_shift_right(doubling_high_multiply(reciprocal, exponential<kRounding>(x[j] - peak)), exponent);
      store(j, share > kHighest ? kHighest : share);
    }
    return sum;
  }

  constexpr void forward_int16(const int16_t* logits, const int32_t* tables, int16_t* codes) const {
    for (int o : independent(outer)) {
      const int16_t* x = logits + o * width;
      int16_t* y = codes + o * width;
      int peak = INT16_MIN;
      for (int j = 0; j < width; ++j) peak = x[j] > peak ? x[j] : peak;
      const auto exponential = [&](int j) {  // Q15, for a difference in units of 10 / 65535
        return Curve513::at(tables, symmetric(multiply<Rounding::kDouble>(x[j] - peak, scale), INT16_MAX));
      };
      int32_t sum = 0;  // Q15: at most 65535 terms of at most 1
      for (int j = 0; j < width; ++j) sum += exponential(j);
      const int zeros = std::countl_zero(uint32_t(sum)), shift = 31 - zeros;  // sum = 2^(shift - 15) (1 + f)
      const auto fraction = int32_t(((int64_t{sum} << ((zeros - 1) & 31)) + (1 << 13)) >> 14);  // 2^16 (1 + f)
      const int64_t reciprocal = Curve513::at(tables + Curve513::kPoints, symmetric(fraction, -(3 << 15)));
      for (int j = 0; j < width; ++j) {
        const int64_t code = (exponential(j) * reciprocal + (int64_t{1} << ((shift - 1) & 31))) >> (shift & 31);
        y[j] = int16_t(code < 0 ? 0 : code > INT16_MAX ? INT16_MAX : code);
      }
    }
  }

  template <class T>
  constexpr void gradient(const T* dy, const T* y, T* dx) const {
    using A = typename Element<T>::Accumulator;
    const A b = A(std::bit_cast<float>(beta));
    each_team(outer, inner, [&](int o, int i) {
      const int first = o * width * inner + i;
      const T *d = dy + first, *v = y + first;
      T* to = dx + first;
      A sum = 0;
      for (int j : of_team(width)) sum += A(d[j * inner]) * A(v[j * inner]);
      sum = team_sum(sum);
      for (int j : of_team(width)) to[j * inner] = T(b * A(v[j * inner]) * (A(d[j * inner]) - sum));
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[0];
    if (words[kAxis] >= uint32_t(x.rank)) return Code::kAttributeAxis;
    if (operands.element(0) == ElementType::kInt8) NACRE_TRY_CODE(check_int8(words, x));
    else if (operands.element(0) == ElementType::kInt16) NACRE_TRY_CODE(check_int16(words, operands));
    else if (!is_finite(words[kBeta])) return Code::kAttribute;
    *y = dims_of(x);
    return Code::kOk;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    const Shape dy = operands[0], y = operands[1];
    if (y.rank != dy.rank) return Code::kShapeRank;
    for (int axis = 0; axis < y.rank; ++axis)
      if (y[axis] != dy[axis]) return Code::kShapeInput;
    return shapes(words, operands, dx);
  }

  static constexpr Attribute kAttributes[] = {
      {"axis"}, {"beta", Coding::kReal}, {"multiplier"}, {"shift"}, {"diff_min"}};
  static constexpr const char* kInputs[] = {"x", "tables?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr const char* kGradientInputs[] = {"dy", "y"};
  static constexpr const char* kGradientOutputs[] = {"dx"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kSoftmaxGradient, .reads = kReads<gradient_of(0), output_of(0)>}};

 private:
  // Returns exp of a difference from the maximum, in Q0. The scaled difference is in Q5.
  template <Rounding kRounding>
  constexpr int32_t exponential(int32_t difference) const {
    return exp_of_negative<5>(multiply<kRounding>(difference, scale));
  }

  // Returns x + by, saturated to int16.
  static constexpr int32_t symmetric(int32_t x, int32_t by) {
    const int64_t sum = int64_t{x} + by;
    return int32_t(sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum);
  }

  static constexpr Code check_int16(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    if (words.integer(kAxis) != x.rank - 1) return Code::kAttributeAxis;
    if (words.integer(kMultiplier) < 0) return Code::kAttribute;
    if (operands.has(1) && !is(operands, 1, 2, Curve513::kPoints)) return Code::kShapeWeights;
    return x.last() > 65535 ? Code::kAccumulator : Code::kOk;
  }

  // Checks the sizes. The maximum itself counts (diff_min <= 0), so the sum is at least 1. 4095 terms of 2^19 fit
  // into int32.
  static constexpr Code check_int8(const Words& words, Shape x) {
    if (words.integer(kAxis) != x.rank - 1) return Code::kAttributeAxis;
    if (words.integer(kMultiplier) < 0 || words[kShift] > 31 || words.integer(kDiffMin) > 0) return Code::kAttribute;
    return x.last() > 4095 ? Code::kAccumulator : Code::kOk;
  }
};

inline constexpr OpRule kSoftmaxRule = {.op = Op::kSoftmax,
                                        .name = "softmax",
                                        .numerics = Numerics::kReduction,
                                        .shapes = &Softmax::shapes,
                                        .attributes = Softmax::kAttributes,
                                        .inputs = Softmax::kInputs,
                                        .outputs = Softmax::kOutputs,
                                        .gradients = Softmax::kGradients,
                                        .threads = {.teams = &elements_of_first}};
inline constexpr OpRule kSoftmaxGradientRule = {.op = Op::kSoftmaxGradient,
                                                .name = "softmax_gradient",
                                                .numerics = Numerics::kReduction,
                                                .shapes = &Softmax::shapes_gradient,
                                                .attributes = Softmax::kAttributes,
                                                .inputs = Softmax::kGradientInputs,
                                                .outputs = Softmax::kGradientOutputs,
                                                .threads = {.teams = &elements_of_first}};

}  // namespace nacre::inline NACRE_ISA
