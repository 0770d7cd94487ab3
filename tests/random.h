// The random numbers of tests, from a seed.
#pragma once

#include <random>

namespace nacre::test {

struct Random : std::mt19937_64 {
  using std::mt19937_64::mt19937_64;

  // Above 0, some dims are those at which kernels of so many lanes change their ways (channels() in cases_random.h).
  int lanes = 0;
};

}  // namespace nacre::test
