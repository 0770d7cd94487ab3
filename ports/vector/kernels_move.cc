// The fast moves of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/move/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/move/list.inc"
#include "ports/vector/kernels.inc"
