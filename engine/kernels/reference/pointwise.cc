#include "engine/kernels/define_entries.h"
#include "engine/ops/activation.h"
#include "engine/ops/binary.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gelu.h"
#include "engine/ops/random.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"

namespace nacre::reference {
#include "engine/kernels/reference/pointwise.inc"
}  // namespace nacre::reference
