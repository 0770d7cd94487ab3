// The fast products of stacks of matrices of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_batched_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_batched.inc"
#include "ports/vector/kernels.inc"
