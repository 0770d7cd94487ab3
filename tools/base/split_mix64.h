// SplitMix64: a generator of random numbers that are equal on every machine (splitmix64: Steele, Lea and Flood 2014,
// doi:10.1145/2714064.2660195).
#pragma once

#include <cstdint>

namespace nacre::tools {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  // Returns one of 0 .. n - 1, each as likely as any other: the lowest 2^64 mod n numbers are drawn again.
  uint64_t below(uint64_t n) {
    const uint64_t least = (0 - n) % n;
    for (;;)
      if (const uint64_t z = next(); z >= least) return z % n;
  }

 private:
  uint64_t state_;
};

}  // namespace nacre::tools
