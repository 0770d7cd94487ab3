// Vectors in plain C++, for every machine.
#pragma once

#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {
using Vector = Lanes<4>;
}  // namespace nacre::inline NACRE_ISA
