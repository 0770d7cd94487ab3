// Fast kernels for x86-64, in tiers. A program chooses one tier for its processor.
//
// Example:
//   const x86::Tier tier = x86::best();
//   if (tier == x86::Tier::kCount) return {Code::kNoKernel};
//   const Port* const ports[] = {&x86::port(tier)};
//   Places places(ports);                                              // engine/run/places.h
//   NACRE_TRY(places.measure(model, 0, kernels, &sizes));              // kernels: {&reference::kernels()}
//   std::printf("%s: %d numbers in a vector\n", x86::name(tier), x86::lanes(tier));
//
// Each tier is a set of kernels, compiled for the instructions that its line names. The reference kernels run the steps
// that the set lacks.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"
#include "ports/x86/tiers.h"

namespace nacre::x86 {

const char* name(Tier tier);  // "portable", "avx2", ...
bool runs_here(Tier tier);    // true if the tier is compiled, and CPUID and XGETBV show it (or it is kPortable). If the
                              // processor has AMX, the first call asks Linux to save its state, for the whole process
int lanes(Tier tier);         // numbers in a vector
bool by_name(Tier tier);      // true if best() never chooses it on this machine: kAmx, and kAvx512Bf16 on Intel's
                              // processors (tiers.h says why)
Tier best();                  // the highest that runs here and is not by_name; kCount if there is none, for example if
                              // -Dx86_tiers=native left out kPortable and the library runs on an older processor

// All functions but runs_here and best ask for a tier below kCount. Sets, ports and lists are constant and static. Any
// machine may measure with a set or port; bind and run it only if runs_here(tier).
const KernelSet& kernels(Tier tier);
const Port& port(Tier tier);                             // "x86/avx2"
std::span<const reference::NamedEntry> list(Tier tier);  // with names; `run` is null if the tier is not compiled

}  // namespace nacre::x86
