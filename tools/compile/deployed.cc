#include "tools/compile/deployed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/base/version.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/calibration/quantizers.h"
#include "tools/calibration/static_constants.h"
#include "tools/compile/export.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/integer_policy.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/files/npy.h"
#include "tools/graph/matmul_operands.h"

namespace nacre::tools {
namespace {

// Codes for the weights of a layer that the source has as int8 codes and that no policy was asked for; for its bias
// too.
void code_weights(Graph& graph, const Value& before, Node& node) {
  Value& w = graph.values[size_t(node.inputs[kW])];
  if (!before.constant() || !before.quantizer || before.stored != ElementType::kInt8 ||
      w.stored != ElementType::kFloat32)
    return;
  const bool per_channel = before.quantizer->scale.size() > 1,
             bias = node.inputs.size() > kBias && node.inputs[kBias] != kNone;
  if (bias && graph.values[size_t(node.inputs[kBias])].quantizer) {
    Value& b = graph.values[size_t(node.inputs[kBias])];
    set_reals(b, reals(b));
  }
  const std::optional<Quantizer>& x = graph.values[size_t(node.inputs[kX])].quantizer;
  if (x && x->scale.size() == 1) return code_matmul(graph, node, per_channel);
  const std::vector<float> numbers = reals(w);  // x is real: only the weights are codes
  const Quantizer quantizer = symmetric_quantizer(numbers, w.dims, per_channel ? before.quantizer->axis : kPerTensor);
  const std::vector<int8_t> codes = symmetric_codes(numbers, w.dims, quantizer);
  const auto* first = reinterpret_cast<const uint8_t*>(codes.data());
  w.data = std::make_shared<const std::vector<uint8_t>>(first, first + codes.size());
  w.stored = before.stored;
  w.type = before.type;
  w.quantizer = quantizer;
}

void code_as_the_source(Graph& graph, const Graph& source) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node node = graph.nodes[i];
    if (!is_matmul(node.op) || (node.layer != kNone && graph.layers[size_t(node.layer)].asked)) continue;
    code_weights(graph, source.values[size_t(source.nodes[i].inputs[kW])], node);
    graph.nodes[i] = std::move(node);
  }
}

void require_finite(const Graph& trained, const Graph& source) {
  for (size_t id = 0; id < trained.values.size(); ++id) {
    const Value& v = trained.values[id];
    if (!v.constant() || (id < source.values.size() && v.data == source.values[id].data)) continue;
    if (!std::ranges::all_of(reals(v), [](float x) { return std::isfinite(x); }))
      throw Error(kFailed, source.source,
                  "what was learned cannot be written: " + v.name + " holds a number that is not finite",
                  "take a lower --lr, or go back to an earlier checkpoint");
  }
}

// The constants of a network that give names to a state tensor, "conv1.w/lora_a" or "conv1.w/channels[0:8]": one of
// them must be there.
bool has_place(const std::set<std::string>& names, const std::string& tensor) {
  for (size_t end = tensor.find('/'); end != std::string::npos; end = tensor.find('/', end + 1))
    if (names.contains(tensor.substr(0, end))) return true;
  return names.contains(tensor);
}

// Half of what was learned is a network that nobody trained.
void require_place_for_all(const Graph& network, const LoadedModel& training) {
  std::set<std::string> names;
  for (const Value& v : network.values) names.insert(v.name);
  for (uint32_t id = 0; id < training.model().tensors().size(); ++id)
    if ((training.model().tensors()[id].flags & kTrainable) != 0 && !has_place(names, training.tensor_name(id)))
      throw Error(kBadInput, network.source, "has no place for " + training.tensor_name(id) + ", which was trained",
                  "name the network that the model was made of");
}

// What training found stays: it is of the same numbers, and of more samples.
void add_ranges(const Graph& graph, const PolicyRequest& policies, const RangeSamples& samples, Calibration& found) {
  if (!any_policy(graph, policies, reads_samples)) return note(kSamplesNotRead);
  SampleOptions sampling = samples.options;
  sampling.may_be_equal = !any_policy(graph, policies, reads_ranges);
  const CalibrationOptions options = {.fitted = fitted_by(graph, policies)};
  Calibration measured = calibrate(graph, read_samples(graph, samples.data, sampling), options);
  found.ranges.merge(measured.ranges);
  found.moments.merge(measured.moments);
  found.samples = std::max(found.samples, measured.samples);
}

}  // namespace

void take_learned(Graph& graph, const LoadedModel& training, std::span<const std::byte> state, Deployed& counts) {
  const Graph source = graph;
  require_place_for_all(graph, training);
  counts.parameters = with_parameters(graph, training, state);
  counts.adapters = merge_adapters(graph, training, state);
  if (counts.parameters + counts.adapters == 0)
    throw Error(kBadInput, source.source, "has no constant of a name that the training model learned",
                "name the network that the model was made of");
  require_finite(graph, source);
}

Deployed deploy(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                std::span<const std::byte> state, const RangeSamples& samples) {
  separate_statistics(simplified);
  Graph graph = simplified;
  resolve_policies(graph, policies);
  run_full_as_static(graph);
  Calibration found = trained_calibration(graph, training, state);
  Deployed deployed;
  take_learned(graph, training, state, deployed);
  code_as_the_source(graph, simplified);
  simplify(graph);
  if (!samples.data.empty()) add_ranges(graph, policies, samples, found);
  CompileOptions compiling;
  compiling.policies = policies;
  compiling.calibration = found.ranges.empty() && found.moments.empty() ? nullptr : &found;
  Compiled made = compile(std::move(graph), compiling);
  deployed.bytes = std::move(made.bytes);
  deployed.fallbacks = made.graph.fallbacks;
  if (!deployed.fallbacks.empty()) {  // a fact of the file, as nacre convert writes it
    made.graph.metadata.emplace_back("fallbacks", fmt::format("{}\n", fmt::join(deployed.fallbacks, "\n")));
    std::ranges::sort(made.graph.metadata);
    const ProgramSource source = {.graph = &made.graph, .entry = Entry::kInfer, .target = compiling.target.name};
    deployed.bytes = write_model({&source, 1}, {});
  }
  const LoadedModel check(deployed.bytes, simplified.source,
                          "this is a defect of the converter: report it with the network");
  check.require(check.model().check_weights());
  return deployed;
}

std::string deployed_text(const Deployed& deployed) {
  std::string text = counted(uint64_t(deployed.parameters), "constant") + " trained";
  if (deployed.adapters > 0) text += ", " + counted(uint64_t(deployed.adapters), "adapter") + " merged";
  return text;
}

Deployed deployed_model(const DeployOptions& options, const LoadedModel& training, std::span<const std::byte> state) {
  const ImportOptions importing = {
      .batch = options.batch, .shapes = options.shapes, .train = true, .ignored = options.ignored, .settled = true};
  Graph graph = load_network(options.network, importing, kSimplifyToTrain);
  graph.metadata.emplace_back("converter", fmt::format("nacre {}", kVersion));
  graph.metadata.emplace_back("source_sha256", sha256(read_file(options.network)));
  graph.metadata.insert(graph.metadata.end(), options.metadata.begin(), options.metadata.end());
  std::ranges::sort(graph.metadata);
  return deploy(graph, options.policies, training, state, options.samples);
}

}  // namespace nacre::tools
