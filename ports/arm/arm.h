// Fast kernels for ARM, in tiers over NEON. A program chooses one tier for its processor, as on x86
// (ports/x86/x86.h).
//
// Example:
//   const arm::Tier tier = arm::best();
//   if (tier == arm::Tier::kCount) return {Code::kNoKernel};
//   const Port* const ports[] = {&arm::port(tier)};
//   Places places(ports);                                              // engine/run/places.h
//   NACRE_TRY(places.measure(model, 0, kernels, &sizes));              // kernels: {&reference::kernels()}
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"

namespace nacre::arm {

enum class Tier : uint8_t {
  kArmv7,    // 32 bits: ARMv7-A with NEON and VFPv4, whose multiply-add rounds once (Cortex-A7, -A15, ...)
  kNeon,     // AArch64: every processor has it (Cortex-A53, -A72, ...)
  kDotprod,  // kNeon and ARMv8.2's dot products of int8 (Cortex-A55, -A76, Neoverse and newer)
  kI8mm,     // and ARMv8.6 with int8 matrix products and bfloat16 (Cortex-A510, -A710, -X2, Neoverse V1, N2 and newer)
  kCount
};

const char* name(Tier tier);  // "armv7", "neon", "dotprod", "i8mm"
bool runs_here(Tier tier);    // by the processor's features that Linux tells (AT_HWCAP); false on other machines
int lanes(Tier tier);         // numbers in a vector
Tier best();                  // the highest tier that runs here; kCount if none does

// All functions but runs_here and best ask for a tier below kCount. Sets, ports and lists are constant and static. Any
// machine may measure with a set or port; bind and run it only if runs_here(tier).
const KernelSet& kernels(Tier tier);
const Port& port(Tier tier);                             // "arm/neon"
std::span<const reference::NamedEntry> list(Tier tier);  // with names; `run` is null if not compiled here

}  // namespace nacre::arm
