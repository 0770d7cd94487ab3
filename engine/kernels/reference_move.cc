#include "engine/kernels/define_entries.h"
#include "engine/ops/embedding.h"
#include "engine/ops/move.h"
#include "engine/ops/pack.h"
#include "engine/ops/store.h"

namespace nacre::reference {
#include "engine/kernels/reference_move.inc"
}  // namespace nacre::reference
