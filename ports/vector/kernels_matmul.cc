// The fast products of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/matmul/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/matmul/list.inc"
#include "ports/vector/kernels.inc"
