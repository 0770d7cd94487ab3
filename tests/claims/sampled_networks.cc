#include "tests/claims/sampled_networks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/claims/encoder_network.h"
#include "tests/claims/policy_networks.h"
#include "tests/run_tool.h"
#include "tests/sanitized.h"
#include "tools/compile/compile.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

}  // namespace

Sampled sampled_digits() {
  constexpr size_t kPixels = 64, kCalibrated = 128;
  Sampled network = {.name = "digits",
                     .graph = load_network(project_path("tools/samples/digits.onnx")),
                     .calibrated = {},
                     .others = {}};
  const std::vector<uint8_t> pixels = read_npy(project_path("tools/samples/digits_images.npy")).values<uint8_t>();
  const std::vector<uint8_t> labels = read_npy(project_path("tools/samples/digits_labels.npy")).values<uint8_t>();
  const std::vector<int32_t> test = read_npy(project_path("tools/samples/digits_test.npy")).values<int32_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto first = pixels.begin() + std::ptrdiff_t(i * kPixels);
    const std::vector<float> image(first, first + kPixels);
    if (std::ranges::binary_search(test, int32_t(i))) {
      network.images.push_back(image);
      network.labels.push_back(labels[i]);
    } else if (network.calibrated.size() < kCalibrated) {
      network.calibrated.push_back(image);
    }
  }
  network.others.assign(network.images.begin(), network.images.begin() + kCalibrated);
  if (sanitized()) network.images.resize(50);
  return network;
}

std::optional<Sampled> sampled_shared(const std::string& name, const std::string& file, float low, float high) {
  constexpr size_t kCalibrated = 8, kOthers = 4;
  const std::optional<PolicyNetwork> found = load_shared(name, file, low, high, kCalibrated + kOthers);
  if (!found) return std::nullopt;
  Sampled network = {.name = name, .graph = found->graph, .calibrated = {}, .others = {}};
  for (const std::vector<uint8_t>& bytes : found->inputs) {
    std::vector<float> x(bytes.size() / sizeof(float));
    std::memcpy(x.data(), bytes.data(), bytes.size());
    (network.calibrated.size() < kCalibrated ? network.calibrated : network.others).push_back(std::move(x));
  }
  return network;
}

// A sanitized build uses one layer of a sixteenth of the size.
Sampled sampled_encoder() {
  EncoderShape shape;
  if (sanitized()) shape = {.layers = 1, .hidden = 96, .heads = 3, .between = 384, .tokens = 16};
  Sampled network = {.name = "encoder", .graph = encoder_network(shape, 7), .calibrated = {}, .others = {}};
  constexpr uint64_t kCalibrated = 4, kOthers = 1;
  for (uint64_t i = 0; i < kCalibrated; ++i) network.calibrated.push_back(encoder_input(shape, 100 + i));
  for (uint64_t i = 0; i < kOthers; ++i) network.others.push_back(encoder_input(shape, 200 + i));
  return network;
}

}  // namespace nacre::test
