// The fast convolutions of one tier whose groups are no whole vectors.
#include NACRE_VECTORS
// After the vectors.
#include "engine/kernels/fast/groups/run.h"

#define NACRE_FAST_LIST "engine/kernels/fast/groups/list.inc"
#include "ports/vector/kernels.inc"
