// This file finds the rows of a batch in the values of a graph, even if a network moves them off axis 0.
//
// In row-major order, element (o count + n) inner + i of a value belongs to row n, with 0 <= n < count rows,
// 0 <= o < outer, 0 <= i < inner. A reshape keeps outer and inner; a transpose can change them. mark_batched (batch.h)
// marks values that a run can shorten to fewer rows. This file serves networks of a fixed batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// Returns, per node, whether `y` depends on it.
std::vector<bool> nodes_before(const Graph& graph, ValueId y);

// The axis of dims that holds the rows of the batch: dims[axis] = before * count * after, for `count` rows.
struct RowAxis {
  int axis = 0;
  int64_t before = 1, after = 1;

  bool operator==(const RowAxis&) const = default;
};

// Returns the axis that holds the rows, or nullopt if they do not lie in one axis. Several axes can fit if there is one
// row. Then an axis of exactly `count` elements is preferred.
std::optional<RowAxis> row_axis(const std::vector<int64_t>& dims, int64_t outer, int64_t count);
int64_t outer_of(const std::vector<int64_t>& dims, const RowAxis& at);
// Returns the shape of one row: [time, width] for [time, rows, width]. One number if the rows do not lie in one axis.
std::vector<int64_t> dims_of_row(const std::vector<int64_t>& dims, int64_t outer, int64_t count);

struct FoundRows {
  int64_t count = 0;                // 0 if the rows were not found
  std::vector<int64_t> outer = {};  // for each input of the graph
  int64_t outer_of_y = 1;
  std::string why = {};  // the reason if not found, such as which node mixes the rows, and how
};

// Finds the axes of the inputs on which the batch's rows lie, such that each row of `y` depends on one row only. Tries
// axis 0 of all inputs, then axis 1 of all, then mixtures. Axis 1 counts only if axis 0 does not have graph.batch rows.
// A time-major network needs axis 1: its recurrence mixes the times on axis 0. If the importer knows an input's axis
// of rows (rows_metadata), only that axis is tried.
FoundRows find_rows(const Graph& graph, ValueId y);

// Returns "input.NAME.rows", the key of Graph::metadata whose value is the axis of rows of the input NAME.
std::string rows_metadata(const std::string& input);

// The metadata "rows" of a training model whose batch is fixed: {"count": 4, "inputs": [1, 1], "output": 7} with
// `outer` for each value, or {"none": why}.
inline constexpr const char* kRowsKey = "rows";
std::string rows_text(const FoundRows& rows);
FoundRows parse_rows(const std::string& text);  // throws JsonError

}  // namespace nacre::tools
