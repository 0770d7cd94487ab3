// The fast gradients of functions of rows of one tier, and its losses of classes.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/row_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/row_gradient/list.inc"
#include "ports/vector/kernels.inc"
