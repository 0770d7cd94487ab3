#include "engine/kernels/define_entries.h"
#include "engine/ops/pool.h"

namespace nacre::reference {
#include "engine/kernels/reference_pool.inc"
}  // namespace nacre::reference
