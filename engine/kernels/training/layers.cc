#include "engine/kernels/define_entries.h"
#include "engine/ops/batched_matmul.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/gelu.h"
#include "engine/ops/layer_norm.h"

namespace nacre::reference {
#include "engine/kernels/training/layers.inc"
}  // namespace nacre::reference
