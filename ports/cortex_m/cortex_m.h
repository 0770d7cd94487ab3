// Microcontrollers: int8 kernels over the DSP extension of Cortex-M4, -M7, -M33 and -M55, for programs that were
// converted with --target arm/m4 or another of ports(). Without the extension (Cortex-M0+, -M3, RISC-V, and a PC, which
// tests them) they are plain C++ (dsp.h).
//
//   const KernelSet* const kernels[] = {&cortex_m::kernels(), &reference::kernels()};
//
// or single entries, as `nacre kernels` and `nacre firmware` name them. They read the weights of any file as they are,
// and give the bytes of the reference.
#pragma once

#include <span>

#include "engine/kernels/reference.h"

namespace nacre::cortex_m {

#define NACRE_ENTRY(name, ...) extern const KernelEntry name;
#include "ports/cortex_m/kernels.inc"
#undef NACRE_ENTRY

const KernelSet& kernels();
std::span<const reference::NamedEntry> list();  // in the order of kernels().entries
std::span<const Port> ports();                  // one for each target that has them: "arm/m4"

}  // namespace nacre::cortex_m
