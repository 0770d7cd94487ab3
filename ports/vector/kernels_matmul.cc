// The fast products of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_matmul_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_matmul.inc"
#include "ports/vector/kernels.inc"
