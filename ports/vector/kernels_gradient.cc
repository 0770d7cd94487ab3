// The fast gradients of products of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/gradient/list.inc"
#include "ports/vector/kernels.inc"
