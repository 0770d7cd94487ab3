#include "tests/oracle_fixed_point.h"

#include <algorithm>
#include <cmath>

namespace nacre::test {
namespace {

#ifdef __SIZEOF_INT128__
using Wide = __int128;
#else
using Wide = int64_t;  // machines of 32 bits: enough where no product of two numbers of 32 bits and a sign wraps
#endif

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
Wide power_of_two(int64_t exponent) { return Wide{1} << exponent; }

// Both return a / b for a power of two b, rounded to nearest: half_up() rounds ties up, half_away() away from zero.
Wide half_up(Wide a, Wide b) { return floor_divide(a + b / 2, b); }
Wide half_away(Wide a, Wide b) { return a < 0 ? -half_up(-a, b) : half_up(a, b); }

// A number raw / 2^(31 - integer_bits) with gemmlowp's rules: the integer bits of a product are the sum of both.
struct Fixed {
  Wide raw;
  int integer_bits;

  Fixed times(Fixed other) const {
    return {half_up(raw * other.raw, power_of_two(31)), integer_bits + other.integer_bits};
  }
  Fixed plus(Fixed other) const { return {raw + other.raw, integer_bits}; }
  Fixed minus(Fixed other) const { return {raw - other.raw, integer_bits}; }
  Fixed over_power(int64_t exponent) const { return {half_away(raw, power_of_two(exponent)), integer_bits}; }
  Fixed as(int bits) const {
    if (bits >= integer_bits) return {half_away(raw, power_of_two(bits - integer_bits)), bits};
    return {std::clamp<Wide>(raw * power_of_two(integer_bits - bits), INT32_MIN, INT32_MAX), bits};
  }
};

Fixed constant(double value, int integer_bits) {
  return {Wide(std::round(std::ldexp(value, 31 - integer_bits))), integer_bits};
}

// Returns exp(x) for x <= 0: x = r - steps / 4 with r in [-1/4, 0), a Taylor series of exp(r) at -1/8, then a factor
// per bit of `steps`.
Fixed exponential(Fixed x) {
  if (x.raw == 0) return {INT32_MAX, 0};
  const Wide quarter = power_of_two(31 - x.integer_bits - 2);
  const Wide steps = -floor_divide(x.raw, quarter) - 1;
  const Fixed r = Fixed{x.raw + steps * quarter, x.integer_bits}.as(0);
  const Fixed t = r.plus(constant(0.125, 0)), t2 = t.times(t), t3 = t2.times(t), t4 = t2.times(t2);
  const Fixed tail = t4.over_power(2).plus(t3).times(constant(1.0 / 3, 0)).plus(t2).over_power(1);
  const Fixed centre = constant(std::exp(-0.125), 0);
  Fixed result = centre.plus(centre.times(t.plus(tail)));
  for (int bit = 0; bit < x.integer_bits + 2; ++bit)
    if ((steps >> bit & 1) != 0) result = result.times(constant(std::exp(-std::exp2(bit - 2)), 0));
  return result;
}

}  // namespace

int64_t exact_multiply(Rounding rounding, int64_t x, int64_t multiplier, int64_t shift) {
  if (rounding == Rounding::kSingle) return int64_t(half_up(Wide{x} * multiplier, power_of_two(31 - shift)));
  const Wide high = half_up(Wide{x} * power_of_two(std::max<int64_t>(shift, 0)) * multiplier, power_of_two(31));
  return int64_t(half_away(high, power_of_two(std::max<int64_t>(-shift, 0))));
}

int64_t exact_wide_multiply(int64_t x, int64_t multiplier, int64_t shift) {
  const Wide cut = std::min<Wide>(half_up(multiplier, power_of_two(16)), INT16_MAX);
  return int64_t(half_up(Wide{x} * cut, power_of_two(15 - shift)));
}

int64_t softmax_code(const std::vector<double>& x, size_t i, Rounding rounding, const SoftmaxCodes& codes) {
  const int64_t lowest = -(int64_t{1} << (codes.bits - 1));
  const auto peak = int64_t(*std::max_element(x.begin(), x.end()));
  const auto term = [&](double v) {
    return exponential({exact_multiply(rounding, int64_t(v) - peak, codes.multiplier, codes.shift), 5});
  };
  Fixed sum = {0, 12};
  for (const double v : x)
    if (int64_t(v) - peak >= codes.diff_min) sum = sum.plus(term(v).as(12));
  if (int64_t(x[i]) - peak < codes.diff_min) return lowest;
  // sum = 2^bits (1 + f), f in [0, 1): 1 / (1 + f) by Newton-Raphson on d = (1 + f) / 2, three steps.
  const auto bits = int64_t(std::floor(std::log2(double(sum.raw)))) - (31 - 12);
  const Wide fraction = sum.raw * power_of_two(31 - 19 - bits) - power_of_two(31);
  const Fixed d = {(fraction + power_of_two(31)) / 2, 0}, one = constant(1, 2);
  Fixed z = constant(48.0 / 17, 2).plus(d.times(constant(-32.0 / 17, 2)));
  for (int step = 0; step < 3; ++step) z = z.plus(z.times(one.minus(d.times(z))).as(2));
  const Fixed reciprocal = Fixed{z.raw, 1}.as(0);
  const Wide code = half_away(reciprocal.times(term(x[i])).raw, power_of_two(bits + 31 - codes.bits)) + lowest;
  return int64_t(std::min<Wide>(code, -lowest - 1));
}

}  // namespace nacre::test
