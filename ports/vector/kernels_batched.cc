// The fast products of stacks of matrices of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/batched/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/batched/list.inc"
#include "ports/vector/kernels.inc"
