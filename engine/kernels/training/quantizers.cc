#include "engine/kernels/define_entries.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/fake_quantize.h"
#include "engine/ops/move.h"

namespace nacre::reference {
#include "engine/kernels/training/quantizers.inc"
}  // namespace nacre::reference
