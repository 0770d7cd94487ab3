// The fast gradients of functions of one number of one tier, its dropout and its losses of numbers.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/function_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/function_gradient/list.inc"
#include "ports/vector/kernels.inc"
