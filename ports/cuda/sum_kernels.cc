// Compiled for the device and the simulated one, as product_kernels.cc is.
#include "ports/cuda/sum_kernels.h"

#include "engine/kernels/define_entries.h"

namespace nacre::reference {

#include "ports/cuda/sum_kernels.inc"

}  // namespace nacre::reference
