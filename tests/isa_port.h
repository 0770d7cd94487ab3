// A port for tests that is compiled with another instruction set (tests/meson.build), as the ports of x86 and ARM
// are. It compiles the reference's matrix and pointwise kernels again in the namespace nacre::isa_test.
#pragma once

#include "engine/kernels/kernel.h"

namespace nacre::test {

const KernelSet& isa_kernels();
bool isa_runs_here();  // whether this processor has the instruction set

}  // namespace nacre::test
