// Advises how a layer could be faster on a GPU, a sentence for each piece of advice: types that Tensor Cores take, and
// counts of rows, features and terms that are multiples of what they take.
#pragma once

#include <cstdint>
#include <string>

#include "tools/evaluate/gpu_estimate.h"

namespace nacre::tools {

// Fills the advice of a layer whose times are known, if there is any, and its padded product.
void advise(const GpuEstimate& estimate, GpuLayer* layer);

// Returns where the network should run: "host: 1.1 M operations; a run of 1 row takes ..."
std::string gpu_verdict(const GpuEstimate& estimate);

// Returns the least padded count: for a count below 256 a power of two, at least `multiple`; from 256 on a multiple.
int64_t padded_features(int64_t count, int64_t multiple);

}  // namespace nacre::tools
