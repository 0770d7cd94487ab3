// Writes the estimate of a program on a GPU, and advice, as text and as JSON, for `nacre inspect --target cuda/sm90`.
#pragma once

#include <cstddef>
#include <string>

#include "tools/base/json.h"
#include "tools/evaluate/gpu_estimate.h"

namespace nacre::tools {

// Returns lines of at most `width` characters; sentences are not wrapped.
std::string gpu_text(const GpuEstimate& estimate, size_t width);
Json gpu_json(const GpuEstimate& estimate);

}  // namespace nacre::tools
