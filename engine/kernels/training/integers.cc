#include "engine/kernels/define_entries.h"
#include "engine/ops/integer_conv_gradient.h"
#include "engine/ops/integer_gradient.h"
#include "engine/ops/integer_share.h"
#include "engine/ops/integer_update.h"

namespace nacre::reference {
#include "engine/kernels/training/integers.inc"
}  // namespace nacre::reference
