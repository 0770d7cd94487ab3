// The fast gradients of activations and of batch normalisation of one tier.
#include "ports/x86/vec.h"
// After the vectors.
#include "engine/kernels/fast_layer_gradient_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_layer_gradient.inc"
#include "ports/x86/kernels.inc"
