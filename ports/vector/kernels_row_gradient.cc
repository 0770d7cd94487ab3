// The fast gradients of functions of rows of one tier, and its losses of classes.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_row_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_row_gradient.inc"
#include "ports/vector/kernels.inc"
