// Advises how a layer could be faster on a GPU, a sentence for each piece of advice: types that Tensor Cores take,
// and counts that they take whole. The rules are those of cuBLASLt's products and of mixed-precision practice.
#pragma once

#include <cstdint>
#include <string>

#include "tools/evaluate/gpu_estimate.h"

namespace nacre::tools {

// Fills the advice of a layer whose times are known, if there is any, and its padded product.
void advise(const GpuEstimate& estimate, GpuLayer* layer);

// Returns where the network should run: "host: 1.1 M operations; a run of 1 row takes ..."
std::string gpu_verdict(const GpuEstimate& estimate);

// Returns a padded count of features: below 256 the next power of two, at least `multiple`; above, the next multiple.
int64_t padded_features(int64_t count, int64_t multiple);

}  // namespace nacre::tools
