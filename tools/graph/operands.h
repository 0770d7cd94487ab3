// A node as the engine sees it: records for its operands, words, and the rule's slots. For shape inference, checks and
// evaluation in the tools.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Limits of the engine on shapes: see ShapeRule.
inline constexpr int64_t kDimLimit = int64_t{1} << 28;
inline constexpr int64_t kElementLimit = (int64_t{1} << 31) - 1;

// Records and tensors (data null) of a node: every input slot of the rule in order, absent ones with a null record,
// then the outputs. Not copied: tensors point at records.
struct NodeOperands {
  NodeOperands(const Graph& graph, const Node& node, const OpRule& rule);
  NodeOperands(const Graph& graph, const Node& node);  // the node's own slots
  // Takes values whose shapes may be outside the limits: these have no axes then.
  NodeOperands(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out);
  NodeOperands(const NodeOperands&) = delete;
  NodeOperands& operator=(const NodeOperands&) = delete;

  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;
  int inputs = 0;  // slots before the outputs

  // Operands for shape rules: the inputs alone.
  Operands input_view() const { return {tensors.data(), inputs, 0}; }

 private:
  void fill(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out, bool limited);
};

// The rule of the node's op; throws Error if there is none.
const OpRule& rule_of(const Graph& graph, const Node& node);

// Throws Error unless ids are in range and the counts of inputs and outputs fit the rule.
void check_operand_counts(const Graph& graph, const Node& node, const OpRule& rule);

// Shapes of the outputs by the op's rule.
std::vector<std::vector<int64_t>> output_shapes(const Graph& graph, const Node& node);

// Kernel sets in the order in which bind asks them.
using KernelSets = std::span<const KernelSet* const>;
KernelSets reference_sets();  // of inference and of training: what evaluate() runs

// The first kernel of these sets for the node, by op, rounding, element types and its rule on words and inputs, or
// where no rule takes these, by types; null if there is none.
const KernelEntry* find_kernel(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

// The node's inputs in the places that this kernel has for them: kNone stands for every optional operand that is
// absent. The inputs as they are where there is no kernel.
std::vector<ValueId> inputs_of_kernel(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

// The place in the list of the set whose kernel bind would take for the node, where constants and parameters may be
// packed for it; kernels.size() if no kernel takes it.
size_t set_for(const Graph& graph, const Node& node, KernelSets kernels);

// The layouts in which the kernel that bind would take for the node reads its inputs, where those that are constants or
// parameters may be packed for it; empty if no kernel takes it.
std::vector<Layout> layouts_for(const Graph& graph, const Node& node, KernelSets kernels);

// Whether a node of this rule has any number of inputs like the first.
bool is_variadic(const OpRule& rule);

// Whether a node of this rule reads and writes its input `slot`.
bool is_updated(const OpRule& rule, size_t slot);

// Names a node in errors: "speech.onnx: fc1 (dense)".
std::string place_of(const Graph& graph, const Node& node);
std::string place_of(const Graph& graph, const Value& value);

std::string shape_text(const std::vector<int64_t>& dims);

}  // namespace nacre::tools
