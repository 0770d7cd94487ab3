// --patches: computes the first stages of a network patch by patch, so memory holds no whole image between them.
// J. Lin et al. 2021, "MCUNetV2: Memory-Efficient Patch-based Inference for Tiny Deep Learning", arXiv:2110.15352.
#pragma once

#include <cstdint>
#include <string>

#include "tools/base/json.h"
#include "tools/passes/patches/region.h"

namespace nacre::tools {

struct PatchRequest {
  bool asked = false;
  PatchGrid grid = {0, 0};  // 0 if the pass chooses it
  std::string layer;        // the last layer that is cut; "" if the pass chooses it
};

// Parses "auto", "3" or "3x2", each optionally followed by "@LAYER". Throws Error(kUsage).
PatchRequest parse_patches(const std::string& text);

// The largest share of the network's multiply-accumulates that patches may repeat, unless both grid and layer are
// given.
inline constexpr int kMostExtraPercent = 25;

// Bytes of one bound step on 32 bits: a Call is 3 pointers, an operand 2, and a step has about 4 operands. The chosen
// patches have the fewest bytes of arena and bound steps together.
inline constexpr uint64_t kBoundStepBytes = 44;

// Replaces the steps of the region by one copy for each patch. Joins the patches of each row of the grid, then the
// rows. If the batch is 1, make_views later removes the step that joins the rows.
void cut_region(Graph& graph, const PatchRegion& region, const PatchSpans& spans);

// Returns text such as "3 x 2 of 5 layers up to conv7: before, arena ..." for summaries and for the file.
std::string patches_text(const PatchReport& report);

// Returns the most bytes that the inputs and outputs of one step take in the arena, after make_views.
uint64_t layer_bound(Graph graph);

// Returns the arena's bytes for a graph for which make_views has run, with its steps in order. `with_inputs` says
// whether its inputs count.
uint64_t arena_of(const Graph& viewed, const Target& target, bool with_inputs);

// Report on a planned graph. The summary is "" if no patches were asked for. patches_json needs graph.patches.
std::string patches_summary(const Graph& graph, const Target& target);
Json patches_json(const Graph& graph, const Target& target);

}  // namespace nacre::tools
