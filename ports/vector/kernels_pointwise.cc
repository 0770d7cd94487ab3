// The fast functions of one and two elements of one tier, and those between number formats.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/pointwise/formats.h"
#include "engine/kernels/fast/pointwise/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/pointwise/list.inc"
#include "ports/vector/kernels.inc"
