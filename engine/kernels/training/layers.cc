#include "engine/kernels/define_entries.h"
#include "engine/ops/all.h"

namespace nacre::reference {
#include "engine/kernels/training/layers.inc"
}  // namespace nacre::reference
