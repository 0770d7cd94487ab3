// What would help a layer on a GPU, a sentence for each piece of advice: a type that its Tensor Cores take, and counts
// that they take whole. The rules are those of cuBLASLt's products and of mixed-precision practice.
#pragma once

#include <cstdint>
#include <string>

#include "tools/evaluate/gpu_estimate.h"

namespace nacre::tools {

// Of a layer with its times: its advice, nothing where there is nothing to say, and its padded product.
void advise(const GpuEstimate& estimate, GpuLayer* layer);

// Where the network belongs: "host: 1.1 M operations; a run of 1 row takes ..."
std::string gpu_verdict(const GpuEstimate& estimate);

// What a count of features would be padded to: to a power of two below 256, to a multiple above.
int64_t padded_features(int64_t count, int64_t multiple);

}  // namespace nacre::tools
