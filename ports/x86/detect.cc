// Finds the tiers (x86.h) that the processor and the operating system support.
#include "ports/x86/detect.h"

#include <algorithm>
#include <type_traits>

#include "ports/x86/x86.h"

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

bool has(const CpuidBit& need) {
  const Registers r = cpuid(need.leaf, need.subleaf);
  return bit(need.word == 'a' ? r.a : need.word == 'b' ? r.b : need.word == 'c' ? r.c : r.d, need.bit);
}

// Says whether the processor and the system have what a tier needs, and the tiers below it.
template <class Row>
bool has_tier(uint32_t states) {
  if constexpr (!std::is_void_v<typename Row::Above>)
    if (!has_tier<typename Row::Above>(states)) return false;
  return (states & Row::kStates) == Row::kStates && std::ranges::all_of(Row::kNeeds, has) &&
         ((Row::kStates & kTiles) == 0 || may_use_tiles());
}

uint32_t kept_states_or_none() { return has({1, 0, 'c', 27}) ? kept_states() : 0; }  // OSXSAVE: xgetbv needs it
bool is_intel() { return cpuid(0, 0).c == 0x6C65746E; }                              // "ntel" of GenuineIntel

#else

template <class Row>
bool has_tier(uint32_t) {
  return Row::kNeeds.empty();
}
uint32_t kept_states_or_none() { return 0; }
bool is_intel() { return false; }

#endif

template <class... Row>
uint32_t find_tiers(tier_of::TierList<Row...>) {
  const uint32_t states = kept_states_or_none();
  uint32_t tiers = 0, i = 0;
  ((tiers |= uint32_t{has_tier<Row>(states)} << i++), ...);
  return tiers;
}

template <class... Row>
ByName by_name_of(tier_of::TierList<Row...>, Tier tier) {
  constexpr ByName kByName[] = {Row::kByName...};
  return kByName[size_t(tier)];
}

// Returns the tiers that are compiled: ports/vector/tiers.txt.
uint32_t compiled_tiers() {
  uint32_t tiers = 0;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (std::ranges::all_of(kernels(Tier(i)).entries, [](const KernelEntry* entry) { return entry->run != nullptr; }))
      tiers |= 1u << i;
  return tiers;
}

}  // namespace

bool processor_has(Tier tier) {
  static const uint32_t tiers = find_tiers(tier_of::X86Tiers());
  return tier < Tier::kCount && (tiers >> uint32_t(tier) & 1) != 0;
}

bool runs_here(Tier tier) {
  static const uint32_t compiled = compiled_tiers();
  return processor_has(tier) && (compiled >> uint32_t(tier) & 1) != 0;
}

bool by_name(Tier tier) {
  if (tier >= Tier::kCount) return false;
  const ByName where = by_name_of(tier_of::X86Tiers(), tier);
  return where == ByName::kEverywhere || (where == ByName::kOnIntel && is_intel());
}

Tier best() {
  Tier tier = Tier::kCount;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (runs_here(Tier(i)) && !by_name(Tier(i))) tier = Tier(i);
  return tier;
}

}  // namespace nacre::x86
