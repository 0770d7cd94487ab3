#include "engine/kernels/define_entries.h"
#include "engine/ops/all.h"

namespace nacre::reference {
#include "engine/kernels/training/losses.inc"
}  // namespace nacre::reference
