// The fast products in training of one tier that may take pairs of bfloat16.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/gradient/run.h"
#include "engine/kernels/fast/row_major_fused/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/pairs/list.inc"
#include "ports/vector/kernels.inc"
