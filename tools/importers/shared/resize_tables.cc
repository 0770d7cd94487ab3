#include "tools/importers/shared/resize_tables.h"

#include <algorithm>

namespace nacre::tools {
namespace {

ValueId weights_of(Graph& graph, const std::string& name, const ResizeTable& table) {
  if (table.weights.empty()) return kNone;
  const ValueId id = graph.constant(name, {int64_t(table.first.size()), table.taps}, table.weights);
  graph.values[size_t(id)].fixed = true;
  return id;
}

}  // namespace

// All outputs read the same number of neighbours, `taps`, which is the number that the widest output needs. All of
// these neighbours lie inside the axis.
ResizeTable table_of(const std::vector<Taps>& outputs, int64_t in) {
  const auto inside = [in](int64_t at) { return std::clamp<int64_t>(at, 0, in - 1); };
  const auto by_place = [](const Tap& a, const Tap& b) { return a.at < b.at; };
  ResizeTable table;
  for (const Taps& taps : outputs) {
    const auto [low, high] = std::minmax_element(taps.begin(), taps.end(), by_place);
    table.first.push_back(int32_t(inside(low->at)));
    table.taps = std::max(table.taps, int(inside(high->at) - inside(low->at)) + 1);
  }
  bool computes = table.taps > 1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    table.first[i] = std::min(table.first[i], int32_t(in - table.taps));
    std::vector<double> weights(size_t(table.taps), 0);
    for (const Tap& tap : outputs[i]) weights[size_t(inside(tap.at) - table.first[i])] += tap.weight;
    computes = computes || weights[0] != 1;
    table.weights.insert(table.weights.end(), weights.begin(), weights.end());
  }
  if (!computes) table.weights.clear();
  return table;
}

ResizeTable identity_table(int64_t in) {
  ResizeTable table;
  for (int64_t i = 0; i < in; ++i) table.first.push_back(int32_t(i));
  return table;
}

Node resize_step(Graph& graph, Node node, ValueId x, const ResizeTable& rows, const ResizeTable& columns) {
  const auto places = [&](const char* what, const ResizeTable& table) {
    return graph.constant(node.name + what, {int64_t(table.first.size())}, table.first);
  };
  node.op = Op::kResize;
  node.inputs = {x, places("/rows", rows), places("/columns", columns),
                 weights_of(graph, node.name + "/row_weights", rows),
                 weights_of(graph, node.name + "/column_weights", columns)};
  return node;
}

}  // namespace nacre::tools
