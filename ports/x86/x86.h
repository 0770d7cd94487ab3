// Fast kernels for x86-64, in tiers. A program chooses one tier for its processor.
//
//   const Port* const ports[] = {&x86::port(x86::best())};
//   Places places(ports);                      // engine/run/places.h; the reference kernels stay behind
//
// Each tier is a set of kernels, compiled with the flags that it names. The reference kernels run the steps that it
// lacks.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"

namespace nacre::x86 {

enum class Tier : uint8_t {
  kPortable,    // plain C++, on every machine but AArch64, which always has NEON
  kAvx2,        // AVX2, FMA, F16C
  kAvx2Vnni,    // kAvx2 and AVX-VNNI
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // kAvx512 and VNNI
  kAvx512Bf16,  // kAvx512Vnni and BF16: products of bfloat16 in pairs
  kAmx,         // kAvx512Bf16 and AMX-INT8, AMX-BF16: products in tiles
  kCount
};

const char* name(Tier tier);  // "portable", "avx2", ...
bool runs_here(Tier tier);    // by CPUID and XGETBV, of those that are compiled; on other machines kPortable alone.
                              // Linux is asked first for the state of kAmx's tiles, for the whole process
int lanes(Tier tier);         // numbers in a vector
bool by_name(Tier tier);      // taken only where asked for: kAmx, whose tiles cost each thread 8 KiB of state, and
                              // kAvx512Bf16 on Intel's processors, whose vdpbf16ps has a quarter of the rate of fma
Tier best();                  // the highest that runs here and is not by_name; kCount where none does: a library that
                              // was built with -Dx86_tiers=native lacks kPortable

const KernelSet& kernels(Tier tier);
const Port& port(Tier tier);                             // "x86/avx2"
std::span<const reference::NamedEntry> list(Tier tier);  // with names; `run` is null on machines of another kind

}  // namespace nacre::x86
