#include "ports/x86/x86_c.h"

#include <cstring>

#include "engine/c_api_kernels.h"
#include "ports/x86/x86.h"

using nacre::x86::Tier;

namespace {

Tier tier_named(const char* name) {
  for (uint32_t i = 0; name != nullptr && i < uint32_t(Tier::kCount); ++i)
    if (std::strcmp(nacre::x86::name(Tier(i)), name) == 0) return Tier(i);
  return Tier::kCount;
}

bool runs(Tier tier) { return tier != Tier::kCount && nacre::x86::runs_here(tier); }

}  // namespace

extern "C" {

const char* nacre_x86_best(void) {
  const Tier best = nacre::x86::best();
  return best == Tier::kCount ? nullptr : nacre::x86::name(best);
}

const nacre_kernels* nacre_x86_kernels(const char* tier) {
  const Tier found = tier_named(tier);
  return runs(found) ? &nacre::x86::kernels(found) : nullptr;
}

const char* nacre_x86_tier(uint32_t index) {
  return index < uint32_t(Tier::kCount) ? nacre::x86::name(Tier(index)) : nullptr;
}

int nacre_x86_lanes(const char* tier) {
  const Tier found = tier_named(tier);
  return found == Tier::kCount ? 0 : nacre::x86::lanes(found);
}

int nacre_x86_by_name(const char* tier) {
  const Tier found = tier_named(tier);
  return found == Tier::kCount ? 0 : int(nacre::x86::by_name(found));
}

const nacre_port* nacre_x86_port(const char* tier) {
  const Tier found = tier_named(tier);
  return runs(found) ? nacre::to_c(nacre::x86::port(found)) : nullptr;
}

nacre_status nacre_x86_kernel_at(const char* tier, uint32_t index, nacre_kernel_info* info) {
  const Tier found = tier_named(tier);
  using List = std::span<const nacre::reference::NamedEntry>;
  return nacre::kernel_at(found == Tier::kCount ? List() : nacre::x86::list(found), index, info);
}

}  // extern "C"
