// Finds the tiers (x86.h) that the processor and the operating system support.
#include "ports/x86/x86.h"

#include <algorithm>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace nacre::x86 {
namespace {

#ifdef __x86_64__

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}
bool bit(uint32_t word, int i) { return (word >> i & 1) != 0; }

// Returns the register states that the system saves (XCR0): bit 1 xmm, bit 2 ymm, bits 5 to 7 AVX-512, 17 and 18 AMX.
uint32_t kept_states() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Returns whether Linux lets this process use AMX tiles. The process must ask for it: arch_prctl, ARCH_REQ_XCOMP_PERM.
bool may_use_tiles() {
#ifdef __linux__
  constexpr long kRequest = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

// Returns one bit per tier, from CPUID leaves 1 and 7 (Intel's Software Developer's Manual, volume 2, CPUID).
uint32_t find_tiers() {
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0), more = cpuid(7, 1);
  uint32_t tiers = 1u << uint32_t(Tier::kPortable);
  if (!bit(one.c, 27)) return tiers;  // OSXSAVE: xgetbv needs it
  const uint32_t states = kept_states();
  const bool avx2 = (states & 6) == 6 && bit(one.c, 12) && bit(one.c, 28) && bit(one.c, 29) && bit(seven.b, 3) &&
                    bit(seven.b, 5) && bit(seven.b, 8);
  if (!avx2) return tiers;  // the bits are FMA, AVX, F16C, BMI1, AVX2, BMI2
  tiers |= 1u << uint32_t(Tier::kAvx2);
  if (bit(more.a, 4)) tiers |= 1u << uint32_t(Tier::kAvx2Vnni);
  const bool avx512 = (states & 0xE6) == 0xE6 && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) &&
                      bit(seven.b, 31);  // F, DQ, BW, VL
  if (!avx512) return tiers;
  tiers |= 1u << uint32_t(Tier::kAvx512);
  if (!bit(seven.c, 11)) return tiers;
  tiers |= 1u << uint32_t(Tier::kAvx512Vnni);
  if (!bit(more.a, 5)) return tiers;
  tiers |= 1u << uint32_t(Tier::kAvx512Bf16);
  const bool amx =
      (states >> 17 & 3) == 3 && bit(seven.d, 22) && bit(seven.d, 24) && bit(seven.d, 25);  // BF16, TILE, INT8
  if (amx && may_use_tiles()) tiers |= 1u << uint32_t(Tier::kAmx);
  return tiers;
}

// Returns true on Intel's processors (measured on Sapphire Rapids). On Zen 4 and 5 pairs have twice float32's rate.
bool has_slow_pairs() { return cpuid(0, 0).c == 0x6C65746E; }  // "ntel" of GenuineIntel

#else

bool has_slow_pairs() { return false; }
uint32_t find_tiers() { return 1u << uint32_t(Tier::kPortable); }

#endif

// Returns one bit per tier whose functions are compiled (ports/vector/meson.build).
uint32_t compiled_tiers() {
  uint32_t tiers = 0;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (std::ranges::all_of(kernels(Tier(i)).entries, [](const KernelEntry* entry) { return entry->run != nullptr; }))
      tiers |= 1u << i;
  return tiers;
}

}  // namespace

bool runs_here(Tier tier) {
  static const uint32_t tiers = find_tiers() & compiled_tiers();
  return tier < Tier::kCount && (tiers >> uint32_t(tier) & 1) != 0;
}

bool by_name(Tier tier) { return tier == Tier::kAmx || (tier == Tier::kAvx512Bf16 && has_slow_pairs()); }

Tier best() {
  Tier tier = Tier::kCount;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (runs_here(Tier(i)) && !by_name(Tier(i))) tier = Tier(i);
  return tier;
}

}  // namespace nacre::x86
