// Fills tensors with bytes that an attacker would choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/tensor.h"

namespace nacre::test {

enum class Filling : uint8_t {
  kZeros,
  kStretches,  // the ends of the type one after another, 40 elements each: whole windows see one of them
  kEnds,       // the same, one element each
  kRandom,     // random bits
};

// Fills with the ends of the type: lowest, highest and, for floats, infinities, NaN, a subnormal. `seed` chooses the
// first.
void fill(std::span<std::byte> bytes, ElementType type, Filling filling, uint64_t seed);

// splitmix64, Steele et al. 2014.
uint64_t mix(uint64_t x);

}  // namespace nacre::test
