// Floating-point formats of 16 bits and fewer: what their codes mean, and how numbers are rounded to them.
// NUMERICS.md section 6.
//
// One conversion serves all formats. A format is (exponent bits, mantissa bits, bias, meaning of its special codes).
// Arithmetic is done in float32; these types only store. No compiler type is used, because none is portable. E8M0,
// which has neither sign nor mantissa, is a type of its own.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"

namespace nacre::inline NACRE_ISA {

// Rounds v to float32 towards zero, and sets the last bit if anything was lost. Rounding that result once more is
// equal to rounding v once.
constexpr float round_to_odd(double v) {
  const float nearest = float(v);
  if (double(nearest) == v || v != v) return nearest;
  auto word = std::bit_cast<uint32_t>(nearest);
  const double size = v < 0 ? -v : v, size_nearest = nearest < 0 ? -double(nearest) : double(nearest);
  if (size_nearest > size) --word;
  return std::bit_cast<float>(word | 1u);
}

enum class Special : uint8_t {
  kIeee,    // exponent all ones means infinity or NaN
  kFn,      // no infinity; all bits ones is NaN (OCP E4M3)
  kFnuz,    // no infinity, no -0, whose code is NaN
  kFinite,  // neither infinity nor NaN (E2M1)
};

template <class Storage, int kExponent, int kMantissa, int kExponentBias, Special kSpecial>
struct SmallFloat {
  Storage bits;

  static constexpr int kExponentBits = kExponent, kMantissaBits = kMantissa, kBias = kExponentBias;
  static constexpr Special kKind = kSpecial;
  static constexpr uint32_t kSign = 1u << (kExponent + kMantissa);
  static constexpr uint32_t kAllOnes = kSign - 1;
  static constexpr uint32_t kInfinity = kAllOnes & ~((1u << kMantissa) - 1);  // the code of infinity, for kIeee
  static constexpr uint32_t kMax = kSpecial == Special::kIeee ? kInfinity - 1
                                   : kSpecial == Special::kFn ? kAllOnes - 1
                                                              : kAllOnes;
  // The code of the quiet NaN, which keeps its sign if the format has two. kFinite has no NaN: it gets 0 of the other
  // sign, as in ml_dtypes.
  static constexpr uint32_t kNan = kSpecial == Special::kIeee ? kInfinity | 1u << (kMantissa - 1)
                                   : kSpecial == Special::kFn ? kAllOnes
                                                              : kSign;

  SmallFloat() = default;
  // Convert to nearest, ties to even. A number beyond the largest becomes infinity, or NaN if the format has none
  // (kFinite: the largest). Conversions to float and double are exact.
  constexpr explicit SmallFloat(float v) : bits(encode(v, false)) {}
  constexpr explicit SmallFloat(double v) : SmallFloat(round_to_odd(v)) {}
  constexpr explicit operator float() const { return decode(bits); }
  constexpr explicit operator double() const { return double(decode(bits)); }

  // Returns the number with this code.
  static constexpr SmallFloat of_bits(Storage code) {
    SmallFloat value{};
    value.bits = code;
    return value;
  }
  // Converts v. Values beyond the largest, infinity included, become the largest; NaN stays NaN if the format has it.
  static constexpr SmallFloat saturated(float v) { return of_bits(encode(v, true)); }

 private:
  // NUMERICS.md eq. 15. Rounds v = m 2^(e - 23) to a multiple of 2^q, q = max(e, 1 - bias) - mantissa bits, half to
  // even. The code counts these multiples, so a carry out of the mantissa is a carry into the exponent.
  static constexpr Storage encode(float v, bool saturate) {
    const auto word = std::bit_cast<uint32_t>(v);
    const uint32_t magnitude = word & 0x7FFFFFFFu, sign = (word >> 31) * kSign;
    if (magnitude > 0x7F800000u) return nan(sign);
    const uint32_t code = magnitude == 0x7F800000u ? kAllOnes + 1 : rounded(magnitude);
    if (code > kMax) return overflow(sign, saturate);
    if (kSpecial == Special::kFnuz && code == 0) return 0;
    return Storage(sign | code);
  }

  static constexpr uint32_t rounded(uint32_t magnitude) {
    const int field = int(magnitude >> 23);
    const int e = (field == 0 ? 1 : field) - 127;
    const uint32_t m = (magnitude & 0x7FFFFFu) | (field == 0 ? 0 : 0x800000u);
    const bool normal = e >= 1 - kBias;
    const int shift = (normal ? e : 1 - kBias) - kMantissa - e + 23;
    if (shift > 24) return 0;  // below half of the smallest, since m < 2^24
    const uint32_t whole = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    const uint32_t nearest = whole + (rest > half || (rest == half && (whole & 1) != 0) ? 1 : 0);
    return normal ? (uint32_t(e + kBias) << kMantissa) + nearest - (1u << kMantissa) : nearest;
  }

  static constexpr Storage nan(uint32_t sign) {
    if (kSpecial == Special::kFnuz) return Storage(kNan);
    return Storage(kSpecial == Special::kFinite ? sign ^ kNan : sign | kNan);
  }

  static constexpr Storage overflow(uint32_t sign, bool saturate) {
    if (saturate || kSpecial == Special::kFinite) return Storage(sign | kMax);
    if (kSpecial == Special::kIeee) return Storage(sign | kInfinity);
    return Storage(kSpecial == Special::kFn ? sign | kNan : kNan);
  }

  static constexpr float decode(Storage code) {
    const uint32_t magnitude = code & kAllOnes, sign = (code & kSign) != 0 ? 0x80000000u : 0;
    if (kSpecial == Special::kFnuz && code == kSign) return std::bit_cast<float>(0x7FC00000u);
    if (kSpecial == Special::kFn && magnitude == kAllOnes) return std::bit_cast<float>(sign | 0x7FC00000u);
    if (kExponent == 8) return std::bit_cast<float>(uint32_t(code) << (23 - kMantissa));  // the upper bits of a float32
    const uint32_t field = magnitude >> kMantissa, mantissa = magnitude & ((1u << kMantissa) - 1);
    if (kSpecial == Special::kIeee && magnitude >= kInfinity)
      return std::bit_cast<float>(sign | 0x7F800000u | mantissa << (23 - kMantissa));
    if (field == 0) {
      constexpr int kExponentOfQuantum = kExponent == 8 ? 0 : 1 - kBias - kMantissa;
      constexpr auto kQuantum = std::bit_cast<float>(uint32_t(127 + kExponentOfQuantum) << 23);
      return std::bit_cast<float>(std::bit_cast<uint32_t>(float(mantissa) * kQuantum) | sign);
    }
    return std::bit_cast<float>(sign | (field + uint32_t(127 - kBias)) << 23 | mantissa << (23 - kMantissa));
  }
};

using Float16 = SmallFloat<uint16_t, 5, 10, 15, Special::kIeee>;
using Bfloat16 = SmallFloat<uint16_t, 8, 7, 127, Special::kIeee>;
using Float8E4M3 = SmallFloat<uint8_t, 4, 3, 7, Special::kFn>;  // OCP; also called E4M3FN
using Float8E5M2 = SmallFloat<uint8_t, 5, 2, 15, Special::kIeee>;
using Float8E4M3Fnuz = SmallFloat<uint8_t, 4, 3, 8, Special::kFnuz>;
using Float8E5M2Fnuz = SmallFloat<uint8_t, 5, 2, 16, Special::kFnuz>;
using Float4E2M1 = SmallFloat<uint8_t, 2, 1, 1, Special::kFinite>;  // one code per byte here; stored two per byte

// 2^(code - 127), where code 255 is NaN: the shared scale of a block (OCP Microscaling Formats 1.0, 5.4.1). It has no
// zero and no sign. Floats are rounded to the nearest power of two, ties upward. 0, negative values and infinity,
// which it cannot represent, become NaN. In (2^-127, 2^-126) everything is rounded up, as in ml_dtypes, although up
// to 1.5 2^-127 code 0 is nearer.
struct Float8E8M0 {
  uint8_t bits;

  static constexpr uint8_t kMax = 0xFE, kNan = 0xFF;

  Float8E8M0() = default;
  constexpr explicit Float8E8M0(float v) : bits(encode(v)) {}
  constexpr explicit Float8E8M0(double v) : bits(encode(round_to_odd(v))) {}
  constexpr explicit operator float() const {
    if (bits == kNan) return std::bit_cast<float>(0x7FC00000u);
    return std::bit_cast<float>(bits == 0 ? 0x00400000u : uint32_t(bits) << 23);
  }
  constexpr explicit operator double() const { return double(float(*this)); }

  static constexpr Float8E8M0 of_bits(uint8_t code) {
    Float8E8M0 value{};
    value.bits = code;
    return value;
  }
  // Returns the nearest power of two of the format: 0 becomes the smallest, infinity the largest. Negative values and
  // NaN are NaN.
  static constexpr Float8E8M0 saturated(float v) { return of_bits(within(v, 0x400000u)); }
  // Returns the smallest power of two that is not below v, saturating (PTX cvt.rp.satfinite.ue8m0x2.f32).
  static constexpr Float8E8M0 rounded_up(float v) { return of_bits(within(v, 0x7FFFFFu)); }

 private:
  // Adds `up` below the exponent. Half of the exponent's last bit rounds to nearest; one unit less than that bit
  // rounds up.
  static constexpr uint8_t within(float v, uint32_t up) {
    const auto word = std::bit_cast<uint32_t>(v);
    if (word << 1 == 0) return 0;
    if (word > 0x7F800000u) return kNan;
    const uint32_t code = word <= 0x400000u ? 0 : (word + up) >> 23;
    return uint8_t(code > kMax ? kMax : code);
  }

  static constexpr uint8_t encode(float v) {
    const auto word = std::bit_cast<uint32_t>(v);
    return word == 0 || word >= 0x7F400000u ? kNan : within(v, 0x400000u);  // overflows from 1.5 2^127 on
  }
};

// Two codes of -8 .. 7 in a byte. The code of the lower index is in the low bits.
struct Int4Pair {
  uint8_t bits;
};

template <>
struct Element<Float16> {
  static constexpr ElementType kType = ElementType::kFloat16;
  using Accumulator = float;
};
template <>
struct Element<Bfloat16> {
  static constexpr ElementType kType = ElementType::kBfloat16;
  using Accumulator = float;
};
template <>
struct Element<Float8E4M3> {
  static constexpr ElementType kType = ElementType::kFloat8E4M3;
  using Accumulator = float;
};
template <>
struct Element<Float8E5M2> {
  static constexpr ElementType kType = ElementType::kFloat8E5M2;
  using Accumulator = float;
};
template <>
struct Element<Float8E4M3Fnuz> {
  static constexpr ElementType kType = ElementType::kFloat8E4M3Fnuz;
  using Accumulator = float;
};
template <>
struct Element<Float8E5M2Fnuz> {
  static constexpr ElementType kType = ElementType::kFloat8E5M2Fnuz;
  using Accumulator = float;
};
template <>
struct Element<Float8E8M0> {
  static constexpr ElementType kType = ElementType::kFloat8E8M0;
  using Accumulator = float;
};
template <>
struct Element<Int4Pair> {
  static constexpr ElementType kType = ElementType::kInt4;
  using Accumulator = int32_t;
};

}  // namespace nacre::inline NACRE_ISA
