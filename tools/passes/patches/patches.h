// --patches: the first stages of a network patch by patch, so that no whole image between them is ever in memory.
// J. Lin et al. 2021, "MCUNetV2: Memory-Efficient Patch-based Inference for Tiny Deep Learning", arXiv:2110.15352.
#pragma once

#include <cstdint>
#include <string>

#include "tools/base/json.h"
#include "tools/passes/patches/region.h"

namespace nacre::tools {

struct PatchRequest {
  bool asked = false;
  PatchGrid grid = {0, 0};  // 0: to be chosen
  std::string layer;        // the last one that is cut; "": to be chosen
};

// "auto", "3", "3x2", each with "@LAYER" behind it; throws Error(kUsage).
PatchRequest parse_patches(const std::string& text);

// Largest share of the network's multiply-accumulates that patches repeat, unless both grid and layer are given.
inline constexpr int kMostExtraPercent = 25;

// Bytes of each step bound on 32 bits: Call is 3 pointers, an operand 2, and there are about 4. The chosen patches
// have the fewest bytes of arena and steps together.
inline constexpr uint64_t kBoundStepBytes = 44;

// The graph with the steps of the region for each patch. The patches of a row are joined along columns, the rows along
// rows: the second is no step where there is one batch (make_views).
void cut_region(Graph& graph, const PatchRegion& region, const PatchSpans& spans);

// "3 x 2 patches up to conv7: ..." for summaries, and in the file.
std::string patches_text(const PatchReport& report);

// The most that a step's inputs and outputs take: what a run layer by layer cannot do without.
uint64_t layer_bound(Graph graph);

// The arena of a graph for which make_views has run, its steps in order, with its inputs or without.
uint64_t arena_of(const Graph& viewed, const Target& target, bool with_inputs);

// Reports of a planned graph; the summary is "" without patches. Inputs may lie in a bank of their own.
std::string patches_summary(const Graph& graph, const Target& target);
Json patches_json(const Graph& graph, const Target& target);

}  // namespace nacre::tools
