#include "engine/kernels/define_entries.h"
#include "engine/ops/all.h"

namespace nacre::reference {
#include "engine/kernels/training/gradients.inc"
}  // namespace nacre::reference
