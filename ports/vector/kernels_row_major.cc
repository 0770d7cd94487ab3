// The fast products of one tier with weights in rows.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_row_major_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_row_major.inc"
#include "ports/vector/kernels.inc"
