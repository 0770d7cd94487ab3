// The fast loops over time of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_recurrent_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_recurrent.inc"
#include "ports/vector/kernels.inc"
