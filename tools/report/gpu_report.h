// Estimate of a program on a GPU, and advice, as text and as JSON: `nacre inspect --target cuda/sm90` adds them.
#pragma once

#include <cstddef>
#include <string>

#include "tools/base/json.h"
#include "tools/evaluate/gpu_estimate.h"

namespace nacre::tools {

// Lines of at most `width` characters but for sentences.
std::string gpu_text(const GpuEstimate& estimate, size_t width);
Json gpu_json(const GpuEstimate& estimate);

}  // namespace nacre::tools
