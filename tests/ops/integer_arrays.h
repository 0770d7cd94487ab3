// Makes operands for tests of integer training: arrays of random int8 codes and of 32-bit numbers. clipped() and
// in_int32() saturate a number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/cases_random.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test::integer_arrays {

inline Array codes(Random& random, std::vector<int32_t> dims, int low, int high) {
  Array made = make_array(kI8, std::move(dims));
  for (int64_t i = 0; i < made.elements(); ++i) made.set(i, pick(random, low, high));
  return made;
}
inline Array words32(ElementType type, const std::vector<double>& values, std::vector<int32_t> dims = {}) {
  if (dims.empty()) dims = {int32_t(values.size())};
  return array_of(type, dims, values);
}
inline int64_t clipped(int64_t v, int64_t end) { return std::min(end, std::max(-end, v)); }
inline int64_t in_int32(int64_t v) { return std::min<int64_t>(INT32_MAX, std::max<int64_t>(INT32_MIN, v)); }

}  // namespace nacre::test::integer_arrays
