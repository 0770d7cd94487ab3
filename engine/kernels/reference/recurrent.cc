#include "engine/kernels/define_entries.h"
#include "engine/ops/gru.h"
#include "engine/ops/lstm.h"
#include "engine/ops/stream_lstm.h"
#include "engine/ops/svdf.h"

namespace nacre::reference {
#include "engine/kernels/reference/recurrent.inc"
}  // namespace nacre::reference
