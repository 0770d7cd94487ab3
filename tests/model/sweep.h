// Sweep: damages a valid model in every small way and exercises each result.
//
//   bits      every bit of header and FlatBuffer flipped
//   weights   one flip per 256 bytes of what follows
//   constants all constants at once at the ends of their types, or random bits: NaN, infinity, subnormals
//   lengths   cut at every length
//
// each as it is, and with length and CRCs made right again.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/model/exercise.h"

namespace nacre::test {

struct Swept {
  uint64_t tried = 0, of = 0;
  uint64_t outcomes[size_t(Outcome::kCount)] = {};
  uint64_t missed = 0;  // flips inside a segment, CRC as it was, that check_weights did not see

  Swept& operator+=(const Swept& other);
};

// Sweeps the first `tries` in an order given by `seed`; 0: the whole, from start to end.
Swept sweep(const std::string& name, std::span<const std::byte> file, uint64_t tries, uint64_t seed);

}  // namespace nacre::test
