#include "tests/claims/policy_networks.h"

#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>

#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/model/tensor_dump.h"
#include "tools/policies/policy_request.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Calibrates the network on the same inputs that the claims run.
PolicyNetwork calibrated(const std::string& name, const std::string& path,
                         const std::vector<std::vector<float>>& samples) {
  PolicyNetwork network{name, load_network(path), {}, {}};
  const Value& input = network.graph.values[size_t(network.graph.inputs.at(0).value)];
  NpyArray array{ElementType::kFloat32, input.dims, {}, name};
  array.dims[0] = int64_t(samples.size());
  for (const std::vector<float>& sample : samples) {
    network.inputs.push_back(bytes_of(sample));
    array.data.append(network.inputs.back());
  }
  network.calibration = calibrate(network.graph, make_samples(network.graph, {array}),
                                  {.fitted = [](const Node& node) { return node.layer != kNone; }});
  return network;
}

}  // namespace

std::optional<PolicyNetwork> load_digits() {
  constexpr size_t kPixels = 64, kSamples = 32;
  const std::string folder = project_path("tools/samples/");
  const std::vector<uint8_t> images = read_npy(folder + "digits_images.npy").values<uint8_t>();
  std::vector<std::vector<float>> samples;
  for (size_t i = 0; i < kSamples; ++i)
    samples.emplace_back(images.begin() + std::ptrdiff_t(i * kPixels),
                         images.begin() + std::ptrdiff_t((i + 1) * kPixels));
  return calibrated("digits", folder + "digits.onnx", samples);
}

std::optional<PolicyNetwork> load_shared(const std::string& name, const std::string& file, float low, float high,
                                         size_t count) {
  const std::string path = shared_path("models/mlperf_tiny/") + file;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Graph graph = import_network(path);
  const auto elements = size_t(graph.values[size_t(graph.inputs.at(0).value)].elements());
  std::mt19937 random(1);
  std::vector<std::vector<float>> samples(count, std::vector<float>(elements));
  for (std::vector<float>& sample : samples)
    for (float& v : sample) v = low + (high - low) * float(random() >> 8) / float(1 << 24);
  return calibrated(name, path, samples);
}

PolicyArguments everywhere(const std::string& policy) {
  return {.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}};
}

PolicyArguments by_layer(const std::string& rules) {
  PolicyArguments arguments;
  std::istringstream text(rules);
  for (std::string rule; text >> rule;) arguments.set.push_back(rule);
  return arguments;
}

Compiled compile_under(const PolicyNetwork& network, const PolicyArguments& policies, bool fuse, IoTypes io_types) {
  CompileOptions options;
  options.policies = parse_policy_options(policies);
  options.calibration = &network.calibration;
  options.fuse = fuse;
  options.io_types = io_types;
  return compile(network.graph, options);
}

std::map<std::string, std::vector<uint8_t>> run_all(const LoadedModel& model, const std::vector<uint8_t>& inputs) {
  const uint32_t index = model.infer_program();
  BoundProgram bound(model, index);
  const ProgramView view = model.model().program(index);
  const std::vector<int> complete = completing_steps(model.model(), view);
  size_t at = 0;
  for (uint32_t i = 0; i < bound.program().input_count(); ++i) {
    const std::span<std::byte> input = bound.program().input(i);
    if (at + input.size() > inputs.size()) throw Error(kFailed, model.path(), "takes more bytes than there are");
    std::memcpy(input.data(), inputs.data() + at, input.size());
    at += input.size();
  }
  std::map<std::string, std::vector<uint8_t>> tensors;
  for (uint32_t step = 0; step < view.step_count; ++step) {
    model.require(bound.program().run(step, step + 1, 0));
    for (uint32_t i = 0; i < view.tensor_count; ++i) {
      if (complete[i] != int(step)) continue;
      const uint32_t id = view.first_tensor + i;
      const auto* data = reinterpret_cast<const uint8_t*>(bound.program().bytes(id).data());
      tensors[model.tensor_name(id)].assign(data, data + model.model().tensors()[id].bytes);
    }
  }
  return tensors;
}

}  // namespace nacre::test
