// Tests cut_patches: the input ranges of patches against a count of the windows' reads, results that keep their
// bytes, and the choice of layers.
#include "tools/passes/patches/patches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "tests/graph/run_graph.h"
#include "tests/passes/growing_network.h"
#include "tests/refused_with.h"
#include "tools/calibration/quantize_static.h"
#include "tools/passes/memory/plan_memory.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// A network on an image: convolutions, pools and pads with any window, steps that may stand between them, and a head.
class StagedNetwork : GrowingNetwork {
 public:
  explicit StagedNetwork(uint32_t seed) : GrowingNetwork(seed) {}

  Graph make(int stages) {
    graph_.batch = 1 + below(4) / 3;
    last_ = value();
    graph_.values[size_t(last_)].dims = {graph_.batch, 14 + below(9), 14 + below(9), 1 + below(4)};
    graph_.values[size_t(last_)].batched = true;
    graph_.inputs.push_back({"x", last_, ""});
    for (int i = 0; i < stages; ++i) stage();
    add(Op::kMean, {last_}, [](Node& node) { set_integer(node, "axes", 6); });
    add(Op::kDense, {last_, constant({3, dims().back()})});
    graph_.outputs.push_back({"y", last_, ""});
    return std::move(graph_);
  }

 private:
  struct Axis {
    int kernel, dilation, stride, before, after;
  };
  // Returns a random window over `size` positions with at least one output.
  Axis axis(int64_t size) {
    Axis a = {1 + below(4), 1 + below(2), 1 + below(3), 0, 0};
    if (size < 8) a.stride = 1;
    const int span = (a.kernel - 1) * a.dilation + 1;
    if (span > size) a = {1, 1, 1, 0, 0};
    else a.before = below(span), a.after = below(span);
    return a;
  }
  static void set_window(Node& node, const Axis& h, const Axis& w) {
    set_integer(node, "stride_h", h.stride), set_integer(node, "stride_w", w.stride);
    set_integer(node, "dilation_h", h.dilation), set_integer(node, "dilation_w", w.dilation);
    set_integer(node, "pad_top", h.before), set_integer(node, "pad_bottom", h.after);
    set_integer(node, "pad_left", w.before), set_integer(node, "pad_right", w.after);
  }
  void convolve(int64_t out, const Axis& h, const Axis& w, bool depthwise) {
    const int64_t in = dims().back();
    const ValueId weights = depthwise ? constant({h.kernel, w.kernel, out}) : constant({out, h.kernel, w.kernel, in});
    std::vector<ValueId> inputs = {last_, weights};
    if (below(3) > 0) inputs.push_back(constant({out}));
    add(depthwise ? Op::kDepthwiseConv2d : Op::kConv2d, inputs, [&](Node& node) { set_window(node, h, w); });
  }
  void pool(const Axis& h, const Axis& w) {
    const bool most = below(2) == 0;
    add(most ? Op::kMaxPool : Op::kAveragePool, {last_}, [&](Node& node) {
      set_window(node, h, w);
      set_integer(node, "kernel_h", h.kernel), set_integer(node, "kernel_w", w.kernel);
    });
  }
  void stage() {
    const int64_t channels = dims().back();
    const Axis h = axis(dims()[1]), w = axis(dims()[2]);
    switch (below(9)) {
      case 0: return pool(h, w);
      case 1:
        return add(Op::kPad, {last_}, [&](Node& node) {
          for (const int a : {1, 2}) set_integer(node, "before", below(3), a), set_integer(node, "after", below(3), a);
        });
      case 2: return convolve(channels, h, w, true);
      case 3: {  // a residual block
        const ValueId x = last_;
        convolve(channels, {3, 1, 1, 1, 1}, {5, 1, 1, 2, 2}, below(2) == 0);
        if (below(2) == 0) add(Op::kSigmoid, {last_});
        return add(Op::kAdd, {x, last_}, [&](Node& node) {
          if (below(2) == 0) set_integer(node, "clamp", 1), set_real(node, "high", 6);
        });
      }
      case 4: {  // two branches, joined
        const ValueId x = last_;
        convolve(2, {3, 2, 1, 2, 2}, {1, 1, 1, 0, 0}, false);
        const ValueId a = last_;
        last_ = x;
        convolve(1, {1, 1, 1, 0, 0}, {3, 1, 1, 1, 1}, false);
        return add(Op::kConcat, {a, last_, x}, [](Node& node) { set_integer(node, "axis", 3); });
      }
      case 5:
        return add(Op::kClamp, {last_}, [](Node& node) {
          set_integer(node, "clamp", 1), set_real(node, "high", std::numeric_limits<float>::infinity());
        });
      case 6: return add(Op::kMul, {last_, constant({channels})});
      default: return convolve(1 + below(4), h, w, false);
    }
  }
};

Graph in_policy(Graph graph, const std::string& policy) {
  Calibration ranges;
  for (const Value& v : graph.values)
    if (!v.constant()) ranges.ranges[v.name] = {.range = {-3, 5}, .method = RangeMethod::kMinMax, .amaxes = {5}};
  resolve_policies(graph, parse_policy_options({.policy = policy}));
  quantize_static(graph, &ranges);
  apply_policy(graph);
  fuse(graph);
  check(graph);
  return graph;
}

// Counts one by one the input positions that outputs [a, b) of a step read. For a pad, those that it copies.
Span counted_span(const Node& node, int axis, int in, int taps, Span output) {
  const std::string name = axis == 0 ? "h" : "w";
  const bool pad = node.op == Op::kPad;
  const int stride = pad ? 1 : get_integer(node, ("stride_" + name).c_str()),
            dilation = pad ? 1 : get_integer(node, ("dilation_" + name).c_str()),
            before =
                pad ? get_integer(node, "before", axis + 1) : get_integer(node, axis == 0 ? "pad_top" : "pad_left");
  Span read = {in, 0};
  for (int o = output.first; o < output.end; ++o)
    for (int tap = 0; tap <= (taps - 1) * dilation; ++tap) {  // holes of a dilated window too: they belong to the patch
      const int position = o * stride - before + tap;
      if (position >= 0 && position < in) read = {std::min(read.first, position), std::max(read.end, position + 1)};
    }
  return read;
}

TEST(patches, spans_are_what_windows_read) {
  int steps = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = in_policy(StagedNetwork(seed).make(6), "float32");
    for (const PatchRegion& region : patch_regions(graph))
      for (const int axis : {0, 1}) {
        const int size = int(graph.values[size_t(region.out)].dims[size_t(axis) + 1]);
        const std::optional<Spans> spans = spans_for(region, graph, axis, part_of(size, std::min(size, 3), 1 % size));
        if (!spans) continue;
        std::map<ValueId, Span> hulls;
        for (const size_t n : region.nodes) {
          const Node& node = graph.nodes[n];
          const Span output = spans->at(node.outputs[0]);
          const bool windows = node.op == Op::kConv2d || node.op == Op::kDepthwiseConv2d || node.op == Op::kMaxPool ||
                               node.op == Op::kAveragePool || node.op == Op::kPad;
          int taps = 1;
          if (node.op == Op::kMaxPool || node.op == Op::kAveragePool)
            taps = get_integer(node, axis == 0 ? "kernel_h" : "kernel_w");
          else if (windows && node.op != Op::kPad)
            taps = int(graph.values[size_t(node.inputs[1])].dims[size_t(axis) + (node.op == Op::kConv2d ? 1 : 0)]);
          for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId x = node.inputs[i];
            if (x == kNone || graph.values[size_t(x)].constant()) continue;
            const int in = int(graph.values[size_t(x)].dims[size_t(axis) + 1]);
            const Span read = windows && i == 0 ? counted_span(node, axis, in, taps, output) : output;
            const auto [found, first] = hulls.try_emplace(x, read);
            Span& hull = found->second;
            hull = {std::min(hull.first, read.first), std::max(hull.end, read.end)};
            ++steps;
          }
        }
        for (const auto& [x, hull] : hulls) EXPECT_EQ(spans->at(x), hull) << graph.values[size_t(x)].name;
      }
  }
  EXPECT_GT(steps, 1000);
}

std::vector<std::vector<uint8_t>> outputs_of(const Graph& graph, const std::vector<std::vector<uint8_t>>& inputs) {
  const Graph run = run_graph(graph, inputs);
  std::vector<std::vector<uint8_t>> outputs;
  for (const Binding& b : run.outputs) outputs.push_back(*run.values[size_t(b.value)].data);
  return outputs;
}

TEST(patches, results_are_what_they_are_to_the_byte) {
  int cut = 0;
  for (const char* policy : {"float32", "int8/static_from_float32", "float16"})
    for (uint32_t seed = 100; seed < 130; ++seed) {
      SCOPED_TRACE(std::string(policy) + ", seed " + std::to_string(seed));
      const Graph graph = in_policy(StagedNetwork(seed).make(5), policy);
      std::mt19937 rng(seed);
      const std::vector<std::vector<uint8_t>> inputs = random_inputs(graph, rng);
      const std::vector<std::vector<uint8_t>> expected = outputs_of(graph, inputs);
      const std::vector<PatchRegion> regions = patch_regions(graph);
      for (const PatchGrid grid : {PatchGrid{3, 1}, {1, 2}, {2, 3}}) {
        if (regions.empty()) break;
        const PatchRegion& region = regions[rng() % regions.size()];
        const std::optional<PatchSpans> spans = patch_spans(region, graph, grid);
        if (!spans) continue;
        Graph made = graph;
        cut_region(made, region, *spans);
        check(made);
        EXPECT_EQ(int64_t(macs_of(made)), int64_t(macs_of(graph)) + extra_macs(region, graph, *spans));
        EXPECT_EQ(outputs_of(made, inputs), expected) << grid.rows << " x " << grid.columns;
        if (seed % 30 == 10) schedule(made, {});
        plan_memory(made, {});
        verify_plan(made);
        ++cut;
      }
    }
  EXPECT_GT(cut, 60);
}

constexpr const char* kTwoLayers = R"(graph "t" batch=1
layer "first" source="CONV_2D"
layer "second" source="CONV_2D"
layer "mean" source="MEAN"
value %x float32 [1, 8, 8, 1] batched
value %a float32 [1, 8, 8, 4] batched
value %b float32 [1, 4, 4, 1] batched
value %y float32 [1, 1] batched
value %w float32 [4, 1, 1, 1] region=weights data=float32 {1, 2, 3, 4}
value %v float32 [1, 2, 2, 4] region=weights data=float32 {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
input "x" %x
output "y" %y
%a = conv2d(%x, %w) name="first" layer="first"
%b = conv2d(%a, %v) stride_h=2 stride_w=2 name="second" layer="second"
%y = mean(%b) axes=6 name="mean" layer="mean"
)";

// Without patches x and a take 256 + 1,024 bytes. With patches x takes 256, b 64, and the 2 rows of a for a row of b
// 256.
TEST(patches, the_fewest_bytes_are_chosen) {
  Graph graph = parse(kTwoLayers);
  cut_patches(graph, parse_patches("auto"), {});
  check(graph);
  ASSERT_TRUE(graph.patches);
  EXPECT_EQ(graph.patches->layer, "second");
  EXPECT_EQ(graph.patches->layers, 2);
  EXPECT_EQ(graph.patches->arena_before, 1280u);
  EXPECT_EQ(graph.patches->layer_bound, 1280u);
  EXPECT_EQ(graph.patches->extra_macs, 0);
  EXPECT_EQ(graph.patches->macs, 64u * 4 + 16 * 16);
  EXPECT_EQ(graph.patches->rows, 4);
  EXPECT_EQ(graph.patches->columns, 1);
  plan_memory(graph, {});
  EXPECT_EQ(graph.banks[0].used, 256u + 64 + 256);
  for (const Node& node : graph.nodes) EXPECT_TRUE(node.op != Op::kSlice && node.op != Op::kConcat) << "both are views";
}

TEST(patches, are_as_asked_for) {
  Graph graph = parse(kTwoLayers);
  cut_patches(graph, parse_patches("2x3@second"), {});
  EXPECT_EQ(graph.patches->rows, 2);
  EXPECT_EQ(graph.patches->columns, 3);
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::kConv2d, &Node::op), 12);
  for (const Node& node : graph.nodes) EXPECT_NE(node.layer, kNone);
  EXPECT_EQ(parse_patches("auto@a@b").layer, "a@b");
  EXPECT_EQ(parse_patches("3").grid, (PatchGrid{3, 3}));
}

TEST(patches, what_cannot_be_is_refused) {
  for (const char* text :
       {"", "0", "1", "24", "24x24", "3x", "x3", "3x2x2", "auto@", "3 x 2", "2@", "-2", "99999999999", "1x1"})
    EXPECT_NE(refused_with([&] { parse_patches(text); }, kUsage).find("is no grid of patches"), std::string::npos);
  Graph graph = parse(kTwoLayers);
  const auto says = [&](const char* text, const char* fact) {
    const std::string said = refused_with([&] { cut_patches(graph, parse_patches(text), {}); }, kUsage);
    EXPECT_NE(said.find(fact), std::string::npos) << said;
  };
  says("2@third", "no layer is called third");
  says("2@mean", "mean cannot be the last layer of patches");
  says("5@second", "5 x 5 patches cannot be cut here");
}

TEST(patches, none_are_cut_where_none_take_fewer_bytes) {
  Graph graph = parse(kTwoLayers);
  graph.outputs.push_back({"a", graph.nodes[0].outputs[0], ""});
  const Graph before = graph;
  cut_patches(graph, parse_patches("auto"), {});
  graph.log.clear();
  EXPECT_EQ(dump(graph), dump(before));
  EXPECT_EQ(graph.patches->rows, 0);
}

}  // namespace
}  // namespace nacre::tools
