// The operands of a node as the engine sees them, in the slots of its op's rule, and the kernel that the engine would
// take for the node. Shape inference, check() and evaluate() use them.
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

// Tensors of a node, with null data: one per input slot in order, then one per output. An absent input is a tensor
// without a record. NodeOperands cannot be copied, because its tensors point at its records.
struct NodeOperands {
  NodeOperands(const Graph& graph, const Node& node, const OpRule& rule);
  NodeOperands(const Graph& graph, const Node& node);  // takes node.inputs as the slots
  // Accepts values whose shapes are outside the limits. The record of such a value gets rank 0.
  NodeOperands(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out);
  NodeOperands(const NodeOperands&) = delete;
  NodeOperands& operator=(const NodeOperands&) = delete;

  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;
  int inputs = 0;  // slots before the outputs

  // Returns only the inputs, for shape rules.
  Operands input_view() const { return {tensors.data(), inputs, 0}; }

 private:
  void fill(const Graph& graph, const std::vector<ValueId>& in, const std::vector<ValueId>& out, bool limited);
};

// Returns the rule of the node's op. Throws Error if there is none.
const OpRule& rule_of(const Graph& graph, const Node& node);

// Throws Error unless ids are in range and the counts of inputs and outputs fit the rule.
void check_operand_counts(const Graph& graph, const Node& node, const OpRule& rule);

// Returns the shapes of the outputs by the op's rule.
std::vector<std::vector<int64_t>> output_shapes(const Graph& graph, const Node& node);

// Kernel sets in the order in which Program::bind tries them.
using KernelSets = std::span<const KernelSet* const>;
KernelSets reference_sets();  // for inference and training; evaluate() runs them

// Returns the first kernel in these sets that fits the node's op, rounding and element types, and whose shape rule
// accepts the words and inputs. If no rule accepts them, returns the first that fits by types. Null if there is none.
const KernelEntry* find_kernel(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

// Returns the node's inputs in the slots of the kernel that bind would take, if nothing is packed. kNone stands for
// each absent optional operand. If no kernel takes the node, returns the inputs unchanged.
std::vector<ValueId> inputs_of_kernel(const Graph& graph, const Node& node, KernelSets kernels = reference_sets());

// Returns the index of the set whose kernel bind would take for the node, provided that constants and parameters may
// be packed for it. Returns kernels.size() if no kernel takes it.
size_t set_for(const Graph& graph, const Node& node, KernelSets kernels);

// Returns the layouts in which the kernel that bind would take reads the node's inputs, one per input. Constants and
// parameters may be packed for it. Empty if no kernel takes the node.
std::vector<Layout> layouts_for(const Graph& graph, const Node& node, KernelSets kernels);

// Returns whether a node of this rule takes any number of inputs like the first.
bool is_variadic(const OpRule& rule);

// Returns whether a node of this rule reads and writes its input `slot`.
bool is_updated(const OpRule& rule, size_t slot);

// Returns the name of a node or value for errors: "speech.onnx: fc1 (dense)".
std::string place_of(const Graph& graph, const Node& node);
std::string place_of(const Graph& graph, const Value& value);

std::string shape_text(const std::vector<int64_t>& dims);

}  // namespace nacre::tools
