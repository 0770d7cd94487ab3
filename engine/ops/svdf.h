// Applies filters over time to the current input and those of earlier runs.  Nakkiran et al. 2015, "Compressing deep
// neural networks using a rank-constrained topology". It is TFLite's SVDF after its product with the feature weights,
// which is a dense layer. s is a tensor of the stream region; setting it to zero is a reset.
//
//   x [batch, filters]   w [filters, memory]   bias? [units]   s [batch, filters, memory] read and written
//   y [batch, units], filters = units rank
//
//   s_nf,m = s_nf,m+1 for m < memory - 1, s_nf,memory-1 = x_nf                             the oldest comes first
//   y_nu   = bias_u + sum_{f = u rank .. (u + 1) rank - 1} sum_m w_fm s_nfm
//
// int8 and int16: x, w and s are codes of one type T, y is int8, bias is in units of s_x s_w:
//
//   y_nu = saturate(zero_y + requant(bias_u + sum sum w_fm (s_nfm - zero_x)))              NUMERICS.md eq. 1, 2
//
// x and s have one quantizer. s is stored less its zero point, wrapping, so that zeroed memory means that x was 0.
//
// No gradient flows back through it, because the state of an earlier run has none.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Svdf {
  int batch, filters, memory, rank;
  int x_zero, y_zero;
  FixedPoint scale;

  enum Word { kRank, kXZero, kYZero, kScale, kWords = kScale + 2 };
  enum Operand { kX, kW, kBias, kState };

  static constexpr Svdf from(const Words& words, const Operands& operands) {
    const Shape w = operands[kW];
    return {.batch = operands[kX][0],
            .filters = w[0],
            .memory = w[1],
            .rank = words.integer(kRank) + 1,
            .x_zero = words.integer(kXZero),
            .y_zero = words.integer(kYZero),
            .scale = {words.integer(kScale), words.integer(kScale + 1)}};
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(batch)) * uint32_t(filters) * uint32_t(memory); }

  template <class T>
  constexpr void forward(const T* x, const T* w, Optional<const T> bias, Update<T> s, T* y) const {
    using A = typename Element<T>::Accumulator;
    each_independent(batch, filters / rank, [&](int n, int u, int e) {
      A sum = bias ? A(bias[u]) : A(0);
      for (int f = u * rank; f < (u + 1) * rank; ++f) {
        T* const line = pushed(s.data, n, f, x[n * filters + f]);
        for (int m = 0; m < memory; ++m) sum += A(w[f * memory + m]) * A(line[m]);
      }
      y[e] = T(sum);
    });
  }

  template <class T>  // int8_t or int16_t
  constexpr void forward_codes(const T* x, const T* w, Optional<const int32_t> bias, Update<T> s, int8_t* y) const {
    each_independent(batch, filters / rank, [&](int n, int u, int e) {
      uint32_t sum = bias ? uint32_t(bias[u]) : 0;
      for (int f = u * rank; f < (u + 1) * rank; ++f) {
        const T* const line = pushed(s.data, n, f, moved(x[n * filters + f], -x_zero));
        for (int m = 0; m < memory; ++m)
          sum += uint32_t(w[f * memory + m]) * (uint32_t(moved(line[m], x_zero)) - uint32_t(x_zero));
      }
      const int32_t v = wrapping_add(multiply<Rounding::kDouble>(int32_t(sum), scale), y_zero);
      y[e] = int8_t(v > 127 ? 127 : v < -128 ? -128 : v);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX], w = operands[kW], s = operands[kState];
    if (x.rank != 2 || w.rank != 2 || s.rank != 3) return Code::kShapeRank;
    if (w[0] != x[1]) return Code::kShapeWeights;
    if (s[0] != x[0] || s[1] != w[0] || s[2] != w[1]) return Code::kShapeInput;
    const uint32_t less_one = words[kRank];
    if (less_one >= uint32_t(w[0]) || w[0] % (words.integer(kRank) + 1) != 0) return Code::kGroups;
    const int units = w[0] / (words.integer(kRank) + 1);
    if (operands.has(kBias) && !is(operands, kBias, units)) return Code::kShapeBias;
    NACRE_TRY_CODE(check_codes(words, operands.element(kX), (words.integer(kRank) + 1) * int64_t{w[1]}));
    y->push(x[0]);
    y->push(units);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {
      {"rank", Coding::kLessOne}, {"x_zero"}, {"y_zero"}, {"scale", Coding::kInteger, 2}};
  static constexpr const char* kInputs[] = {"x", "w", "bias?", "&s"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  template <class T>
  static constexpr T moved(T code, int by) {
    return T(std::make_unsigned_t<T>(uint32_t(code) + uint32_t(by)));
  }

  // Makes the line of filter f of sample n one step older, puts x at its end, and returns the line.
  template <class T>
  constexpr T* pushed(T* s, int n, int f, T x) const {
    T* const line = s + (n * filters + f) * memory;
    for (int m = 0; m + 1 < memory; ++m) line[m] = line[m + 1];
    line[memory - 1] = x;
    return line;
  }

  static constexpr Code check_codes(const Words& words, ElementType type, int64_t terms) {
    if (type != ElementType::kInt8 && type != ElementType::kInt16) {
      for (int i = kXZero; i < kWords; ++i)
        if (words[i] != 0) return Code::kAttribute;
      return Code::kOk;
    }
    NACRE_TRY_CODE(check_zero(words.integer(kXZero), type));
    NACRE_TRY_CODE(check_zero(words.integer(kYZero), ElementType::kInt8));
    return type == ElementType::kInt8 && terms > 65793 ? Code::kAccumulator : Code::kOk;
  }
};

inline constexpr OpRule kSvdfRule = {.op = Op::kSvdf,
                                     .name = "svdf",
                                     .numerics = Numerics::kMatmul,
                                     .shapes = &Svdf::shapes,
                                     .attributes = Svdf::kAttributes,
                                     .inputs = Svdf::kInputs,
                                     .outputs = Svdf::kOutputs};

}  // namespace nacre::inline NACRE_ISA
