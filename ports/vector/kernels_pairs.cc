// The fast products in training of one tier that may take pairs of bfloat16.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_gradient_run.h"
#include "engine/kernels/fast_row_major_fused_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_pairs.inc"
#include "ports/vector/kernels.inc"
