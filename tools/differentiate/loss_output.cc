#include "tools/differentiate/loss_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/nearest.h"
#include "tools/differentiate/loss_step.h"
#include "tools/graph/op_facts.h"
#include "tools/graph/row_places.h"

namespace nacre::tools {
namespace {

// Returns whether a softmax, or a transpose, shows that the classes of `y` lie on axis 1.
bool has_classes_on_axis_1(const Graph& graph, ValueId y) {
  const auto dims = [&](ValueId id) -> const std::vector<int64_t>& { return graph.values[size_t(id)].dims; };
  const size_t rank = dims(y).size();
  if (rank < 3 || dims(y)[1] == 1) return false;
  std::vector<ValueId> open = {y};
  std::vector<bool> seen(graph.values.size());
  for (size_t i = 0; i < open.size(); ++i) {
    const Node* node = writer_of(graph, open[i]);
    if (node == nullptr) continue;
    const bool softmax = node->op == Op::kSoftmax || node->op == Op::kLogSoftmax;
    if (softmax && get_integer(*node, "axis") == int(rank) - 1) return false;
    if (softmax && get_integer(*node, "axis") == 1) return true;
    if (node->op == Op::kTranspose && get_integer(*node, "perm", 1) == int(rank) - 1) return true;
    if (!facts_of(node->op).keeps_axes) continue;
    for (const ValueId x : node->inputs)
      if (x != kNone && dims(x).size() == rank && !graph.values[size_t(x)].constant() && !seen[size_t(x)]) {
        seen[size_t(x)] = true;
        open.push_back(x);
      }
  }
  return false;
}

// Returns the permutation that moves the classes last: "[0, 2, 3, 1]" for rank 4.
std::string classes_last(size_t rank) {
  std::string text = "[0";
  for (size_t axis = 2; axis < rank; ++axis) text += fmt::format(", {}", axis);
  return text + ", 1]";
}

// Returns whether the tensors' flags, as readers of the model take them, say where the rows of inputs and labels are.
bool flags_tell(const Graph& graph, ValueId y, Loss loss) {
  const auto tells = [&](const Value& v, size_t rank) {
    return rank > 0 && (v.batched || (graph.batch == 1 && v.dims[0] == 1));
  };
  const Value& logits = graph.values[size_t(y)];
  const size_t rank = logits.dims.size();
  const bool alone = labels_are_classes(loss) && rank == 1;  // labels [1]
  return std::ranges::all_of(graph.inputs,
                             [&](const Binding& b) {
                               const Value& v = graph.values[size_t(b.value)];
                               return tells(v, v.dims.size());
                             }) &&
         (alone ? graph.batch == 1 : tells(logits, labels_are_classes(loss) && rank > 0 ? rank - 1 : rank));
}

}  // namespace

const Node* writer_of(const Graph& graph, ValueId id) {
  for (const Node& node : graph.nodes)
    if (std::ranges::count(node.outputs, id) > 0) return &node;
  return nullptr;
}

ValueId loss_output(const Graph& graph, const std::string& name) {
  if (graph.outputs.empty()) throw Error(kUnsupported, graph.source, "has no output to train");
  if (name.empty()) return graph.outputs[0].value;
  const auto found = std::ranges::find(graph.outputs, name, &Binding::name);
  if (found == graph.outputs.end())
    throw Error(kUsage, graph.source, "has no output " + in_quotes(name), "its outputs are: " + output_names(graph));
  return found->value;
}

std::string output_names(const Graph& graph) {
  std::string text;
  for (const Binding& output : graph.outputs) text += (text.empty() ? "" : ", ") + output.name;
  return text;
}

void require_classes_last(const Graph& graph, ValueId y, Loss loss) {
  const bool classes = loss == Loss::kSoftmaxCrossEntropy || loss == Loss::kDenseCrossEntropy;
  if (!classes || graph.training != nullptr || !has_classes_on_axis_1(graph, y)) return;
  const Value& v = graph.values[size_t(y)];
  const std::string& name = std::ranges::find(graph.outputs, y, &Binding::value)->name;
  throw Error(kUnsupported, graph.source,
              fmt::format("its output {} {} has the classes on axis 1, and the cross-entropy is over the last axis",
                          name, dims_text(v.dims)),
              fmt::format("end the network with a transpose {}: in PyTorch output.movedim(1, -1)",
                          classes_last(v.dims.size())));
}

void tell_rows(Graph& graph, const LossOptions& loss) {
  const ValueId y = loss_output(graph, loss.output);
  const auto add = [&](const char* key, const std::string& value) { graph.metadata.emplace_back(key, value); };
  if (!loss.output.empty()) add(kLossOutputKey, loss.output);
  if (!flags_tell(graph, y, loss.kind)) {
    FoundRows rows = find_rows(graph, y);
    const bool one = graph.batch == 1 && std::ranges::all_of(graph.inputs, [&](const Binding& b) {
                       const std::vector<int64_t>& dims = graph.values[size_t(b.value)].dims;
                       return !dims.empty() && dims[0] == 1;
                     });
    // In a batch of one row all numbers belong to that row, however the network mixes rows.
    if (rows.count == 0 && one)
      rows = {.count = 1, .outer = std::vector<int64_t>(graph.inputs.size(), 1), .outer_of_y = 1};
    const int64_t width = labels_are_classes(loss.kind) ? graph.values[size_t(y)].dims.back() : 1;
    if (rows.count > 0 && graph.values[size_t(y)].elements() / (rows.outer_of_y * rows.count) % width != 0)
      rows = {.count = 0, .outer = {}, .why = "its output has the batch where the classes are"};
    add(kRowsKey, rows_text(rows));
  }
  std::ranges::sort(graph.metadata);
}

}  // namespace nacre::tools
