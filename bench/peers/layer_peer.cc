#include "bench/peers/layer_peer.h"

#include <algorithm>
#include <cmath>

namespace nacre::bench {
namespace {

float largest(const std::vector<float>& values) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::abs(v));
  return most;
}

// Returns the output channel of weight i. In w of a depthwise layer channels come last, in all others first.
size_t channel_of(const LayerProblem& problem, size_t i) {
  const auto channels = size_t(problem.channels());
  return problem.depthwise() ? i % channels : i / (problem.w.size() / channels);
}

int8_t code_of(float value, float scale) { return int8_t(std::clamp(std::nearbyint(value / scale), -127.0f, 127.0f)); }

}  // namespace

std::vector<int64_t> LayerProblem::dims(const char* slot) const {
  for (const auto& [name, dims] : shape.inputs)
    if (name == slot) return dims;
  return {};
}

int64_t LayerProblem::attribute(const char* name, int64_t otherwise) const {
  const auto found = shape.attributes.find(name);
  return found == shape.attributes.end() ? otherwise : int64_t(found->second);
}

float scale_of(const std::vector<float>& values) { return std::max(largest(values), 1e-6f) / 127; }

std::vector<float> channel_scales(const LayerProblem& problem) {
  std::vector<float> scales(size_t(problem.channels()), 1e-6f);
  for (size_t i = 0; i < problem.w.size(); ++i) {
    float& scale = scales[channel_of(problem, i)];
    scale = std::max(scale, std::abs(problem.w[i]));
  }
  for (float& scale : scales) scale /= 127;
  return scales;
}

std::vector<int8_t> codes(const std::vector<float>& values, float scale) {
  std::vector<int8_t> result;
  for (const float v : values) result.push_back(code_of(v, scale));
  return result;
}

std::vector<int8_t> weight_codes(const LayerProblem& problem, const std::vector<float>& scales) {
  std::vector<int8_t> result;
  for (size_t i = 0; i < problem.w.size(); ++i) result.push_back(code_of(problem.w[i], scales[channel_of(problem, i)]));
  return result;
}

}  // namespace nacre::bench
