#include "engine/ops/move.h"
#include "engine/kernels/define_entries.h"
#include "engine/ops/embedding.h"
#include "engine/ops/pack.h"
#include "engine/ops/store.h"

namespace nacre::reference {
#include "engine/kernels/reference/move.inc"
}  // namespace nacre::reference
