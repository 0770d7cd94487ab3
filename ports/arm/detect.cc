// Finds the tiers that the processor has, by the feature bits that Linux gives every program.
#include "ports/arm/arm.h"

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace nacre::arm {
namespace {

uint32_t find_tiers() {
#if defined(__aarch64__)
  // Bits of arch/arm64/include/uapi/asm/hwcap.h. The compiler may also use ARMv8.1: LSE atomics, CRC32, SQRDMLAH.
  constexpr unsigned long kCrc32 = 1ul << 7, kAtomics = 1ul << 8, kAsimdRdm = 1ul << 12, kAsimdDp = 1ul << 20;
  constexpr unsigned long kDotprod = kCrc32 | kAtomics | kAsimdRdm | kAsimdDp;
  constexpr unsigned long kI8mm = 1ul << 13, kBf16 = 1ul << 14, kMatrices = kI8mm | kBf16;  // bits of AT_HWCAP2
  uint32_t tiers = 1u << uint32_t(Tier::kNeon);
  if ((getauxval(AT_HWCAP) & kDotprod) != kDotprod) return tiers;
  tiers |= 1u << uint32_t(Tier::kDotprod);
  return (getauxval(AT_HWCAP2) & kMatrices) == kMatrices ? tiers | 1u << uint32_t(Tier::kI8mm) : tiers;
#elif defined(__arm__)
  // Bits of arch/arm/include/uapi/asm/hwcap.h.
  constexpr unsigned long kNeon = 1ul << 12, kVfpv4 = 1ul << 16;
  return (getauxval(AT_HWCAP) & (kNeon | kVfpv4)) == (kNeon | kVfpv4) ? 1u << uint32_t(Tier::kArmv7) : 0;
#else
  return 0;
#endif
}

}  // namespace

bool runs_here(Tier tier) {
  static const uint32_t tiers = find_tiers();
  return tier < Tier::kCount && (tiers >> uint32_t(tier) & 1) != 0;
}

Tier best() {
  Tier tier = Tier::kCount;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (runs_here(Tier(i))) tier = Tier(i);
  return tier;
}

}  // namespace nacre::arm
