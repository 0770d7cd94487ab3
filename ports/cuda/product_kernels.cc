// Compiled for the device and the simulated one, as the sources of the reference's entries are.
#include "ports/cuda/product_kernels.h"

#include "engine/kernels/define_entries.h"

namespace nacre::reference {

#include "ports/cuda/product_kernels.inc"

}  // namespace nacre::reference
