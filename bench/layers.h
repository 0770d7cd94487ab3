// The layers of real networks as benchmarks: layer/OP/POLICY/SET/NETWORKS/SHAPE.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nacre::bench {

// Adds the layers for each of these sets of kernels ("reference", "avx2", ..). Returns the number of benchmarks.
size_t add_layers(const std::vector<std::string>& sets);

}  // namespace nacre::bench
