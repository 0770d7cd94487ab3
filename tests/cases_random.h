// Random numbers and dims for case makers.
#pragma once

#include <bit>

#include "tests/cases.h"

namespace nacre::test {

inline int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
inline bool chance(Random& random, int percent) { return pick(random, 1, 100) <= percent; }
inline double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
inline uint32_t bits(double v) { return std::bit_cast<uint32_t>(float(v)); }

inline std::vector<int32_t> random_dims(Random& random, int rank, int most) {
  std::vector<int32_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(pick(random, 1, rank > 6 ? std::min(most, 3) : most));
  return dims;
}

// Returns the size of an axis that kernels process in vectors: at most `most` or, with random.lanes, a size near
// whole vectors.
inline int channels(Random& random, int most) {
  const int lanes = random.lanes;
  if (lanes == 0 || !chance(random, 70)) return pick(random, 1, most);
  const int around[] = {1,         lanes - 1,     lanes,     lanes + 1,    2 * lanes - 1,
                        2 * lanes, 2 * lanes + 3, 4 * lanes, 5 * lanes + 2};
  return around[pick(random, 0, int(std::size(around)) - 1)];
}

}  // namespace nacre::test
