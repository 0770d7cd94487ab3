// Networks with samples to calibrate on and others to judge by: what claim quantizers_compared runs. In a sanitized
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
  std::vector<std::vector<float>> images = {};  // of the sample network, with labels
  std::vector<int64_t> labels = {};
};

// The digits, calibrated on images that the network was trained with; `images` are the others.
Sampled sampled_digits();
// A network of the shared data, with uniform inputs from a seed; empty where it is missing.
std::optional<Sampled> sampled_shared(const std::string& name, const std::string& file, float low, float high);
Sampled sampled_encoder();  // encoder_network.h

}  // namespace nacre::test
