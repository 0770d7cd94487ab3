// This file finds the parts of a step's inputs that a part of its output needs. An output pixel of such a step reads
// only a window of the input around that pixel. Rows are axis 1 and columns axis 2 of [n, h, w, c].
//
//   output positions [a, b) read   [a stride - before, (b - 1) stride - before + span)
//   span = (kernel - 1) dilation + 1
//
// Positions inside the input are cut out of it. Positions outside become pads of the patch's own step.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// The rows or columns [first, end).
struct Span {
  int first = 0, end = 0;

  int size() const { return end - first; }
  friend bool operator==(const Span&, const Span&) = default;
};

// How a step reads one axis of an input of `in` rows or columns (see the formula above). It needs at least `least`.
struct Reach {
  int in = 1, stride = 1, span = 1, before = 0, least = 1;
};

struct Halo {
  Span inside;
  int before = 0, after = 0;  // pads
};

// Returns the part of the input that `output` needs, and pads. nullopt if no position is inside the input, or too few
// are for the kernel.
std::optional<Halo> halo_of(const Reach& reach, Span output);

// A step that can be computed for a part of its output.
struct PatchStep {
  std::array<Reach, 2> reach;  // rows, columns
  std::vector<bool> cut;       // per input: whether a patch needs only a part of it
  bool window = false;         // conv, depthwise and pools, whose pads are attributes
  uint64_t macs = 0;           // for one pixel
};
std::optional<PatchStep> patch_step(const Graph& graph, const Node& node);

// Returns the part of input `i` that this part of the output needs, along rows (axis 0) or columns (1).
std::optional<Halo> halo_of(const PatchStep& step, size_t i, int axis, Span output);

// Sets a step's pads for one patch.
void set_pads(Node& node, const std::array<Halo, 2>& halo);

}  // namespace nacre::tools
