// The fast products of one tier with weights in rows and a fused epilogue.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_row_major_fused_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_row_major_fused.inc"
#include "ports/vector/kernels.inc"
