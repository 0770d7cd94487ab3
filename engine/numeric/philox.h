// Philox 4x32-10 makes random numbers as a function of a counter and a key.  Salmon, Moraes, Dror & Shaw 2011,
// "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
//
//   one round, in 32 bits:  (c0, c1, c2, c3) <- (high(M1 c2) ^ c1 ^ k0, low(M1 c2), high(M0 c0) ^ c3 ^ k1, low(M0 c0))
//   ten rounds; before each but the first (k0, k1) <- (k0 + W0, k1 + W1)
//
// There is no state: the same counter and key give the same numbers. So a gradient step computes the numbers of its
// forward step again, and neither the order of elements nor the number of workers changes them.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  constexpr uint32_t kM0 = 0xD2511F53, kM1 = 0xCD9E8D57;  // chosen by the authors for diffusion
  constexpr uint32_t kW0 = 0x9E3779B9, kW1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kM0} * c[0], p1 = uint64_t{kM1} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
    k = {k[0] + kW0, k[1] + kW1};
  }
  return c;
}

}  // namespace nacre::inline NACRE_ISA
