#include "ports/arm/arm_c.h"

#include <cstring>

#include "ports/arm/arm.h"

using nacre::arm::Tier;

extern "C" {

const char* nacre_arm_best(void) {
  const Tier best = nacre::arm::best();
  return best == Tier::kCount ? nullptr : nacre::arm::name(best);
}

const nacre_kernels* nacre_arm_kernels(const char* tier) {
  if (tier == nullptr) return nullptr;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (std::strcmp(nacre::arm::name(Tier(i)), tier) == 0 && nacre::arm::runs_here(Tier(i)))
      return reinterpret_cast<const nacre_kernels*>(&nacre::arm::kernels(Tier(i)));
  return nullptr;
}

}  // extern "C"
