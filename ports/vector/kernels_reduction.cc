// The fast pools, reductions and norms of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/pointwise/run.h"
#include "engine/kernels/fast/reduction/rows.h"
#include "engine/kernels/fast/reduction/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/reduction/list.inc"
#include "ports/vector/kernels.inc"
