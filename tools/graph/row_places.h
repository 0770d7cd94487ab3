// This file finds the rows of a batch in the values of a graph, also where a network moves them off axis 0.
//
// Element (o count + n) inner + i of a value, in row-major order, is of row n: 0 <= o < outer, 0 <= n < count. A
// reshape keeps outer and inner, whatever axes it makes; a transpose changes them. mark_batched (batch.h) marks what a
// run can lower to fewer rows, this finds what a network of a fixed batch reads and gives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// By node: whether `y` depends on it.
std::vector<bool> nodes_before(const Graph& graph, ValueId y);

// The rows' axis of dims: dims[axis] = before count after.
struct RowAxis {
  int axis = 0;
  int64_t before = 1, after = 1;

  bool operator==(const RowAxis&) const = default;
};

// nullopt: the rows do not lie in one axis. An axis that is nothing but the rows is preferred: of one row it is not
// told by the sizes alone.
std::optional<RowAxis> row_axis(const std::vector<int64_t>& dims, int64_t outer, int64_t count);
int64_t outer_of(const std::vector<int64_t>& dims, const RowAxis& at);
// The dims of one row: dims without the rows, [time, width] of [time, rows, width].
std::vector<int64_t> dims_of_row(const std::vector<int64_t>& dims, int64_t outer, int64_t count);

struct FoundRows {
  int64_t count = 0;                // 0: not found
  std::vector<int64_t> outer = {};  // of each input of the graph
  int64_t outer_of_y = 1;
  std::string why = {};  // not found: which node mixes the rows, and how
};

// Finds the rows of the inputs from which every row of `y` is computed apart from the others. Tries axis 0 of all
// inputs, then axis 1 of all, then mixtures. Axis 1 counts only if axis 0 does not have graph.batch rows. A time-major
// network needs axis 1: its recurrence mixes the times on axis 0. If the importer knows an input's axis of rows
// (rows_metadata), only that axis is tried.
FoundRows find_rows(const Graph& graph, ValueId y);

// Key of Graph::metadata: "input.NAME.rows", the axis.
std::string rows_metadata(const std::string& input);

// The metadata "rows" of a training model whose batch is fixed: {"count": 4, "inputs": [1, 1], "output": 7}, the outer
// of each, or {"none": why}.
inline constexpr const char* kRowsKey = "rows";
std::string rows_text(const FoundRows& rows);
FoundRows parse_rows(const std::string& text);  // throws JsonError

}  // namespace nacre::tools
