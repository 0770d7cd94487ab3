// int8 kernels for microcontrollers with the DSP extension (Cortex-M4, -M7, -M33, -M55), for programs that were
// converted with --target arm/m4 or another of ports(). On processors without it (Cortex-M0+, -M3, RISC-V, and the PC
// that tests the kernels) the same kernels are plain C++ (dsp.h).
//
//   const KernelSet* const kernels[] = {&cortex_m::kernels(), &reference::kernels()};
//
// Single entries can be bound too; `nacre kernels` and `nacre firmware` name them. The kernels read the weights of
// any file as they are and give the bytes of the reference.
#pragma once

#include <span>

#include "engine/kernels/reference.h"

namespace nacre::cortex_m {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY

const KernelSet& kernels();
std::span<const reference::NamedEntry> list();  // in the order of kernels().entries
std::span<const Port> ports();                  // one port for each target that has these kernels: "arm/m4"

}  // namespace nacre::cortex_m
