// The fast products of one tier with weights in rows and a fused epilogue.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/row_major_fused/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/row_major_fused/list.inc"
#include "ports/vector/kernels.inc"
