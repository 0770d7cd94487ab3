// The fast functions of two elements, comparisons and choices of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/pair/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/pair/list.inc"
#include "ports/vector/kernels.inc"
