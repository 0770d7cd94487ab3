// Converts a real multiplier to the pair of integers that the engine's integer arithmetic takes.
#pragma once

#include "engine/numeric/fixed_point.h"

namespace nacre::tools {

// real = m 2^(s - 31), |m| in [2^30, 2^31): NUMERICS.md eq. 5. m is rounded half away from zero. Below 2^-32 the pair
// is {0, 0}, above 2^30 it saturates. `real` must be finite and may be negative.
FixedPoint quantize_multiplier(double real);

}  // namespace nacre::tools
