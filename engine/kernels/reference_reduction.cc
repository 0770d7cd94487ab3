#include "engine/kernels/define_entries.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/norm.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"

namespace nacre::reference {
#include "engine/kernels/reference_reduction.inc"
}  // namespace nacre::reference
