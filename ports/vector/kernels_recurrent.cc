// The fast loops over time of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/recurrent/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/recurrent/list.inc"
#include "ports/vector/kernels.inc"
