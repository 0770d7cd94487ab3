// The fast gradients of functions of one number of one tier, its dropout and its losses of numbers.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_function_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_function_gradient.inc"
#include "ports/vector/kernels.inc"
