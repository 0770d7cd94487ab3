// Fast kernels for x86-64, in tiers. A program chooses one tier for its processor.
//
//   const Port* const ports[] = {&x86::port(x86::best())};
//   Places places(ports);                      // engine/run/places.h; its measure and bind take the reference kernels
//
// Each tier is a set of kernels, compiled for the instructions that its line names. The reference kernels run the steps
// that the set lacks.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"

namespace nacre::x86 {

enum class Tier : uint8_t {
  kPortable,    // plain C++, for every machine but AArch64, which always has NEON
  kAvx2,        // AVX2, FMA, F16C, BMI1, BMI2
  kAvx2Vnni,    // kAvx2 and AVX-VNNI
  kAvx512,      // kAvx2 and AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // kAvx512 and VNNI
  kAvx512Bf16,  // kAvx512Vnni and BF16: products of bfloat16 in pairs
  kAmx,         // kAvx512Bf16 and AMX-INT8, AMX-BF16: products in tiles
  kCount
};

const char* name(Tier tier);  // "portable", "avx2", ...
bool runs_here(Tier tier);    // true if the tier is compiled, and CPUID and XGETBV show it (or it is kPortable). If the
                              // processor has AMX, the first call asks Linux to save its state, for the whole process
int lanes(Tier tier);         // numbers in a vector
bool by_name(Tier tier);      // true if best() never chooses it: kAmx, whose tiles cost each thread 8 KiB of state, and
                              // kAvx512Bf16 on Intel's processors, whose vdpbf16ps has a quarter of the rate of fma
Tier best();                  // the highest that runs here and is not by_name; kCount if there is none, for example if
                              // -Dx86_tiers=native left out kPortable and the library runs on an older processor

const KernelSet& kernels(Tier tier);
const Port& port(Tier tier);                             // "x86/avx2"
std::span<const reference::NamedEntry> list(Tier tier);  // with names; `run` is null if the tier is not compiled

}  // namespace nacre::x86
