#include "tools/calibration/float_network.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "tools/model/writer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

constexpr const char* kRemedy = "this is a defect of the converter: report it with the network";

// Returns whether the node, over real numbers, only copies its input: it converts between quantizers.
bool is_identity(const Node& node) {
  const bool op = node.op == Op::kQuantize || node.op == Op::kDequantize || node.op == Op::kRequantize;
  return op && std::ranges::count_if(node.inputs, [](ValueId id) { return id != kNone; }) == 1;
}

void decode(Value& v) {
  if (!v.quantizer) {
    if (is_float_type(v.type) && !v.constant()) v.type = ElementType::kFloat32;
    return;
  }
  if (v.constant() && v.stored != ElementType::kFloat32) {
    const std::vector<float> x = reals(v);
    std::vector<uint8_t> bytes(x.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), x.data(), bytes.size());
    v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    v.stored = ElementType::kFloat32;
  }
  v.type = ElementType::kFloat32;
  v.quantizer.reset();
}

// Makes every value that a node writes an output, so that it lives to the end of the run.
void expose(Graph& graph) {
  std::unordered_set<ValueId> outputs;
  for (const Binding& b : graph.outputs) outputs.insert(b.value);
  for (const Node& node : graph.nodes)
    for (const ValueId y : node.outputs)
      if (outputs.insert(y).second) graph.outputs.push_back({graph.values[size_t(y)].name, y, ""});
}

Graph real_graph(Graph graph) {
  keep_saturation(graph, [](const Node&) { return true; });
  std::vector<ElementType> types;  // types of the inputs; a float type is kept
  for (const Binding& b : graph.inputs) types.push_back(graph.values[size_t(b.value)].type);
  for (Value& v : graph.values) decode(v);
  for (size_t i = 0; i < types.size(); ++i)
    if (is_float_type(types[i])) graph.values[size_t(graph.inputs[i].value)].type = types[i];
  const auto type = [&](ValueId id) { return graph.values[size_t(id)].type; };
  for (Node& node : graph.nodes)
    if (is_identity(node) || (node.op == Op::kCast && type(node.inputs[0]) == type(node.outputs[0]))) {
      std::erase(node.inputs, kNone);
      node.op = Op::kCopy;
      node.words.clear();
      node.rounding = Rounding::kNone;
    }
  expose(graph);
  check(graph);
  Target target;
  target.keep_inputs = true;
  plan_memory(graph, target);
  return graph;
}

std::vector<uint8_t> model_bytes(const Graph& simplified) {
  const Graph graph = real_graph(simplified);
  const ProgramSource source = {.graph = &graph};
  return write_model({&source, 1});
}

const LoadedModel& within_budget(const LoadedModel& model) {
  Budget(model.model().bytes().size())
      .take(measure(model, 0).total(), model.path(), "running the network with every value kept",
            "calibrate it with a smaller batch or input");
  return model;
}

}  // namespace

FloatNetwork::FloatNetwork(const Graph& simplified)
    : model_(model_bytes(simplified), simplified.source, kRemedy), bound_(within_budget(model_), 0) {
  std::unordered_map<std::string, uint32_t> tensors;
  const ProgramView& view = bound_.program().view();
  for (uint32_t i = view.first_tensor; i < view.first_tensor + view.tensor_count; ++i)
    tensors.emplace(model_.tensor_name(i), i);
  const auto tap = [&](ValueId id, int layer) {
    const std::string& name = simplified.values[size_t(id)].name;
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw Error(kFailed, simplified.source, name + " is not in the program", kRemedy);
    if (model_.model().tensors()[found->second].element == ElementType::kFloat32)
      taps_.push_back({name, layer, found->second});
  };
  for (const Binding& b : simplified.inputs) tap(b.value, kNone);
  for (const Node& node : simplified.nodes)
    for (const ValueId id : node.outputs) tap(id, node.layer);
}

void FloatNetwork::run(const Samples& samples, int64_t sample) {
  for (uint32_t i = 0; i < samples.inputs.size(); ++i) {
    const ElementBytes& data = samples.inputs[i].data;
    const size_t bytes = data.size() / size_t(samples.count);
    std::memcpy(bound_.program().input(i).data(), data.data() + size_t(sample) * bytes, bytes);
    data.passed(bytes);
  }
  const ProgramView& view = bound_.program().view();
  const bool one_row = view.batch > 1 && (model_.model().tensors()[view.inputs[0]].flags & kBatched) != 0;
  model_.require(one_row ? bound_.program().run_rows(1) : bound_.program().run());
}

std::span<const float> FloatNetwork::value(const Tap& tap) const {
  const TensorRecord& record = model_.model().tensors()[tap.tensor];
  const std::span<const std::byte> bytes = bound_.program().bytes(tap.tensor);
  const bool one_row = bound_.program().view().batch > 1 && (record.flags & kBatched) != 0;
  const size_t count = bytes.size() / sizeof(float) / (one_row ? bound_.program().view().batch : 1);
  return {reinterpret_cast<const float*>(bytes.data()), count};
}

}  // namespace nacre::tools
