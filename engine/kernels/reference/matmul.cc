#include "engine/kernels/define_entries.h"
#include "engine/ops/batched_matmul.h"
#include "engine/ops/conv.h"
#include "engine/ops/dense.h"

namespace nacre::reference {
#include "engine/kernels/reference/matmul.inc"
}  // namespace nacre::reference
