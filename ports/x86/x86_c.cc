#include "ports/x86/x86_c.h"

#include <cstring>

#include "ports/x86/x86.h"

using nacre::x86::Tier;

extern "C" {

const char* nacre_x86_best(void) {
  const Tier best = nacre::x86::best();
  return best == Tier::kCount ? nullptr : nacre::x86::name(best);
}

const nacre_kernels* nacre_x86_kernels(const char* tier) {
  if (tier == nullptr) return nullptr;
  for (uint32_t i = 0; i < uint32_t(Tier::kCount); ++i)
    if (std::strcmp(nacre::x86::name(Tier(i)), tier) == 0 && nacre::x86::runs_here(Tier(i)))
      return reinterpret_cast<const nacre_kernels*>(&nacre::x86::kernels(Tier(i)));
  return nullptr;
}

}  // extern "C"
