#include <algorithm>

#include "tools/calibration/range_method.h"

namespace nacre::tools {

// Returns low = min_t min_i x_ti, high = max_t max_i x_ti over samples t and elements i, so no sample saturates.
Range min_max_range(std::span<const Range> samples) {
  Range all = samples[0];
  for (const Range& sample : samples) all = {std::min(all.low, sample.low), std::max(all.high, sample.high)};
  return all;
}

}  // namespace nacre::tools
