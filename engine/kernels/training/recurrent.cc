#include "engine/kernels/define_entries.h"
#include "engine/ops/gru.h"
#include "engine/ops/lstm.h"

namespace nacre::reference {
#include "engine/kernels/training/recurrent.inc"
}  // namespace nacre::reference
