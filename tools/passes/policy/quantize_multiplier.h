// Converts a real multiplier to the pair of integers that the engine's integer arithmetic takes.
#pragma once

#include "engine/numeric/fixed_point.h"

namespace nacre::tools {

// Returns m and s of real = m 2^(s - 31), |m| in [2^30, 2^31): NUMERICS.md eq. 5. m is rounded half away from zero. A
// magnitude below 2^-32 gives {0, 0}; from 2^30 on the pair saturates and keeps its sign. `real` must be finite.
FixedPoint quantize_multiplier(double real);

}  // namespace nacre::tools
