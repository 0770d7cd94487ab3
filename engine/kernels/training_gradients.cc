#include "engine/kernels/define_entries.h"
#include "engine/ops/activation.h"
#include "engine/ops/batch_norm_training.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/gradient.h"
#include "engine/ops/move_gradient.h"
#include "engine/ops/norm.h"
#include "engine/ops/pool.h"
#include "engine/ops/reduce.h"
#include "engine/ops/softmax.h"

namespace nacre::reference {
#include "engine/kernels/training_gradients.inc"
}  // namespace nacre::reference
