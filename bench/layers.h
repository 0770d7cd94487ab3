// The layers of real networks as benchmarks: layer/OP/POLICY/SET/NETWORKS/SHAPE.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nacre::bench {

// For each of these sets of kernels ("reference", "avx2", ..); returns how many there are.
size_t add_layers(const std::vector<std::string>& sets);

}  // namespace nacre::bench
