// The fast gradients of products of two stacks of matrices of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_batched_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_batched_gradient.inc"
#include "ports/vector/kernels.inc"
