// The fast gradients of moves of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/move_gradient/forms.h"

#define NACRE_FAST_LIST "engine/kernels/fast/move_gradient/list.inc"
#include "ports/vector/kernels.inc"
