// A port for tests that is compiled with an instruction set of its own (tests/meson.build), as those of x86 and ARM
// are: the matrix and pointwise kernels of the reference once more, in the namespace nacre::isa_test.
#pragma once

#include "engine/kernels/kernel.h"

namespace nacre::test {

const KernelSet& isa_kernels();
bool isa_runs_here();  // whether this processor has the instruction set

}  // namespace nacre::test
