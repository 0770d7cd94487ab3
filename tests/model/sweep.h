// Damages a valid model in every small way and exercises each result.
//
//   bits      flips each bit of header and FlatBuffer
//   weights   flips one bit per 256 bytes of the rest
//   constants sets all constants at once to the ends of their types, or to random bits: NaN, infinity, subnormals
//   lengths   cuts the file at every length
//
// Each result is exercised as it is, and with length and CRCs corrected.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/model/exercise.h"

namespace nacre::test {

struct Swept {
  uint64_t tried = 0, of = 0;
  uint64_t outcomes[size_t(Outcome::kCount)] = {};
  uint64_t missed = 0;  // flips and fillings in a segment, CRC not repaired, not refused as kSegmentCrc

  Swept& operator+=(const Swept& other);
};

// Sweeps the first `tries` mutants in an order given by `seed`; if `tries` is 0, all of them from start to end.
Swept sweep(const std::string& name, std::span<const std::byte> file, uint64_t tries, uint64_t seed);

}  // namespace nacre::test
