// Defines functions of int16 codes by a table of points with straight lines between them: LOGISTIC and TANH of
// TFLite, and the two functions of its SOFTMAX. NUMERICS.md eq. 12t.
//
//   t_i = 2^16 sigmoid(i / 24), i = 0 .. 255        z = (x m + 2^(s-1)) >> s, x in units of 1 / 12288
//
//   sigmoid   r = 2^9 t_i + (|z| mod 2^9) (t_i+1 - t_i),  i = |z| >> 9:   2^25 sigmoid(|x|)
//             y = (r + 2^9) >> 10 for z >= 0, else (2^25 - r + 2^9 - 1) >> 10
//   tanh      r = 2^8 t_i + (|z| mod 2^8) (t_i+1 - t_i),  i = |z| >> 8:   2^24 sigmoid(2 |x|)
//             y = (r - 2^23 + 2^7) >> 8 for z >= 0, else (2^23 - r + 2^7 - 1) >> 8
//
// For i >= 255, r has the value for 1, less 2^-15 or 2^-16. y has scale 2^-15 and zero point 0.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Curve {
  int elements;
  int32_t multiplier, shift;

  static constexpr int kPoints = 256;
  enum Word { kMultiplier = 0, kShift = 1 };

  static constexpr Curve from(const Words& words, const Operands& operands) {
    return {operands[0].elements(), words.integer(kMultiplier), words.integer(kShift)};
  }

  constexpr void sigmoid(const int16_t* x, const int32_t* table, int16_t* y) const {
    for (int i : independent(elements)) y[i] = sigmoid_of(scaled(x[i]), table);
  }
  constexpr void tanh(const int16_t* x, const int32_t* table, int16_t* y) const {
    for (int i : independent(elements)) y[i] = tanh_of(scaled(x[i]), table);
  }

  static constexpr int16_t sigmoid_of(int64_t z, const int32_t* table) {
    const int64_t r = point<9>(table, z < 0 ? -z : z, int64_t{0x7FFF} << 10);
    return int16_t((z >= 0 ? r + (1 << 9) : (1 << 25) - r + (1 << 9) - 1) >> 10);
  }
  static constexpr int16_t tanh_of(int64_t z, const int32_t* table) {
    const int64_t r = point<8>(table, z < 0 ? -z : z, int64_t{0xFFFF} << 8);
    return int16_t((z >= 0 ? r - (1 << 23) + (1 << 7) : (1 << 23) - r + (1 << 7) - 1) >> 8);
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    if (words.integer(kMultiplier) < 0 || words[kShift] > 31) return Code::kAttribute;
    if (operands.has(1) && (operands[1].rank != 1 || operands[1][0] != kPoints)) return Code::kShapeWeights;
    *y = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"multiplier"}, {"shift"}};
  static constexpr const char* kInputs[] = {"x", "table?"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  constexpr int64_t scaled(int16_t x) const {
    const int64_t half = shift > 0 ? int64_t{1} << (shift - 1) : 0;
    return (int64_t{x} * multiplier + half) >> shift;
  }
  template <int kBits>
  static constexpr int64_t point(const int32_t* table, int64_t z, int64_t most) {
    const int64_t i = z >> kBits;
    if (i >= kPoints - 1) return most;
    const int64_t at = table[i];
    return (at << kBits) + (z & ((1 << kBits) - 1)) * (table[i + 1] - at);
  }
};

// Interpolates 513 points over all int16 codes, 128 codes apart. The last point is only the end of a line.
struct Curve513 {
  static constexpr int kPoints = 513;

  template <class T>  // int16 or int32
  static constexpr int16_t at(const T* table, int32_t x) {
    const int32_t i = 256 + (x >> 7);
    const int64_t base = table[i];
    return int16_t(base + (((table[i + 1] - base) * (x & 127) + 64) >> 7));
  }
};

}  // namespace nacre::inline NACRE_ISA
