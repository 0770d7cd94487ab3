// The fast products of one tier with weights in rows.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/row_major/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/row_major/list.inc"
#include "ports/vector/kernels.inc"
