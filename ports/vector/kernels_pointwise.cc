// The fast functions of one and two elements of one tier, and those between number formats.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_format_run.h"
#include "engine/kernels/fast_pointwise_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_pointwise.inc"
#include "ports/vector/kernels.inc"
