// The fast depthwise convolutions of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_depthwise_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_depthwise.inc"
#include "ports/vector/kernels.inc"
