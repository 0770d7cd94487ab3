// The fast gradients of broadcasts and of reductions of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_broadcast_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_broadcast_gradient.inc"
#include "ports/vector/kernels.inc"
