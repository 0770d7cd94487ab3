#include "tools/passes/patches/steps.h"

#include <algorithm>

#include "engine/ops/conv.h"
#include "engine/ops/move.h"
#include "engine/ops/pool.h"
#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

constexpr size_t kRank = 4;

bool has(const Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; }

// Returns whether a value is an image that can be cut. A value with scales per row or column cannot: they would be cut
// too.
bool is_image(const Value& v) {
  const bool scales = v.quantizer && v.quantizer->scale.size() > 1 && v.quantizer->axis != int(kRank) - 1;
  return v.dims.size() == kRank && !v.constant() && v.region == Region::kArena && element_bits(v.type) % 8 == 0 &&
         !scales;
}

// Returns whether a value is equal for every pixel: counted from the last axis, it has no rows and no columns.
bool is_of_no_pixel(const Value& v) {
  const size_t rank = v.dims.size();
  return (rank < 3 || v.dims[rank - 3] == 1) && (rank < 2 || v.dims[rank - 2] == 1);
}

Reach window_of(const Node& node, const char* axis, int in, int kernel, bool pool) {
  const std::string name = axis;
  const int dilation = get_integer(node, ("dilation_" + name).c_str());
  return {.in = in,
          .stride = get_integer(node, ("stride_" + name).c_str()),
          .span = (kernel - 1) * dilation + 1,
          .before = get_integer(node, name == "h" ? "pad_top" : "pad_left"),
          .least = pool && kernel > 1 ? dilation : 1};  // as Pool::check_taps demands
}

std::optional<PatchStep> convolution(const Graph& graph, const Node& node) {
  const Value &x = graph.values[size_t(node.inputs[Conv2d::kX])], &w = graph.values[size_t(node.inputs[Conv2d::kW])];
  const Value& y = graph.values[size_t(node.outputs[0])];
  if (!w.constant() || w.dims.size() != kRank - (node.op == Op::kDepthwiseConv2d)) return std::nullopt;
  const size_t first = node.op == Op::kConv2d;  // axis of w that has the kernel's rows
  PatchStep step;
  step.window = true;
  step.reach = {window_of(node, "h", int(x.dims[1]), int(w.dims[first]), false),
                window_of(node, "w", int(x.dims[2]), int(w.dims[first + 1]), false)};
  step.macs = uint64_t(w.elements());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    step.cut.push_back(i == size_t(Conv2d::kX));
    if (!has(node, i) || step.cut[i]) continue;
    const Value& v = graph.values[size_t(node.inputs[i])];
    step.cut[i] = i == size_t(Conv2d::kResidual) && is_image(v) && v.dims == y.dims;
    if (!step.cut[i] && !v.constant()) return std::nullopt;
  }
  return step;
}

PatchStep pool(const Graph& graph, const Node& node) {
  const Value& x = graph.values[size_t(node.inputs[0])];
  return {.reach = {window_of(node, "h", int(x.dims[1]), get_integer(node, "kernel_h"), true),
                    window_of(node, "w", int(x.dims[2]), get_integer(node, "kernel_w"), true)},
          .cut = {true},
          .window = true};
}

std::optional<PatchStep> padding(const Graph& graph, const Node& node) {
  const Value& x = graph.values[size_t(node.inputs[0])];
  if (get_integer(node, "mode") != int(Pad::kConstant)) return std::nullopt;
  PatchStep step;
  for (int axis : {0, 1})
    step.reach[size_t(axis)] = {.in = int(x.dims[size_t(axis) + 1]), .before = get_integer(node, "before", axis + 1)};
  step.cut = {true};
  return step;
}

// Describes an op that works pixel by pixel. Operands that have the output's rows and columns are cut.
std::optional<PatchStep> pixels(const Graph& graph, const Node& node) {
  const Value& y = graph.values[size_t(node.outputs[0])];
  // Operands after the images are tables, scales, or a norm's numbers per channel.
  const Axes axes = facts_of(node.op).axes;
  const size_t images = axes == Axes::kOfAll ? node.inputs.size() : axes == Axes::kOfTwo ? 2 : 1;
  PatchStep step;
  for (int axis : {0, 1}) step.reach[size_t(axis)].in = int(y.dims[size_t(axis) + 1]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    step.cut.push_back(false);
    if (!has(node, i)) continue;
    const Value& x = graph.values[size_t(node.inputs[i])];
    if (i >= images && x.constant()) continue;
    step.cut[i] = is_image(x) && x.dims[1] == y.dims[1] && x.dims[2] == y.dims[2] && x.dims[0] == y.dims[0];
    if (!step.cut[i] && !is_of_no_pixel(x)) return std::nullopt;
  }
  return step;
}

bool is_slice_of_channels(const Graph& graph, const Node& node) {
  const Value& x = graph.values[size_t(node.inputs[0])];
  for (int axis = 0; axis + 1 < int(kRank); ++axis)
    if (get_integer(node, "begin", axis) != 0 || get_integer(node, "size", axis) != int(x.dims[size_t(axis)]) ||
        get_integer(node, "step", axis) != 1)
      return false;
  return true;
}

// Returns whether an op computes every pixel of its output from the same pixel of its inputs.
bool keeps_pixels(const Graph& graph, const Node& node) {
  constexpr int kChannels = int(kRank) - 1;
  switch (facts_of(node.op).pixels) {
    case Pixels::kEach: return true;
    case Pixels::kJoined: return get_integer(node, "axis") == kChannels;
    case Pixels::kSliced: return is_slice_of_channels(graph, node);
    case Pixels::kScaled:
      return graph.values[size_t(node.inputs[1])].elements() == 1 || get_integer(node, "axis") == kChannels;
    default: return false;
  }
}

}  // namespace

std::optional<Halo> halo_of(const Reach& reach, Span output) {
  const int first = output.first * reach.stride - reach.before;
  const int end = (output.end - 1) * reach.stride - reach.before + reach.span;
  const Halo halo = {.inside = {std::max(first, 0), std::min(end, reach.in)},
                     .before = std::max(-first, 0),
                     .after = std::max(end - reach.in, 0)};
  return halo.inside.size() < reach.least ? std::nullopt : std::optional(halo);
}

// A residual has the pixels of the output, so its part is the output's.
std::optional<Halo> halo_of(const PatchStep& step, size_t i, int axis, Span output) {
  return step.window && i > 0 ? Halo{output} : halo_of(step.reach[size_t(axis)], output);
}

std::optional<PatchStep> patch_step(const Graph& graph, const Node& node) {
  if (node.guard != kNone || node.outputs.size() != 1 || node.inputs.empty() || !has(node, 0)) return std::nullopt;
  const Value& y = graph.values[size_t(node.outputs[0])];
  const bool pixelwise = keeps_pixels(graph, node);
  if (!is_image(y) || (!pixelwise && !is_image(graph.values[size_t(node.inputs[0])]))) return std::nullopt;
  if (pixelwise) return pixels(graph, node);
  switch (facts_of(node.op).pixels) {
    case Pixels::kConvolution: return convolution(graph, node);
    case Pixels::kPool: return pool(graph, node);
    case Pixels::kPadded: return padding(graph, node);
    default: return std::nullopt;
  }
}

void set_pads(Node& node, const std::array<Halo, 2>& halo) {
  constexpr const char* kBefore[] = {"pad_top", "pad_left"};
  constexpr const char* kAfter[] = {"pad_bottom", "pad_right"};
  for (const int axis : {0, 1}) {
    const Halo& h = halo[size_t(axis)];
    if (node.op == Op::kPad) {
      set_integer(node, "before", h.before, axis + 1);
      set_integer(node, "after", h.after, axis + 1);
    } else {
      set_integer(node, kBefore[axis], h.before);
      set_integer(node, kAfter[axis], h.after);
    }
  }
}

}  // namespace nacre::tools
