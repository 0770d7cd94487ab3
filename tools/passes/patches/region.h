// The first stages of a network that are computed patch by patch, and what that costs.
//
// A region is all steps that `out` needs, back to the values from which no patch can be cut through: inputs of the
// graph, and what other steps make (`borders`). Nothing else reads what is in it. Its grid cuts the rows and columns of
// `out`; a patch computes of every value in the region the hull of what its readers need.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/passes/memory/plan_memory.h"
#include "tools/passes/patches/steps.h"

namespace nacre::tools {

struct PatchRegion {
  ValueId out = kNone;
  std::vector<size_t> nodes;  // of the graph, in order; the last one makes `out`
  std::vector<PatchStep> steps;
  std::vector<ValueId> borders;
  uint64_t rest = 0;  // bytes that live at once beside its steps
};

struct PatchGrid {
  int rows = 1, columns = 1;

  int patches() const { return rows * columns; }
  friend bool operator==(const PatchGrid&, const PatchGrid&) = default;
};

// Whether inputs of the graph count as bytes of the arena: with several banks they may lie in one of their own, such as
// a camera's frame.
bool counts_inputs(const Target& target);

// The regions of a graph, by the values that can be their `out`, in the order of the steps. `with_inputs`: in `rest`.
std::vector<PatchRegion> patch_regions(const Graph& graph, bool with_inputs = true);

// Rows (axis 0) or columns (1) that every value of a region must have for this part of `out`. Nothing where a patch
// would lie outside of a step's input.
using Spans = std::map<ValueId, Span>;
std::optional<Spans> spans_for(const PatchRegion& region, const Graph& graph, int axis, Span out);

// `count` parts of [0, size), as equal as they can be.
Span part_of(int size, int count, int i);

// Spans for every row and column of the grid, in order. Nothing where one of them is not to be had.
struct PatchSpans {
  std::vector<Spans> rows, columns;
};
std::optional<PatchSpans> patch_spans(const PatchRegion& region, const Graph& graph, PatchGrid grid);

// Multiply-accumulates of the patches over those of computing the region once.
int64_t extra_macs(const PatchRegion& region, const Graph& graph, const PatchSpans& spans);

// About what lives at once, in bytes: by the first, the last and a few patches between.
uint64_t patch_bytes(const PatchRegion& region, const Graph& graph, const PatchSpans& spans, const Target& target);

uint64_t macs_of(const Graph& graph);

}  // namespace nacre::tools
