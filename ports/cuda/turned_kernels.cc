// Compiled for the device and for the tests' simulated one, like product_kernels.cc.
#include "ports/cuda/turned_kernels.h"

#include "engine/kernels/define_entries.h"

namespace nacre::reference {

#include "ports/cuda/turned_kernels.inc"

}  // namespace nacre::reference
