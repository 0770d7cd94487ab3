// The fast gradients of depthwise convolutions and pools of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_window_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_window_gradient.inc"
#include "ports/vector/kernels.inc"
