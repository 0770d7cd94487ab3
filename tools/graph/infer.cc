#include <algorithm>
#include <string_view>

#include "tools/base/error.h"
#include "tools/graph/layouts.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

bool optional(const char* slot) { return std::string_view(slot).ends_with('?'); }

// Makes the record of a value. With `read`, throws if its dims exceed the engine's limits. Without, such a value gets
// rank 0, because its dims may not be inferred yet.
TensorRecord record_of(const Graph& graph, const Value& value, bool read) {
  TensorRecord record{};
  record.element = value.type;
  record.region = value.region;
  record.alias_of = record.quantizer = record.initial = kNoIndex;
  int64_t elements = 1;
  bool fits = value.dims.size() <= size_t(kMaxRank);
  for (size_t i = 0; fits && i < value.dims.size(); ++i) {
    const int64_t dim = value.dims[i];
    fits = dim >= 1 && dim <= kDimLimit && (elements *= dim) <= kElementLimit;
    record.dims[i] = int32_t(fits ? dim : 1);
  }
  if (!fits && read)
    throw Error(kUnsupported, place_of(graph, value), "shape " + shape_text(value.dims) + " is outside the limits",
                "at most 8 axes of 1 to 2^28, fewer than 2^31 elements");
  record.rank = uint8_t(fits ? value.dims.size() : 0);
  record.layout = fits ? value.layout : Layout::kRowMajor;
  record.bytes = fits ? bytes_as(value.type, value) : storage_bytes(value.type, 1);
  return record;
}

std::string operand_shapes(const Graph& graph, const Node& node) {
  std::string text;
  for (const ValueId id : node.inputs)
    text +=
        (text.empty() ? "" : ", ") + (id == kNone ? std::string("none") : shape_text(graph.values[size_t(id)].dims));
  return text;
}

}  // namespace

bool is_variadic(const OpRule& rule) {
  return !rule.inputs.empty() && std::string_view(rule.inputs.back()).ends_with("...");
}

bool is_updated(const OpRule& rule, size_t slot) { return slot < rule.inputs.size() && rule.inputs[slot][0] == '&'; }

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + ']';
}

std::string place_of(const Graph& graph, const Node& node) {
  const OpRule* rule = find_rule(node.op);
  const bool has_layer = node.layer >= 0 && size_t(node.layer) < graph.layers.size();
  const std::string name = !node.name.empty() ? node.name : has_layer ? graph.layers[size_t(node.layer)].name : "node";
  const std::string op = rule != nullptr ? rule->name : "unknown op";
  return (graph.source.empty() ? "" : graph.source + ": ") + name + " (" + op + ")";
}

std::string place_of(const Graph& graph, const Value& value) {
  return (graph.source.empty() ? "" : graph.source + ": ") + "value " + value.name;
}

NodeOperands::NodeOperands(const Graph& graph, const Node& node, const OpRule& rule)
    : inputs(int(is_variadic(rule) ? node.inputs.size() : std::max(rule.inputs.size(), node.inputs.size()))) {
  fill(graph, node.inputs, node.outputs, true);
}

NodeOperands::NodeOperands(const Graph& graph, const Node& node) : inputs(int(node.inputs.size())) {
  fill(graph, node.inputs, node.outputs, true);
}

NodeOperands::NodeOperands(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out)
    : inputs(int(in.size())) {
  fill(graph, in, out, false);
}

void NodeOperands::fill(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out,
                        bool limited) {
  const size_t count = size_t(inputs) + out.size();
  records.reserve(count);
  tensors.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const bool output = i >= size_t(inputs);
    const size_t j = output ? i - size_t(inputs) : i;
    const std::vector<ValueId>& ids = output ? out : in;
    const ValueId id = j < ids.size() ? ids[j] : kNone;
    if (id == kNone) {
      tensors.push_back({nullptr, nullptr});
      continue;
    }
    records.push_back(record_of(graph, graph.values[size_t(id)], limited && !output));
    tensors.push_back({nullptr, &records.back()});
  }
}

const OpRule& rule_of(const Graph& graph, const Node& node) {
  const OpRule* rule = find_rule(node.op);
  if (rule == nullptr)
    throw Error(kUnsupported, place_of(graph, node), "no rule for op " + std::to_string(int(node.op)));
  return *rule;
}

void check_operand_counts(const Graph& graph, const Node& node, const OpRule& rule) {
  const auto fail = [&](const std::string& fact) { throw Error(kFailed, place_of(graph, node), fact); };
  const auto valid = [&](ValueId id) { return id >= 0 && size_t(id) < graph.values.size(); };
  for (const ValueId id : node.inputs)
    if (id != kNone && !valid(id)) fail("reads value " + std::to_string(id) + ", which does not exist");
  for (const ValueId id : node.outputs)
    if (!valid(id)) fail("writes value " + std::to_string(id) + ", which does not exist");
  const auto required =
      size_t(std::count_if(rule.outputs.begin(), rule.outputs.end(), [](const char* y) { return !optional(y); }));
  if (node.outputs.size() > rule.outputs.size() || node.outputs.size() < required)
    fail("has " + std::to_string(node.outputs.size()) + " outputs, the op " + std::to_string(rule.outputs.size()));
  if (is_variadic(rule)) {
    if (node.inputs.empty() || std::count(node.inputs.begin(), node.inputs.end(), kNone) > 0)
      fail("needs all of its inputs");
    return;
  }
  if (node.inputs.size() > rule.inputs.size())
    fail("has " + std::to_string(node.inputs.size()) + " inputs, the op at most " + std::to_string(rule.inputs.size()));
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    if (!optional(rule.inputs[i]) && (i >= node.inputs.size() || node.inputs[i] == kNone))
      fail(std::string("input ") + rule.inputs[i] + " is missing");
}

std::vector<std::vector<int64_t>> output_shapes(const Graph& graph, const Node& node) {
  const OpRule& rule = rule_of(graph, node);
  check_operand_counts(graph, node, rule);
  if (node.words.size() > 255) throw Error(kUnsupported, place_of(graph, node), "has more than 255 attribute words");
  const NodeOperands operands(graph, node, rule);
  std::vector<Dims> dims(rule.outputs.size());
  const Code code = rule.shapes({node.words.data(), int(node.words.size())}, operands.input_view(), dims.data());
  if (code != Code::kOk) {
    std::string why = sentence(code);
    if (why.empty()) why = "refused with code " + std::to_string(int(code));
    throw Error(kBadInput, place_of(graph, node), why + "; inputs " + operand_shapes(graph, node));
  }
  std::vector<std::vector<int64_t>> shapes;
  for (const Dims& d : dims) shapes.emplace_back(d.size, d.size + d.rank);
  shapes.resize(node.outputs.size());
  return shapes;
}

void infer_shapes(Graph& graph, const Node& node) {
  std::vector<std::vector<int64_t>> shapes = output_shapes(graph, node);
  for (size_t i = 0; i < shapes.size(); ++i) {
    graph.values[size_t(node.outputs[i])].dims = std::move(shapes[i]);
    record_of(graph, graph.values[size_t(node.outputs[i])], true);  // throws if the dims exceed the limits
  }
}

void infer_shapes(Graph& graph) {
  for (const Node& node : graph.nodes) infer_shapes(graph, node);
}

}  // namespace nacre::tools
