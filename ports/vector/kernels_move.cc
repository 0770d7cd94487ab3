// The fast moves of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_move_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_move.inc"
#include "ports/vector/kernels.inc"
