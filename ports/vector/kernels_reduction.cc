// The fast pools, reductions and norms of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_pointwise_run.h"
#include "engine/kernels/fast_reduction_run.h"
#include "engine/kernels/fast_rows_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_reduction.inc"
#include "ports/vector/kernels.inc"
