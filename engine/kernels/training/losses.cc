#include "engine/kernels/define_entries.h"
#include "engine/ops/loss.h"
#include "engine/ops/loss_elementwise.h"

namespace nacre::reference {
#include "engine/kernels/training/losses.inc"
}  // namespace nacre::reference
