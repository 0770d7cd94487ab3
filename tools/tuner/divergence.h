// Whether numbers that a training learned are numbers still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/base/option_id.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// The first tensor of the state that trains, or that the program `infer` reads, with an element that is infinite or no
// number; "": none has one.
std::string not_finite_in(const LoadedModel& model, uint32_t infer, std::span<const std::byte> state);

// Remedy for a training that diverged.
inline std::string diverged_remedy() {
  return "take a lower " + option("lr") + ", a warm-up or " + option("clip-norm", "1") +
         ", and data of about unit size (" + option("scale") + ")";
}

}  // namespace nacre::tools
