// int8 kernels for microcontrollers with the DSP extension (Cortex-M4, -M7, -M33, -M55), and float32 conv2d with its
// gradients. They are for programs converted with --target arm/m4 or another of ports(). On processors without the
// extension (Cortex-M0+, -M3, RISC-V, and the PC that tests the kernels) they are plain C++ (dsp.h).
//
// Example:
//   const KernelSet* const sets[] = {&cortex_m::kernels(), &reference::kernels()};
//   NACRE_TRY(Program::measure(model, 0, sets, &sizes));   // a model of `nacre convert --target arm/m4`
//   NACRE_TRY(Memory::cut(block, sizes, &memory));
//   NACRE_TRY(program.bind(model, 0, sets, memory));
//
// Single entries can be bound too; `nacre kernels` and `nacre firmware` name them. The kernels read the weights as the
// file has them and give the bytes of the reference.
#pragma once

#include <span>

#include "engine/kernels/reference.h"

namespace nacre::cortex_m {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY

// Sets, lists and ports are constant and static.
const KernelSet& kernels();                     // all entries above; an image that names it links them all
std::span<const reference::NamedEntry> list();  // in the order of kernels().entries
std::span<const Port> ports();                  // one port for each target that has these kernels: "arm/m4"

}  // namespace nacre::cortex_m
