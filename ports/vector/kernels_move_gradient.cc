// The fast gradients of moves of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_move_gradient.h"

#define NACRE_FAST_LIST "engine/kernels/fast_move_gradient.inc"
#include "ports/vector/kernels.inc"
