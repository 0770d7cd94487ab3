// Tables of the op resize (engine/ops/resize.h), one per axis, made of what each output reads.
//
//   std::vector<Taps> rows = ...;                     one list per output row: {where, weight}
//   append(resize_step(graph, step, x, table_of(rows, in_h), table_of(columns, in_w)));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

inline constexpr int64_t kMostResized = 1 << 16;  // outputs of an axis: their table is small

struct Tap {
  int64_t at;  // outside of the axis its first or last element is meant
  double weight;
};
using Taps = std::vector<Tap>;

struct ResizeTable {
  std::vector<int32_t> first;
  int taps = 1;
  std::vector<float> weights;  // [outputs, taps]; empty: 1
};

// Table of an axis of `in` elements. Taps of one output that mean the same element are added.
ResizeTable table_of(const std::vector<Taps>& outputs, int64_t in);
ResizeTable identity_table(int64_t in);

// `node` as a resize of x, whose tables are constants named after it.
Node resize_step(Graph& graph, Node node, ValueId x, const ResizeTable& rows, const ResizeTable& columns);

}  // namespace nacre::tools
