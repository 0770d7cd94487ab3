// The number of elements of a shape that came in with a file.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace nacre::tools {

// Returns the product of the sizes in `dims`, or INT64_MAX if the product is larger than an int64_t can be.
inline int64_t product_of(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t d : dims)
    if (__builtin_mul_overflow(product, d, &product)) return std::numeric_limits<int64_t>::max();
  return product;
}

}  // namespace nacre::tools
