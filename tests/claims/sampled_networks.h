// Networks with samples to calibrate on and other samples to judge by, for claim quantizers_compared. In a sanitized
// build they are smaller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::test {

struct Sampled {
  std::string name;
  tools::Graph graph;  // simplified
  std::vector<std::vector<float>> calibrated, others;
  std::vector<std::vector<float>> images = {};  // of the sample network, with labels; else empty
  std::vector<int64_t> labels = {};
};

// Returns the digits network, calibrated on images that it was trained with. `images` are the others.
Sampled sampled_digits();
// Returns a network of the shared data, with uniform inputs from a seed; empty if the network is missing.
std::optional<Sampled> sampled_shared(const std::string& name, const std::string& file, float low, float high);
Sampled sampled_encoder();  // encoder_network.h

}  // namespace nacre::test
