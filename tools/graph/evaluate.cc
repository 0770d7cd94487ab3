#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "engine/kernels/training.h"
#include "engine/run/find_entry.h"
#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/graph/bound_step.h"
#include "tools/graph/layouts.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

bool is_output(const OperandType& type) { return (type.role & 3) == uint8_t(Role::kOut); }

// Input ids in the slots of `entry`: absent optional ones are added or cut at the end. False if the counts differ.
bool fit_inputs(const KernelEntry& entry, const Node& node, std::vector<ValueId>& inputs) {
  const OperandType *first = entry.operands, *last = first + entry.operand_count;
  const auto outputs = size_t(std::count_if(first, last, is_output));
  if (outputs != node.outputs.size()) return false;
  inputs = node.inputs;
  if ((first->role & kVariadic) != 0) return true;
  const size_t slots = entry.operand_count - outputs;
  while (inputs.size() > slots && inputs.back() == kNone) inputs.pop_back();
  if (inputs.size() > slots) return false;
  inputs.resize(slots, kNone);
  return true;
}

const OperandType& input_type(const KernelEntry& entry, const Node& node, size_t i) {
  return entry.operands[std::min(i, entry.operand_count - node.outputs.size() - 1)];
}

bool fits(const Value& v, const OperandType& type) {
  return v.type == type.element && (v.layout == type.layout || type.layout == Layout::kAny);
}

// Of a constant, or of a parameter and what is derived of it, pack_weights can make a copy in another layout.
bool can_be_packed(const Value& v, Layout layout) {
  const bool constant = v.constant() && v.stored == v.type;
  if ((!constant && v.region != Region::kState && v.region != Region::kDerived) || v.layout != Layout::kRowMajor ||
      v.dims.size() < 2 || !has_layouts(v.type))
    return false;
  Value packed = v;
  packed.layout = layout;
  return int64_t(bytes_as(ElementType::kInt8, packed)) <= kElementLimit;
}

// `packing`: inputs may be given another layout first.
bool fit_types(const Graph& graph, const KernelEntry& entry, const Node& node, const std::vector<ValueId>& inputs,
               bool packing = false) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandType& type = input_type(entry, node, i);
    if (inputs[i] == kNone) {
      if ((type.role & kOptional) == 0) return false;
      continue;
    }
    const Value& v = graph.values[size_t(inputs[i])];
    if (!fits(v, type) && !(packing && v.type == type.element && can_be_packed(v, type.layout))) return false;
  }
  const size_t slots = entry.operand_count - node.outputs.size();
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!fits(graph.values[size_t(node.outputs[i])], entry.operands[slots + i])) return false;
  return true;
}

// The bytes of a constant as its type: codes of a quantizer become reals.
std::vector<uint8_t> bytes_of(const Value& value) {
  if (!value.constant()) throw Error(kFailed, value.name, "is not a constant");
  if (value.stored == value.type) return *value.data;
  if (value.type != ElementType::kFloat32)
    throw Error(kUnsupported, value.name, std::string("codes of a value of type ") + name_of(value.type));
  const std::vector<float> decoded = reals(value);
  std::vector<uint8_t> bytes(decoded.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), decoded.data(), bytes.size());
  return bytes;
}

}  // namespace

KernelSets reference_sets() {
  static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
  return kSets;
}

namespace {

// Whether the entry's rule takes the attributes and the inputs' shapes.
bool takes_inputs(const Graph& graph, const KernelEntry& entry, const Node& node) {
  Node fitted = node;
  fit_inputs(entry, node, fitted.inputs);
  const NodeOperands operands(graph, fitted);
  Dims outputs[kMaxOutputs] = {};
  return entry.shapes({node.words.data(), int(node.words.size())}, operands.input_view(), outputs) == Code::kOk;
}

}  // namespace

// Types alone do not tell a fused step without a residual from the plain one: of two entries that fit, the one whose
// rule takes the words.
const KernelEntry* find_kernel(const Graph& graph, const Node& node, KernelSets kernels) {
  std::vector<ValueId> inputs;
  const KernelEntry* first = nullptr;
  for (const KernelSet* set : kernels)
    for (const KernelEntry* entry : entries_of(*set, node.op)) {
      if (entry->rounding != node.rounding || !fit_inputs(*entry, node, inputs) ||
          !fit_types(graph, *entry, node, inputs))
        continue;
      if (!is_matmul(node.op) || takes_inputs(graph, *entry, node)) return entry;
      if (first == nullptr) first = entry;
    }
  return first;
}

namespace {

// What bind would take for a node: the entry, the place of its set in the list, and the node's inputs in its slots.
struct Taken {
  const KernelEntry* entry = nullptr;  // null: no kernel takes the node
  size_t set = 0;
  std::vector<ValueId> inputs;
};

Taken taken_by_bind(const Graph& graph, const Node& node, KernelSets kernels, bool packing) {
  Node fitted = node;
  const Words words{node.words.data(), int(node.words.size())};
  for (size_t set = 0; set < kernels.size(); ++set)
    for (const KernelEntry* entry : entries_of(*kernels[set], node.op)) {
      if (entry->rounding != node.rounding || !fit_inputs(*entry, node, fitted.inputs) ||
          !fit_types(graph, *entry, node, fitted.inputs, packing))
        continue;
      const NodeOperands operands(graph, fitted);
      const Operands all = {operands.tensors.data(), int(operands.tensors.size()), 0};
      if (check_shapes(*entry, words, all) != Code::kOk || (entry->accepts != nullptr && !entry->accepts(words, all)))
        continue;
      return {entry, set, std::move(fitted.inputs)};
    }
  return {nullptr, kernels.size(), {}};
}

}  // namespace

std::vector<ValueId> inputs_of_kernel(const Graph& graph, const Node& node, KernelSets kernels) {
  const Taken taken = taken_by_bind(graph, node, kernels, false);
  return taken.entry == nullptr ? node.inputs : taken.inputs;
}

size_t set_for(const Graph& graph, const Node& node, KernelSets kernels) {
  return taken_by_bind(graph, node, kernels, true).set;
}

std::vector<Layout> layouts_for(const Graph& graph, const Node& node, KernelSets kernels) {
  const Taken taken = taken_by_bind(graph, node, kernels, true);
  std::vector<Layout> layouts;
  for (size_t i = 0; taken.entry != nullptr && i < node.inputs.size(); ++i) {
    const Layout layout = i < taken.inputs.size() ? input_type(*taken.entry, node, i).layout : Layout::kRowMajor;
    const bool any = layout == Layout::kAny && node.inputs[i] != kNone;
    layouts.push_back(any ? graph.values[size_t(node.inputs[i])].layout : layout);
  }
  return layouts;
}

std::vector<std::vector<uint8_t>> evaluate(const Graph& graph, const Node& node) {
  const std::vector<std::vector<int64_t>> shapes = output_shapes(graph, node);
  const KernelEntry* entry = find_kernel(graph, node);
  if (entry == nullptr) throw Error(kUnsupported, place_of(graph, node), "no reference kernel for these element types");
  Node fitted = node;
  fit_inputs(*entry, node, fitted.inputs);
  Graph shaped;  // the operands alone, outputs with their shapes
  for (std::vector<ValueId>* ids : {&fitted.inputs, &fitted.outputs})
    for (ValueId& id : *ids) {
      if (id == kNone) continue;
      shaped.values.push_back(graph.values[size_t(id)]);
      id = ValueId(shaped.values.size()) - 1;
    }
  for (size_t i = 0; i < shapes.size(); ++i) shaped.values[size_t(fitted.outputs[i])].dims = shapes[i];

  NodeOperands operands(shaped, fitted);
  std::vector<std::vector<uint8_t>> data;
  for (const ValueId id : fitted.inputs)
    data.push_back(id == kNone ? std::vector<uint8_t>() : bytes_of(shaped.values[size_t(id)]));
  for (const ValueId id : fitted.outputs) {
    const Value& y = shaped.values[size_t(id)];
    data.emplace_back(bytes_as(y.type, y));
  }
  for (size_t i = 0; i < data.size(); ++i) operands.tensors[i].data = data[i].empty() ? nullptr : data[i].data();

  const Words words{node.words.data(), int(node.words.size())};
  BoundStep step(*entry, words, operands.tensors);
  Code code = step.prepare();
  if (code == Code::kOk) code = step.run();
  if (code != Code::kOk) throw Error(kFailed, place_of(graph, node), sentence(code));
  return {std::make_move_iterator(data.end() - ptrdiff_t(fitted.outputs.size())), std::make_move_iterator(data.end())};
}

}  // namespace nacre::tools
