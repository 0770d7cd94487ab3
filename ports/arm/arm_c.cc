#include "ports/arm/arm_c.h"

#include <cstring>

#include "engine/c_api_kernels.h"
#include "ports/arm/arm.h"

using nacre::arm::Tier;

namespace {

Tier tier_named(const char* name) {
  for (uint32_t i = 0; name != nullptr && i < uint32_t(Tier::kCount); ++i)
    if (std::strcmp(nacre::arm::name(Tier(i)), name) == 0) return Tier(i);
  return Tier::kCount;
}

bool runs(Tier tier) { return tier != Tier::kCount && nacre::arm::runs_here(tier); }

}  // namespace

extern "C" {

const char* nacre_arm_best(void) {
  const Tier best = nacre::arm::best();
  return best == Tier::kCount ? nullptr : nacre::arm::name(best);
}

const nacre_kernels* nacre_arm_kernels(const char* tier) {
  const Tier found = tier_named(tier);
  return runs(found) ? &nacre::arm::kernels(found) : nullptr;
}

const char* nacre_arm_tier(uint32_t index) {
  return index < uint32_t(Tier::kCount) ? nacre::arm::name(Tier(index)) : nullptr;
}

int nacre_arm_lanes(const char* tier) {
  const Tier found = tier_named(tier);
  return found == Tier::kCount ? 0 : nacre::arm::lanes(found);
}

const nacre_port* nacre_arm_port(const char* tier) {
  const Tier found = tier_named(tier);
  return runs(found) ? nacre::to_c(nacre::arm::port(found)) : nullptr;
}

nacre_status nacre_arm_kernel_at(const char* tier, uint32_t index, nacre_kernel_info* info) {
  const Tier found = tier_named(tier);
  using List = std::span<const nacre::reference::NamedEntry>;
  return nacre::kernel_at(found == Tier::kCount ? List() : nacre::arm::list(found), index, info);
}

}  // extern "C"
