// The fast gradients of products of two stacks of matrices of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/batched_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/batched_gradient/list.inc"
#include "ports/vector/kernels.inc"
