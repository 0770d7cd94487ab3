// Seeded random numbers for tests.
#pragma once

#include <random>

namespace nacre::test {

struct Random : std::mt19937_64 {
  using std::mt19937_64::mt19937_64;

  // If above 0, some dims are near multiples of so many lanes, where kernels switch loops (channels() in
  // cases_random.h).
  int lanes = 0;
};

}  // namespace nacre::test
