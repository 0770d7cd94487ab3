// The fast functions of one and two elements of one tier, and those between number formats.
#include "ports/x86/vec.h"
// After the vectors.
#include "engine/kernels/fast_format_run.h"
#include "engine/kernels/fast_pointwise_run.h"

#define NACRE_FAST_LIST "engine/kernels/fast_pointwise.inc"
#include "ports/x86/kernels.inc"
