// How Program packs weights on the host, for kernels that read another layout than the file's (packed_weights.h). The
// tables of the fast kernels name it (ports/vector/tables.h), and Program asks whether it is there: so an image without
// such kernels, as a firmware's, links none of it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/run/program.h"

namespace nacre {

struct WeightPacking {  // as Program::measure and bind
  Status (*measure)(const Model& model, uint32_t program, std::span<const KernelSet* const> kernels, Sizes* sizes,
                    const Machine& machine);
  Status (*bind)(Program& bound, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                 const Memory& memory, const Workers* workers);
};

}  // namespace nacre
