// Tests plan_memory: the bounds of known networks, steps in place, views, and refusals of verify_plan.
#include "tools/passes/memory/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/kernels/reference.h"
#include "tests/passes/plan_memory_graphs.h"
#include "tests/passes/random_graph.h"
#include "tests/sanitized.h"

namespace nacre::tools {
namespace {

using namespace plan_memory_graphs;

// Activation sizes of MLPerf Tiny's int8 networks. facts/engines.md 4.1 has the bounds.
TEST(plan_memory, reaches_the_bound_of_anomaly_detection) {
  const Graph graph = planned(chain({640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640}));
  EXPECT_EQ(graph.liveness_bound, 768u);
  EXPECT_EQ(used(graph), 768u);
}

TEST(plan_memory, reaches_the_bound_of_keyword_spotting) {
  const Graph graph = planned(chain({490, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 64, 12, 12}));
  EXPECT_EQ(graph.liveness_bound, 16000u);
  EXPECT_EQ(used(graph), 16000u);
}

TEST(plan_memory, reaches_the_bound_of_image_classification) {
  Graph graph;
  ValueId x = bytes_value(graph, 3072);
  graph.inputs = {{"x", x, ""}};
  x = node(graph, Op::kConv2d, {x}, 16384);
  for (const int64_t bytes : {16384, 8192, 4096}) {
    const ValueId a = node(graph, Op::kConv2d, {x}, bytes), b = node(graph, Op::kConv2d, {a}, bytes);
    if (bytes != 16384) x = node(graph, Op::kConv2d, {x}, bytes);
    x = node(graph, Op::kAdd, {x, b}, bytes);
  }
  x = node(graph, Op::kAveragePool, {x}, 64);
  x = node(graph, Op::kReshape, {x}, 64);
  x = node(graph, Op::kDense, {x}, 10);
  graph.outputs = {{"y", node(graph, Op::kSoftmax, {x}, 10), ""}};
  graph = planned(graph);
  EXPECT_EQ(graph.liveness_bound, 49152u);
  EXPECT_EQ(used(graph), 49152u);
}

TEST(plan_memory, reaches_the_bound_of_visual_wake_words) {
  const Graph graph = planned(
      chain({27648, 18432, 18432, 36864, 9216, 18432, 18432, 18432, 4608, 9216, 9216, 9216, 2304, 4608, 4608, 4608,
             4608,  4608,  4608,  4608,  4608, 4608,  4608,  4608,  1152, 2304, 2304, 2304, 256,  2,    2}));
  EXPECT_EQ(graph.liveness_bound, 55296u);
  EXPECT_EQ(used(graph), 55296u);
}

TEST(plan_memory, pointwise_steps_work_in_place) {
  Graph graph = chain({100, 1000});
  const ValueId y = node(graph, Op::kClamp, {1}, 1000), z = node(graph, Op::kClamp, {y}, 1000);
  graph.outputs = {{"z", z, ""}};
  graph = planned(graph);
  EXPECT_EQ(used(graph), aligned(1000) + 100);
  EXPECT_EQ(graph.values[size_t(z)].offset, graph.values[1].offset);
}

// A port whose clamp does not work in place comes before the reference, whose clamp does. bind would choose the
// port's.
TEST(plan_memory, what_works_in_place_is_asked_of_the_kernels_that_bind_will_have) {
  KernelEntry clamp = reference::kClampI8Double;
  clamp.in_place = 0;
  const KernelEntry* const entries[] = {&clamp};
  const KernelSet port = {"port", entries};
  Graph graph;
  bytes_value(graph, 100);
  graph.inputs = {{"x", 0, ""}};
  graph.outputs = {{"y", node(graph, Op::kClamp, {0}, 100), ""}};
  EXPECT_EQ(in_place_inputs(graph, graph.nodes[0]), 1u);
  EXPECT_EQ(used(planned(graph)), 100u);
  const Target target = {.name = "port", .banks = {}, .kernels = {&port, &reference::kernels()}};
  Graph apart = graph;
  schedule(apart, target);
  plan_memory(apart, target);
  verify_plan(apart, target.kernels);
  EXPECT_EQ(used(apart), 212u) << "100, rounded up, and 100";
  EXPECT_NE(refusal([&] { verify_plan(planned(graph), target.kernels); }), "accepted");
}

TEST(plan_memory, a_value_that_is_read_later_is_not_overwritten) {
  Graph graph = chain({100, 1000});
  const ValueId y = node(graph, Op::kClamp, {1}, 1000);
  const ValueId requant = graph.constant("requant", {3, 2}, std::vector<int32_t>(6));
  graph.outputs = {{"z", node(graph, Op::kAdd, {y, 1, requant}, 1000), ""}};
  EXPECT_EQ(used(planned(graph)), aligned(1000) + 1000);  // 1, then y beside it, then z over either
}

TEST(plan_memory, outputs_are_not_overwritten) {
  Graph graph = chain({1000, 1000});
  graph.outputs.push_back({"z", node(graph, Op::kClamp, {1}, 1000), ""});
  EXPECT_EQ(used(planned(graph)), aligned(1000) + 1000);  // y's step has the input beside it, z takes the input's place
}

TEST(plan_memory, kept_inputs_are_not_overwritten) {
  Graph graph;
  const ValueId x = bytes_value(graph, 1000);
  graph.inputs = {{"x", x, ""}};
  graph.outputs = {{"y", node(graph, Op::kClamp, {x}, 1000), ""}};
  EXPECT_EQ(used(planned(graph)), 1000u);
  graph = planned(graph, {.name = "host", .banks = {}, .keep_inputs = true});
  EXPECT_EQ(used(graph), aligned(1000) + 1000);
  EXPECT_EQ(graph.values[0].last_step, 0u);
}

TEST(plan_memory, a_chain_of_reshapes_and_copies_is_one_alias_and_no_step) {
  Graph graph = chain({64, 128});
  const ValueId a = node(graph, Op::kReshape, {1}, 128), b = node(graph, Op::kCopy, {a}, 128);
  graph.outputs = {{"y", node(graph, Op::kDense, {b}, 32), ""}};
  graph = planned(graph);
  EXPECT_EQ(graph.nodes.size(), 2u);
  for (const ValueId v : {a, b}) {
    EXPECT_EQ(graph.values[size_t(v)].alias_of, 1);
    EXPECT_EQ(graph.values[size_t(v)].offset, 0u);
  }
  EXPECT_EQ(used(graph), 192u);
}

TEST(plan_memory, a_slice_of_contiguous_bytes_is_an_alias_at_its_offset) {
  Graph graph;
  const ValueId x = bytes_value(graph, 24);
  graph.values[size_t(x)].dims = {2, 3, 4};
  graph.inputs = {{"x", x, ""}};
  const ValueId y = node(graph, Op::kDense, {x}, 24);
  graph.values[size_t(y)].dims = {2, 3, 4};
  const ValueId z = node(graph, Op::kSlice, {y}, 8);
  graph.values[size_t(z)].dims = {1, 2, 4};
  Node& slice = graph.nodes.back();
  for (int axis = 0; axis < kMaxRank; ++axis) set_integer(slice, "step", 1, axis);
  set_integer(slice, "begin", 1, 0);
  set_integer(slice, "begin", 1, 1);
  graph.outputs = {{"z", z, ""}};
  const Graph run = planned(graph);
  EXPECT_EQ(run.nodes.size(), 1u);
  EXPECT_EQ(run.values[size_t(z)].alias_of, y);
  EXPECT_EQ(run.values[size_t(z)].offset, 16u);

  graph.values[size_t(z)].dims = {2, 1, 4};  // two runs
  EXPECT_EQ(planned(graph).nodes.size(), 2u);
  graph.values[size_t(z)].dims = {1, 2, 4};
  set_integer(graph.nodes.back(), "step", -1, 1);  // backwards
  EXPECT_EQ(planned(graph).nodes.size(), 2u);
}

TEST(plan_memory, parts_of_a_concat_are_written_where_they_belong) {
  Graph graph = chain({64});
  const ValueId a = node(graph, Op::kDense, {0}, 20), b = node(graph, Op::kDense, {0}, 30);
  const ValueId inner = node(graph, Op::kConcat, {a, b}, 50), c = node(graph, Op::kDense, {0}, 10);
  const ValueId reshaped = node(graph, Op::kReshape, {inner}, 50);
  const ValueId y = node(graph, Op::kConcat, {c, reshaped}, 60);
  for (Node& n : graph.nodes)
    if (n.op == Op::kConcat) set_integer(n, "axis", 1);
  graph.outputs = {{"y", y, ""}};
  graph = planned(graph);
  EXPECT_EQ(graph.nodes.size(), 3u);
  const auto offset = [&](ValueId v) {
    EXPECT_EQ(graph.values[size_t(v)].alias_of, y);
    return graph.values[size_t(v)].offset;
  };
  EXPECT_EQ(offset(c), 0u);
  EXPECT_EQ(offset(a), 10u);
  EXPECT_EQ(offset(b), 30u);
  EXPECT_EQ(offset(inner), 10u);
  EXPECT_EQ(graph.values[size_t(inner)].first_step, 1u);  // complete when b is
  EXPECT_EQ(used(graph), 64u + 60u);
}

TEST(plan_memory, check_holds_for_a_planned_graph_with_views) {
  Graph graph = parse(R"(graph "g" batch=1
value %x float32 [1, 4]
value %a float32 [1, 4]
value %b float32 [1, 4]
value %c float32 [1, 8]
value %r float32 [2, 4]
value %y float32 [2, 4]
value %s float32 [1, 2]
input "x" %x
output "y" %y
output "s" %s
%a = sigmoid(%x) name="a"
%b = tanh(%x) name="b"
%c = concat(%a, %b) axis=1 name="c"
%r = reshape(%c) rank=2 dims=[2, 4] name="r"
%y = sigmoid(%r) name="y"
%s = slice(%c) begin=[0, 6] size=[1, 2] name="s"
)");
  check(graph);
  schedule(graph, {});
  check(graph);
  plan_memory(graph, {});
  check(graph);
  verify_plan(graph);
  EXPECT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(used(graph), 64u);  // c and y; the input lies where y will
  const ValueId first = graph.nodes[0].outputs[0];
  std::swap(graph.nodes[1], graph.nodes[2]);  // y reads r before all parts of c are written
  EXPECT_NE(refusal([&] { check(graph); }), "accepted");
  EXPECT_NE(refusal([&] { verify_plan(graph); }), "accepted");
  EXPECT_EQ(graph.values[size_t(first)].first_step, 0u);
}

TEST(plan_memory, a_concat_that_cannot_be_parts_stays_a_step) {
  const auto steps = [](auto inputs_of) {
    Graph graph = chain({64, 20});
    const std::vector<ValueId> inputs = inputs_of(graph);
    int64_t bytes = 0;
    for (const ValueId v : inputs) bytes += graph.values[size_t(v)].elements();
    const ValueId y = node(graph, Op::kConcat, inputs, bytes);
    set_integer(graph.nodes.back(), "axis", 1);
    graph.outputs = {{"y", y, ""}};
    return planned(graph).nodes.size();
  };
  EXPECT_EQ(steps([](Graph&) { return std::vector<ValueId>{1, 1}; }), 2u);  // a part twice
  EXPECT_EQ(steps([](Graph&) { return std::vector<ValueId>{0, 1}; }), 2u);  // an input of the graph
  EXPECT_EQ(steps([](Graph& g) { return std::vector<ValueId>{1, g.constant("c", {1, 4}, std::vector<int8_t>(4))}; }),
            2u);
  EXPECT_EQ(steps([](Graph& g) { return std::vector<ValueId>{1, node(g, Op::kDense, {1}, 4)}; }), 2u);  // free: 2 dense
}

TEST(plan_memory, parts_below_an_outer_axis_stay_a_step) {
  Graph graph = chain({64, 20});
  const ValueId b = node(graph, Op::kDense, {1}, 30), y = node(graph, Op::kConcat, {1, b}, 50);
  graph.values[1].dims = {2, 10};
  graph.values[size_t(b)].dims = {2, 15};
  graph.values[size_t(y)].dims = {2, 25};
  set_integer(graph.nodes.back(), "axis", 1);
  graph.outputs = {{"y", y, ""}};
  EXPECT_EQ(planned(graph).nodes.size(), 3u);
}

TEST(plan_memory, outputs_that_are_inputs_or_constants_are_copied) {
  Graph graph;
  const ValueId x = bytes_value(graph, 40);
  const ValueId c = graph.constant("c", {1, 4}, std::vector<int8_t>{1, 2, 3, 4});
  graph.inputs = {{"x", x, ""}};
  const ValueId r = node(graph, Op::kReshape, {x}, 40);
  graph.outputs = {{"same", x, ""}, {"c", c, ""}, {"r", r, ""}};
  graph = planned(graph);
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[0].op, Op::kReshape);  // a view of an input that is an output is a step
  for (const Binding& b : graph.outputs) EXPECT_EQ(graph.values[size_t(b.value)].alias_of, kNone) << b.name;
  EXPECT_NE(graph.outputs[0].value, x);
  EXPECT_NE(graph.outputs[1].value, c);
  EXPECT_EQ(planned(graph).nodes.size(), 3u);  // planning again changes nothing
}

TEST(plan_memory, random_graphs_have_valid_plans_and_stay_the_same) {
  const auto graphs = uint32_t(nacre::test::generated(200));  // 974 of 1000 reach the bound; mean 1.0001, worst 1.023
  double gap_sum = 0, gap_most = 1;
  int at_bound = 0;
  for (uint32_t seed = 0; seed < graphs; ++seed) {
    const Graph source = random_graph({.nodes = 5 + int(seed % 60)}, seed);
    const Graph graph = planned(source);
    ASSERT_GE(used(graph), graph.liveness_bound) << "seed " << seed;
    const double gap = double(used(graph)) / double(graph.liveness_bound);
    gap_sum += gap;
    gap_most = std::max(gap_most, gap);
    at_bound += used(graph) == graph.liveness_bound ? 1 : 0;
    if (seed % 50 != 0) continue;
    const Graph again = planned(source);
    for (size_t v = 0; v < graph.values.size(); ++v) ASSERT_EQ(graph.values[v].offset, again.values[v].offset);
  }
  std::printf("%u random graphs: %d at the liveness bound, used / bound: mean %.5f, most %.4f\n", graphs, at_bound,
              gap_sum / graphs, gap_most);
  EXPECT_GE(at_bound, int(graphs) * 9 / 10);
}

TEST(verify_plan, refuses_what_is_wrong) {
  const Graph good = planned(chain({640, 128, 128, 8}));
  const auto broken = [&](auto change) {
    Graph graph = good;
    change(graph);
    return refusal([&] { verify_plan(graph); });
  };
  EXPECT_EQ(broken([](Graph&) {}), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[1].offset = g.values[0].offset; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[1].offset += 8; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[1].offset += 1024; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[1].last_step = 0; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[2].first_step = 2; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[3].last_step = 1; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[1].bank = 1; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.banks[0].limit = 1; }), "accepted");
  EXPECT_NE(broken([](Graph& g) { g.values[2].alias_of = 1, g.values[2].offset = 16; }), "accepted");
}

}  // namespace
}  // namespace nacre::tools
