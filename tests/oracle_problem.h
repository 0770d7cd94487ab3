// Types that the parts of the oracle share: a step as a problem, multi-indices, and results with their tolerance.
#pragma once

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/oracle.h"
#include "tests/oracle_fixed_point.h"
#include "tests/oracle_rounding.h"

namespace nacre::test {

inline constexpr double kEpsilon = FLT_EPSILON;  // twice the rounding error of one float32 operation
using Real = long double;  // 64 bits of mantissa on x86: what float64 kernels are measured against
using Index = std::vector<int32_t>;

struct Problem {
  const KernelEntry& entry;
  const std::vector<uint32_t>& words;
  const std::vector<Array>& in;

  int word(int i) const { return size_t(i) < words.size() ? int(words[size_t(i)]) : 0; }
  double real_word(int i) const { return double(std::bit_cast<float>(uint32_t(word(i)))); }
  bool has(int i) const { return size_t(i) < in.size() && in[size_t(i)].present(); }
  // Returns twice the rounding error of one operation on sums: float64's for float64 steps, else float32's.
  double epsilon() const { return in[0].element == ElementType::kFloat64 ? DBL_EPSILON : kEpsilon; }
  bool coded() const { return in[0].element == ElementType::kInt8 || in[0].element == ElementType::kInt16; }
  ElementType output() const { return entry.operands[entry.operand_count - 1].element; }
};

inline int64_t offset(const Index& dims, const Index& index) {
  int64_t at = 0;
  for (size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + index[i];
  return at;
}

// Returns the multi-index of element e of an array of `dims`: index i is e / (product of later dims) % dim.
inline Index index_of(const Index& dims, int64_t element) {
  Index index(dims.size());
  for (size_t i = dims.size(); i-- > 0; element /= dims[i]) index[i] = int32_t(element % dims[i]);
  return index;
}

// Returns the element of an operand that numpy broadcasts to `index`.
inline int64_t broadcast_offset(const Index& dims, const Index& index) {
  Index own(index.end() - long(dims.size()), index.end());
  for (size_t i = 0; i < dims.size(); ++i) own[i] %= dims[i];  // a dim of 1 gives 0
  return offset(dims, own);
}

inline int64_t count_of(const Index& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// Fills an Expected element by element: f(index) -> {value, tolerance}.
using Result = std::pair<double, double>;
template <class F>
Expected expect(const Index& dims, F f) {
  Expected expected = {dims, {}, {}};
  for (int64_t e = 0; e < count_of(dims); ++e) {
    const auto [value, tolerance] = f(index_of(dims, e));
    expected.value.push_back(value);
    expected.tolerance.push_back(tolerance);
  }
  return expected;
}

// Returns v as stored, given its error in the accumulator. A 16-bit type adds half of its last place. float64 adds
// the half place that the expected value, a double, loses.
inline Result stored(const Problem& p, Real v, Real error) {
  const auto narrow = [](ElementType t) { return t == ElementType::kFloat16 || t == ElementType::kBfloat16; };
  // A fused cast rounds to the narrower of the two types.
  const ElementType type = narrow(p.in[0].element) ? p.in[0].element : p.output();
  const bool rounds = narrow(type) || type == ElementType::kFloat64;
  return {double(v), double(error + (rounds ? quantum(type, std::abs(v) + error) / 2 : 0))};
}

inline Real clamped(const Problem& p, int first, Real v) {
  if (p.word(first) == 0) return v;
  return std::min<Real>(std::max<Real>(v, p.real_word(first + 1)), p.real_word(first + 2));
}
// Returns v saturated to a code of the output.
inline Result saturated(const Problem& p, int64_t v) {
  const int64_t half = int64_t{1} << (element_bits(p.output()) - 1);
  const int64_t low = p.output() == ElementType::kUint8 ? 0 : -half;
  return {double(std::clamp(v, low, low + 2 * half - 1)), 0};
}
inline Result clamped_code(const Problem& p, int first, int64_t v) {
  if (p.word(first) == 0) return saturated(p, v);
  return {double(std::min<int64_t>(std::max<int64_t>(v, p.word(first + 1)), p.word(first + 2))), 0};
}

inline int64_t scaled(const Problem& p, int slot, int64_t row, int64_t x) {
  return exact_multiply(p.entry.rounding, x, p.in[size_t(slot)].integer(2 * row),
                        p.in[size_t(slot)].integer(2 * row + 1));
}

}  // namespace nacre::test
