// The fast gradients of depthwise convolutions and pools of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/window_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/window_gradient/list.inc"
#include "ports/vector/kernels.inc"
