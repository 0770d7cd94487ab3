// The fast gradients of activations and of batch normalisation of one tier.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/layer_gradient/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/layer_gradient/list.inc"
#include "ports/vector/kernels.inc"
