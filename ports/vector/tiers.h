// Lists the tiers (instruction sets) of fast kernels of the ports x86, arm and cortex_m.
#pragma once

#include <cstring>

#include "ports/arm/arm.h"
#include "ports/cortex_m/cortex_m.h"
#include "ports/x86/detect.h"
#include "ports/x86/x86.h"

namespace nacre {

struct VectorTier {
  const char* name;  // "avx2"; two ports never share a tier's name
  const Port* port;  // "x86/avx2"
  std::span<const reference::NamedEntry> list;
  int lanes;
  bool runs_here;
  bool processor_has;  // whether the processor and the system have its instructions, even if it is not compiled
  bool by_name;        // used only if the user asks for it by name
  bool emulated;       // a tier of Cortex-M, which runs here in plain C++, for programs made for that processor
};

// Calls f(tier) for each tier, port by port, lowest first. The last tier that runs on a machine and is not by_name is
// the fastest one.
template <class F>
void each_vector_tier(const F& f) {
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i) {
    const auto tier = x86::Tier(i);
    f(VectorTier{x86::name(tier), &x86::port(tier), x86::list(tier), x86::lanes(tier), x86::runs_here(tier),
                 x86::processor_has(tier), x86::by_name(tier), false});
  }
  for (uint32_t i = 0; i < uint32_t(arm::Tier::kCount); ++i) {
    const auto tier = arm::Tier(i);
    f(VectorTier{arm::name(tier), &arm::port(tier), arm::list(tier), arm::lanes(tier), arm::runs_here(tier),
                 arm::runs_here(tier), false, false});
  }
  for (const Port& port : cortex_m::ports())
    f(VectorTier{std::strchr(port.name, '/') + 1, &port, cortex_m::list(), 4, true, true, true, true});
}

}  // namespace nacre
