// A region is the first stages of a network that are computed patch by patch. This file finds regions and their costs.
//
// A region has all steps that `out` needs, back to its `borders`: inputs of the graph, and values made by steps that
// cannot be cut into patches. Steps outside the region read none of its values but `out`. A grid cuts the rows and
// columns of `out`. For every value in the region, a patch computes the hull of the parts that its readers need.
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
  std::vector<size_t> nodes;  // indices in the graph, in order; the last one makes `out`
  std::vector<PatchStep> steps;
  std::vector<ValueId> borders;
  uint64_t rest = 0;  // most bytes that live at a step outside the region
};

struct PatchGrid {
  int rows = 1, columns = 1;

  int patches() const { return rows * columns; }
  friend bool operator==(const PatchGrid&, const PatchGrid&) = default;
};

// Returns whether inputs of the graph count as bytes of the arena. With several banks they may lie in a bank of their
// own, such as that of a camera's frame.
bool counts_inputs(const Target& target);

// Returns the regions of a graph, one per possible `out`, in the order of the steps. `with_inputs` says whether `rest`
// counts inputs.
std::vector<PatchRegion> patch_regions(const Graph& graph, bool with_inputs = true);

// Returns the rows (axis 0) or columns (1) of every value of a region that this part of `out` needs. nullopt if a step
// would need no row or column of its input, or fewer than its kernel takes.
using Spans = std::map<ValueId, Span>;
std::optional<Spans> spans_for(const PatchRegion& region, const Graph& graph, int axis, Span out);

// Returns part i of [0, size) cut into `count` parts, as equal as possible.
Span part_of(int size, int count, int i);

// Spans for every row and column of the grid, in order.
struct PatchSpans {
  std::vector<Spans> rows, columns;
};
std::optional<PatchSpans> patch_spans(const PatchRegion& region, const Graph& graph, PatchGrid grid);

// Returns the multiply-accumulates of the patches in addition to those of computing the region once.
int64_t extra_macs(const PatchRegion& region, const Graph& graph, const PatchSpans& spans);

// Estimates the bytes that live at one time, from the first, the last and a few patches between.
uint64_t patch_bytes(const PatchRegion& region, const Graph& graph, const PatchSpans& spans, const Target& target);

uint64_t macs_of(const Graph& graph);

}  // namespace nacre::tools
