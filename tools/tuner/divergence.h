// Checks whether the numbers that a training learned are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/base/option_id.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns the name of the first tensor with an element that is NaN or infinite, or "". Checks the tensors of the
// state that are trained or that the program `infer` reads.
std::string not_finite_in(const LoadedModel& model, uint32_t infer, std::span<const std::byte> state);

// Returns the remedy for a training that diverged.
inline std::string diverged_remedy() {
  return "take a lower " + option("lr") + ", a warm-up or " + option("clip-norm", "1") +
         ", and data of about unit size (" + option("scale") + ")";
}

}  // namespace nacre::tools
