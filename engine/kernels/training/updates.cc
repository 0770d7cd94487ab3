#include "engine/kernels/define_entries.h"
#include "engine/ops/commit.h"
#include "engine/ops/optimize.h"
#include "engine/ops/optimize_onnx.h"

namespace nacre::reference {
#include "engine/kernels/training/updates.inc"
}  // namespace nacre::reference
