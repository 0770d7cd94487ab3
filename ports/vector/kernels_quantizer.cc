// The fast quantizers of one tier that training simulates.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/quantizer/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/quantizer/list.inc"
#include "ports/vector/kernels.inc"
