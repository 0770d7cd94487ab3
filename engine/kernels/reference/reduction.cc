#include "engine/kernels/define_entries.h"
#include "engine/ops/arg_max.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/log_softmax.h"
#include "engine/ops/non_max_suppression.h"
#include "engine/ops/norm.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/signal.h"
#include "engine/ops/softmax.h"
#include "engine/ops/tree_ensemble.h"

namespace nacre::reference {
#include "engine/kernels/reference/reduction.inc"
}  // namespace nacre::reference
