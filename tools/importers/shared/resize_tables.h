// Makes the tables of the op resize (engine/ops/resize.h), one for rows and one for columns. The caller lists for each
// output row or column the input elements that it reads.
//
//   std::vector<Taps> rows = ...;                     one list per output row: {index, weight}
//   append(resize_step(graph, step, x, table_of(rows, in_h), table_of(columns, in_w)));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr int64_t kMostResized = 1 << 16;  // largest number of outputs of an axis, which bounds its table

struct Tap {
  int64_t at;  // an index outside of the axis means its first or last element
  double weight;
};
using Taps = std::vector<Tap>;

struct ResizeTable {
  std::vector<int32_t> first;
  int taps = 1;
  std::vector<float> weights;  // [outputs, taps]; empty if all are 1
};

// Makes the table of an axis of `in` elements. If taps of one output mean the same element, their weights are added.
ResizeTable table_of(const std::vector<Taps>& outputs, int64_t in);
ResizeTable identity_table(int64_t in);

// Makes `node` a resize of x. The tables become constants named after the node.
Node resize_step(Graph& graph, Node node, ValueId x, const ResizeTable& rows, const ResizeTable& columns);

}  // namespace nacre::tools
