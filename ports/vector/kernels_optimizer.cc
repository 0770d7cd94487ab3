// The fast optimizers of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/optimizer/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/optimizer/list.inc"
#include "ports/vector/kernels.inc"
