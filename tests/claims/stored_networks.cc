#include "tests/claims/stored_networks.h"

#include <cstring>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/model/loaded_model.h"
#include "tools/policies/policy_request.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

template <class T>
void append_as(std::vector<uint8_t>& bytes, std::span<const float> numbers) {
  for (const float number : numbers) {
    const T element(number);
    const auto* first = reinterpret_cast<const uint8_t*>(&element);
    bytes.insert(bytes.end(), first, first + sizeof element);
  }
}

template <class T>
void read_as(std::vector<float>& numbers, std::span<const uint8_t> bytes) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T element;
    std::memcpy(&element, bytes.data() + at, sizeof(T));
    numbers.push_back(float(element));
  }
}

}  // namespace

std::vector<float> run_stored(const StoredNetwork& network, const std::vector<std::vector<float>>& inputs,
                              size_t rows) {
  Graph graph = load_network(network.file, network.name, {}, {}, {});
  if (network.change) network.change(graph);
  CompileOptions options;
  if (!network.policy.empty()) options.policies = parse_policy_options({.policy = network.policy});
  options.calibration = network.calibration;
  const Compiled compiled = compile(graph, options);
  const LoadedModel model(compiled.bytes, network.name, "");
  BoundProgram bound(model, model.infer_program());
  const ProgramView view = model.model().program(model.infer_program());
  const auto element = [&](uint32_t tensor) { return model.model().tensors()[tensor].element; };
  std::vector<float> found;
  for (size_t row = 0; row < rows; ++row) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t each = inputs[i].size() / rows;
      const auto numbers = std::span(inputs[i]).subspan(row * each, each);
      switch (element(view.inputs[i])) {
        case ElementType::kFloat16: append_as<Float16>(bytes, numbers); break;
        case ElementType::kBfloat16: append_as<Bfloat16>(bytes, numbers); break;
        case ElementType::kFloat32: append_as<float>(bytes, numbers); break;
        default: throw Error(kFailed, network.name, "has an input of another type");
      }
    }
    std::vector<uint8_t> outputs = bound.run(bytes);
    outputs.resize(size_t(model.model().tensors()[view.outputs[0]].bytes));
    switch (element(view.outputs[0])) {
      case ElementType::kFloat16: read_as<Float16>(found, outputs); break;
      case ElementType::kBfloat16: read_as<Bfloat16>(found, outputs); break;
      case ElementType::kFloat32: read_as<float>(found, outputs); break;
      default: throw Error(kFailed, network.name, "has an output of another type");
    }
  }
  return found;
}

}  // namespace nacre::test
