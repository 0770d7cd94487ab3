// The fast products of one tier whose weights are decoded on the way.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_decoded_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_decoded.inc"
#include "ports/vector/kernels.inc"
