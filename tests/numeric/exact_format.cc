#include "tests/numeric/exact_format.h"

#include <cmath>
#include <limits>

namespace nacre::test {

ExactFormat::ExactFormat(int exponents, int mantissas, int exponent_bias, Kind special)
    : exponent_bits(exponents), mantissa_bits(mantissas), bias(exponent_bias), kind(special),
      sign_bit(1u << (exponents + mantissas)) {
  const uint32_t steps = 1u << mantissa_bits, last = sign_bit - 1;
  const uint32_t largest = kind == Kind::kIeee ? last - steps : kind == Kind::kFn ? last - 1 : last;
  for (uint32_t code = 0; code <= largest + 1; ++code) {  // one more: where the next value would stand
    const auto exponent = int(code / steps);
    const double fraction = double(code % steps) / steps;
    const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    if (code > 0) midpoints.push_back((values.back() + value) / 2);
    if (code <= largest) values.push_back(value);
  }
}

uint32_t ExactFormat::infinity_code() const {
  if (kind == Kind::kFnuz) return sign_bit;
  return kind == Kind::kFinite ? max_code() : max_code() + 1;
}

bool ExactFormat::nan(uint32_t code) const {
  const uint32_t magnitude = code & (sign_bit - 1);
  if (kind == Kind::kFnuz) return code == sign_bit;
  return kind == Kind::kFn ? magnitude > max_code() : kind == Kind::kIeee && magnitude > infinity_code();
}

double ExactFormat::value(uint32_t code) const {
  const uint32_t magnitude = code & (sign_bit - 1);
  const double size = magnitude <= max_code() ? values[magnitude] : std::numeric_limits<double>::infinity();
  return (code & sign_bit) != 0 ? -size : size;
}

uint32_t ExactFormat::encode(float v, bool saturate, uint32_t* cursor) const {
  const double size = std::fabs(double(v));
  while (*cursor <= max_code() && (size > midpoints[*cursor] || (size == midpoints[*cursor] && *cursor % 2 == 1)))
    ++*cursor;
  const bool negative = std::signbit(v);
  if (*cursor > max_code()) {
    const uint32_t code = saturate ? max_code() : infinity_code();
    return kind == Kind::kFnuz && !saturate ? code : code | (negative ? sign_bit : 0);
  }
  return *cursor == 0 && kind == Kind::kFnuz ? 0 : *cursor | (negative ? sign_bit : 0);
}

uint32_t ExactFormat::encode(float v, bool saturate) const {
  const double size = std::fabs(double(v));
  uint32_t low = 0, high = uint32_t(midpoints.size());
  while (low < high) {  // the first midpoint that is not below
    const uint32_t middle = (low + high) / 2;
    if (midpoints[middle] < size) low = middle + 1;
    else high = middle;
  }
  return encode(v, saturate, &low);
}

std::vector<float> ties(const ExactFormat& format) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> result;
  for (const double midpoint : format.midpoints) {
    const auto tie = float(midpoint);
    for (const float v : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, kInfinity)})
      result.insert(result.end(), {v, -v});
  }
  return result;
}

}  // namespace nacre::test
