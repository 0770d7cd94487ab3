// Compiled for the device and for the tests' simulated one, like the sources of the reference's entries.
#include "ports/cuda/product_kernels.h"

#include "engine/kernels/define_entries.h"

namespace nacre::reference {

#include "ports/cuda/product_kernels.inc"

}  // namespace nacre::reference
