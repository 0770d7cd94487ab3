// What a program would take on a GPU, and advice, as text and as JSON: what `nacre inspect --target cuda/sm90` adds.
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
