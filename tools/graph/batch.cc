#include "tools/graph/batch.h"

#include <algorithm>

#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

constexpr const char* kFixed = "batch: fixed at ";

const Value& value(const Graph& graph, ValueId id) { return graph.values[size_t(id)]; }

bool is_batched(const Graph& graph, ValueId id) { return id != kNone && value(graph, id).batched; }

// Returns whether the operand has the batch's rows on the result's axis 0, or is broadcast over them.
bool fits_rows(const Graph& graph, ValueId id, size_t rank) {
  const Value& v = value(graph, id);
  if (v.batched) return v.dims.size() == rank;  // at a lower rank the rows would meet another axis
  return v.dims.size() < rank || v.dims[0] == 1;
}

// Returns whether each operand that numpy broadcasts either has the rows on axis 0 or is equal for all rows.
bool broadcasts(const Graph& graph, const Node& node) {
  size_t rank = 0;
  const size_t operands = std::min(node.inputs.size(), size_t(facts_of(node.op).broadcast));
  for (size_t i = 0; i < operands; ++i) rank = std::max(rank, value(graph, node.inputs[i]).dims.size());
  return std::all_of(node.inputs.begin(), node.inputs.begin() + ptrdiff_t(operands),
                     [&](ValueId x) { return fits_rows(graph, x, rank); });
}

// Returns whether the slice takes all of axis 0, in order. Axis 0 then stays whole.
bool keeps_slice(const Graph& graph, const Node& node) {
  return get_integer(node, "begin") == 0 && get_integer(node, "step") == 1 &&
         get_integer(node, "size") == value(graph, node.inputs[0]).dims[0];
}

bool concatenates_rows(const Graph& graph, const Node& node) {
  if (get_integer(node, "axis") == 0) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId x) { return is_batched(graph, x) || graph.batch == 1; });
}

// Returns whether the batch is an axis of matrices (axis 0 of rank > 2), or the rows of a left matrix.
bool multiplies_batch(const Graph& graph, const Node& node) {
  const size_t rank_a = value(graph, node.inputs[0]).dims.size(), rank_b = value(graph, node.inputs[1]).dims.size();
  const size_t rank = std::max(rank_a, rank_b);
  const bool rows =
      rank_a == 2 && get_integer(node, "transpose_a") == 0 && !is_batched(graph, node.inputs[1]) && rank == 2;
  return rows || (rank > 2 && fits_rows(graph, node.inputs[0], rank) && fits_rows(graph, node.inputs[1], rank));
}

// Returns whether x and each operand that outlives a run (Region::kStream) are batched, and the others are not.
bool streams_by_row(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool rows = i == 0 || (node.inputs[i] != kNone && value(graph, node.inputs[i]).region == Region::kStream);
    if (is_batched(graph, node.inputs[i]) != rows) return false;
  }
  return true;
}

// Returns whether x and each initial state that is given are batched. The weights must be equal for all rows.
bool recurs_by_row(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool weights = i == 1 || i == 2;
    if (node.inputs[i] != kNone && is_batched(graph, node.inputs[i]) == weights) return false;
  }
  return true;
}

bool only_first_batched(const Graph& graph, const Node& node) {
  return std::none_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId x) { return is_batched(graph, x); });
}

}  // namespace

bool keeps_batch(const Graph& graph, const Node& node, std::string& why) {
  const Value& x = value(graph, node.inputs[0]);
  switch (facts_of(node.op).rows) {
    case Rows::kBroadcast: why = "broadcasts the batch against another axis"; return broadcasts(graph, node);
    case Rows::kJoined: why = "joins the batch with what has none"; return concatenates_rows(graph, node);
    case Rows::kFeatures: why = "has weights that depend on the batch, or the batch as features"; break;
    case Rows::kMatrices: why = "multiplies along the batch"; return multiplies_batch(graph, node);
    case Rows::kRecurrent:
      why = "has weights that depend on the batch, or an initial state that does not";
      return recurs_by_row(graph, node);
    case Rows::kStates:
      why = "keeps a state without the batch, or the batch without a state";
      return streams_by_row(graph, node);
    case Rows::kTable: why = "has a table that depends on the batch"; return !is_batched(graph, node.inputs[0]);
    case Rows::kNormalized: why = "normalizes over the batch"; break;
    case Rows::kAlongAxis: why = "normalizes over the batch"; return get_integer(node, "axis") != 0;
    case Rows::kReduced:
      why = node.op == Op::kMean ? "takes the mean over the batch" : "reduces the batch";
      return (get_integer(node, "axes") & 1) == 0;
    case Rows::kSearched: why = "searches the batch"; return get_integer(node, "axis") != 0;
    case Rows::kMixed: why = "selects boxes of the whole batch"; return false;
    case Rows::kReshaped:
      why = "reshapes the batch";
      return value(graph, node.outputs[0]).dims.size() > 0 && value(graph, node.outputs[0]).dims[0] == x.dims[0];
    case Rows::kPermuted: why = "moves the batch to another axis"; return get_integer(node, "perm") == 0;
    case Rows::kPadded:
      why = "pads the batch";
      return get_integer(node, "before") == 0 && get_integer(node, "after") == 0;
    case Rows::kSliced: why = "takes a part of the batch"; return keeps_slice(graph, node);
    case Rows::kSamples:
    case Rows::kElements: why = "has operands that depend on the batch"; return only_first_batched(graph, node);
  }
  return only_first_batched(graph, node) && x.dims.size() > 1;
}

void mark_batched(Graph& graph, bool wanted) {
  for (Value& v : graph.values) v.batched = false;
  if (!wanted) return;
  const auto begin = [&](Value& v) { v.batched = !v.dims.empty() && v.dims[0] == graph.batch; };
  for (const Binding& input : graph.inputs) begin(graph.values[size_t(input.value)]);
  for (Value& v : graph.values)
    if (v.region == Region::kStream) begin(v);
  for (const Node& node : graph.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId x) { return is_batched(graph, x); })) continue;
    std::string why;
    if (!keeps_batch(graph, node, why)) {
      for (Value& v : graph.values) v.batched = false;
      graph.log.push_back(kFixed + std::to_string(graph.batch) + ", because " + node.name + " " + why);
      return;
    }
    for (const ValueId y : node.outputs) graph.values[size_t(y)].batched = true;
  }
}

void mark_batched_again(Graph& graph) {
  if (std::erase_if(graph.log, [](const std::string& line) { return line.starts_with(kFixed); }) > 0)
    mark_batched(graph, true);
}

}  // namespace nacre::tools
