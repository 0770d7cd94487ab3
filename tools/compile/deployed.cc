#include "tools/compile/deployed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/print.h"
#include "tools/base/version.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/quantize_static.h"
#include "tools/calibration/quantizers.h"
#include "tools/calibration/static_constants.h"
#include "tools/compile/export.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/integer/policy.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/training_forward.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/files/npy.h"
#include "tools/graph/matmul_operands.h"

namespace nacre::tools {
namespace {

// Makes int8 codes for the weights of a layer if the source has such codes and the weights became float32. If the
// layer's input has codes with one scale, the bias gets codes too.
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
  const std::vector<float> numbers = reals(w);  // x has no codes of one scale, so only the weights get codes
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
                  "take a lower " + option("lr") + ", or go back to an earlier checkpoint");
  }
}

// Returns whether the network has a value to which a state tensor belongs. Its name is the tensor's name, or the part
// of it before a "/", as in "conv1.w/lora_a" or "conv1.w/channels[0:8]".
bool has_place(const std::set<std::string>& names, const std::string& tensor) {
  for (size_t end = tensor.find('/'); end != std::string::npos; end = tensor.find('/', end + 1))
    if (names.contains(tensor.substr(0, end))) return true;
  return names.contains(tensor);
}

// Throws unless the network has a value for every trained tensor (has_place). With only some of the tensors it would be
// a network that nobody trained.
void require_place_for_all(const Graph& network, const LoadedModel& training) {
  std::set<std::string> names;
  for (const Value& v : network.values) names.insert(v.name);
  for (uint32_t id = 0; id < training.model().tensors().size(); ++id)
    if ((training.model().tensors()[id].flags & kTrainable) != 0 && !has_place(names, training.tensor_name(id)))
      throw Error(kBadInput, network.source, "has no place for " + training.tensor_name(id) + ", which was trained",
                  "name the network that the model was made of");
}

// Adds ranges and moments measured on samples. Ranges that training found stay, because training saw more samples.
void add_ranges(const Graph& graph, const RangeSamples& samples, Calibration& found) {
  if (!any_policy(graph, reads_samples)) return note(samples_not_read());
  SampleOptions sampling = samples.options;
  sampling.may_be_equal = !any_policy(graph, reads_ranges);
  const CalibrationOptions options = {.fitted = fitted_by(graph)};
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

namespace {

// Gives a dropout's input the range that training found for its output, because inference has no dropout.
void pass_through_dropout(const Graph& graph, Calibration& found) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->op != Op::kDropout) continue;
    const auto name = [&](ValueId id) { return graph.values[size_t(id)].name; };
    if (const auto y = found.ranges.find(name(node->outputs[0])); y != found.ranges.end())
      found.ranges.emplace(name(node->inputs[0]), y->second);
  }
}

// Training quantizes the output of a frozen layer and the output of its adapter, but not always their sum. Merging the
// adapter makes the layer give that sum.
[[noreturn]] void refuse_adapters_under_static(const Graph& graph) {
  throw Error(
      kUnsupported, graph.source, "adapters beside layers under int8/static leave no range of what both give together",
      "train all of the weights; or train adapters in float32, and deploy with nacre export " + option("network") +
          ", this "
          "policy and " +
          option("calibrate", "FILE"));
}

// Gives [-1, 1] to ranges of zero width without amaxes, which training has not widened yet.
void stand_in(Calibration& found) {
  for (auto& [name, values] : found.ranges)
    if (values.amaxes.empty() && !(values.range.low < values.range.high)) values.range = {-1, 1};
}

Deployed deployed_network(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                          std::span<const std::byte> state, const RangeSamples& samples, bool untrained) {
  separate_statistics(simplified);
  Graph graph = simplified;
  resolve_policies(graph, policies);
  run_full_as_static(graph);
  Calibration found = trained_calibration(graph, training, state);
  pass_through_dropout(graph, found);
  if (untrained) stand_in(found);
  Deployed deployed;
  take_learned(graph, training, state, deployed);
  code_as_the_source(graph, simplified);
  leave_out_dropout(graph);
  simplify(graph);
  if (!samples.data.empty()) add_ranges(graph, samples, found);
  CompileOptions compiling;
  compiling.policies = policies;
  compiling.calibration = found.ranges.empty() && found.moments.empty() ? nullptr : &found;
  try {
    graph = compile_graph(std::move(graph), compiling);
  } catch (const NoRange&) {
    if (deployed.adapters == 0) throw;
    refuse_adapters_under_static(simplified);
  }
  deployed.fallbacks = graph.fallbacks;
  if (!deployed.fallbacks.empty()) {  // metadata, as nacre convert writes it
    graph.metadata.emplace_back("fallbacks", fmt::format("{}\n", fmt::join(deployed.fallbacks, "\n")));
    std::ranges::sort(graph.metadata);
  }
  deployed.bytes = write_compiled(graph, compiling.target);
  const LoadedModel check(deployed.bytes, simplified.source,
                          "this is a defect of the converter: report it with the network");
  check.require(check.model().check_weights());
  return deployed;
}

}  // namespace

Deployed deploy(Graph simplified, const PolicyRequest& policies, const LoadedModel& training,
                std::span<const std::byte> state, const RangeSamples& samples) {
  return deployed_network(std::move(simplified), policies, training, state, samples, false);
}

std::string deployed_text(const Deployed& deployed) {
  std::string text = counted(uint64_t(deployed.parameters), "constant") + " trained";
  if (deployed.adapters > 0) text += ", " + counted(uint64_t(deployed.adapters), "adapter") + " merged";
  return text;
}

Deployment::Deployment(const DeployOptions& options) : policies_(options.policies), samples_(options.samples) {
  const std::vector<uint8_t> file = read_network(options.network);
  simplified_ = load_network(file, options.network, options.importing, kSimplifyToTrain);
  simplified_.metadata.emplace_back("converter", fmt::format("nacre {}", kVersion));
  simplified_.metadata.emplace_back("source_sha256", sha256(file));
  simplified_.metadata.insert(simplified_.metadata.end(), options.metadata.begin(), options.metadata.end());
  std::ranges::sort(simplified_.metadata);
}

Deployed Deployment::deploy(const LoadedModel& training, std::span<const std::byte> state) const {
  return deployed_network(simplified_, policies_, training, state, samples_, false);
}

Deployed Deployment::deploy_untrained(const LoadedModel& training, std::span<const std::byte> state) const {
  return deployed_network(simplified_, policies_, training, state, samples_, true);
}

}  // namespace nacre::tools
