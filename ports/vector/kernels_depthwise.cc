// The fast depthwise convolutions of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/depthwise/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/depthwise/list.inc"
#include "ports/vector/kernels.inc"
