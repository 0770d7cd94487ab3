#include "engine/ops/pool.h"
#include "engine/kernels/define_entries.h"
#include "engine/ops/resize.h"

namespace nacre::reference {
#include "engine/kernels/reference/pool.inc"
}  // namespace nacre::reference
