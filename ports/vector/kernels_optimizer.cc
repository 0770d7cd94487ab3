// The fast optimizers of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast_optimizer_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_optimizer.inc"
#include "ports/vector/kernels.inc"
