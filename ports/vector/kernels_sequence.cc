// The fast loops over time of one tier, as training has them.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/sequence/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/sequence/list.inc"
#include "ports/vector/kernels.inc"
