// The fast gradients of broadcasts and of reductions of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/broadcast_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/broadcast_gradient/list.inc"
#include "ports/vector/kernels.inc"
