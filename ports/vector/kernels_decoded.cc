// The fast products of one tier whose weights are decoded on the way.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/decoded/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/decoded/list.inc"
#include "ports/vector/kernels.inc"
