// The fast optimizers of one tier.
#include "ports/x86/vec.h"
// After the vectors.
#include "engine/kernels/fast_optimizer_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_optimizer.inc"
#include "ports/x86/kernels.inc"
