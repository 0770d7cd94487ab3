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

// Puts the node's input ids into the slots of `entry`. Adds kNone at the end, or cuts it, until the counts of inputs
// are equal. Returns false if they or the counts of outputs differ nevertheless.
bool fit_inputs(const KernelEntry& entry, const Node& node, std::vector<ValueId>& inputs) {
  const size_t slots = size_t(first_output(entry, int(entry.operand_count)));
  if (entry.operand_count - slots != node.outputs.size()) return false;
  inputs = node.inputs;
  if ((entry.operands->role & kVariadic) != 0) return true;
  while (inputs.size() > slots && inputs.back() == kNone) inputs.pop_back();
  if (inputs.size() > slots) return false;
  inputs.resize(slots, kNone);
  return true;
}

// Returns whether pack_weights can copy the value into another layout: a constant stored in its own type, a state
// tensor, or a value derived from parameters.
bool is_copied(const Value& v) {
  return v.constant() ? v.stored == v.type : v.region == Region::kState || v.region == Region::kDerived;
}

Words words_of(const Node& node) { return {node.words.data(), int(node.words.size())}; }

// A node's operands in the slots of a kernel entry. With `packing`, each value that pack_weights can copy has the
// layout that the entry reads.
struct FittedNode {
  NodeOperands operands;
  Operands all;

  FittedNode(const Graph& graph, const Node& node, const std::vector<ValueId>& inputs, const KernelEntry& entry,
             bool packing)
      : operands(graph, inputs, node.outputs), all{operands.tensors.data(), int(operands.tensors.size()), 0} {
    TensorRecord* record = operands.records.data();
    for (size_t i = 0; packing && i < inputs.size(); ++i) {
      if (inputs[i] == kNone) continue;
      const OperandType& type = operand_type(entry, int(i), all.count);
      if (is_copied(graph.values[size_t(inputs[i])]) && can_pack(*record, type)) record->layout = type.layout;
      ++record;
    }
  }
};

// Returns the bytes of a constant in its type. Codes of a quantizer become float32.
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

// Types alone do not distinguish a fused step without a residual from a plain step. So this returns the first entry
// whose types fit and whose rule accepts the words and the inputs' shapes. If no rule does, it returns the first whose
// types fit.
const KernelEntry* find_kernel(const Graph& graph, const Node& node, KernelSets kernels) {
  std::vector<ValueId> inputs;
  const KernelEntry* first = nullptr;
  for (const KernelSet* set : kernels)
    for (const KernelEntry* entry : entries_of(*set, node.op)) {
      if (!fit_inputs(*entry, node, inputs)) continue;
      const FittedNode fitted(graph, node, inputs, *entry, false);
      if (!types_fit(*entry, node.rounding, fitted.all)) continue;
      Dims outputs[kMaxOutputs] = {};
      if (entry->shapes(words_of(node), fitted.operands.input_view(), outputs) == Code::kOk) return entry;
      if (first == nullptr) first = entry;
    }
  return first;
}

namespace {

// The kernel that Program::bind takes for a node, the index of its set, and the node's inputs in the kernel's slots.
struct Taken {
  const KernelEntry* entry = nullptr;  // null if no kernel takes the node
  size_t set = 0;
  std::vector<ValueId> inputs;
};

Taken taken_by_bind(const Graph& graph, const Node& node, KernelSets kernels, bool packing) {
  std::vector<ValueId> inputs;
  for (size_t set = 0; set < kernels.size(); ++set)
    for (const KernelEntry* entry : entries_of(*kernels[set], node.op)) {
      if (!fit_inputs(*entry, node, inputs)) continue;
      const FittedNode fitted(graph, node, inputs, *entry, packing);
      if (takes(*entry, node.rounding, words_of(node), fitted.all)) return {entry, set, std::move(inputs)};
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
  const int count = int(taken.inputs.size() + node.outputs.size());
  std::vector<Layout> layouts;
  for (size_t i = 0; taken.entry != nullptr && i < node.inputs.size(); ++i) {
    const Layout layout =
        i < taken.inputs.size() ? operand_type(*taken.entry, int(i), count).layout : Layout::kRowMajor;
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
  Graph shaped;  // only the node's operands, the outputs with their shapes
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

  BoundStep step(*entry, words_of(node), operands.tensors);
  Code code = step.prepare();
  if (code == Code::kOk) code = step.run();
  if (code != Code::kOk) throw Error(kFailed, place_of(graph, node), sentence(code));
  return {std::make_move_iterator(data.end() - ptrdiff_t(fitted.outputs.size())), std::make_move_iterator(data.end())};
}

}  // namespace nacre::tools
