#include "engine/kernels/define_entries.h"
#include "engine/ops/gradient.h"

namespace nacre::reference {
#include "engine/kernels/training/sums.inc"
}  // namespace nacre::reference
