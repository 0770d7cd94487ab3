// Tests tree_ensemble on nodes written by hand: which branch a number takes, sums that decide at 1/2, and files that
// no converter writes. Claim op_table tests the values in between.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/reference.h"
#include "engine/ops/tree_ensemble.h"
#include "tests/one_step.h"
#include "tests/short_names.h"

namespace nacre::test {
namespace {

struct HandTrees {
  std::vector<int32_t> nodes, roots, leaves;
  std::vector<double> thresholds, weights;
  uint32_t targets = 1, aggregate = 0, depth = 0;  // 0: no limit

  Execution run(const std::vector<double>& x, const KernelEntry& entry = reference::kTreeEnsembleF32) const {
    const ElementType real = entry.operands[0].element, whole = ElementType::kInt32;
    const auto reals = [&](const std::vector<double>& values) {
      return array_of(real, {int32_t(values.size())}, values);
    };
    const auto integers = [&](const std::vector<int32_t>& values) {
      return array_of(whole, {int32_t(values.size())}, values);
    };
    Array node = integers(nodes);
    node.dims = {int32_t(nodes.size() / 3), 3};
    return execute(entry, {targets, depth != 0 ? depth : uint32_t(node.dims[0]), aggregate},
                   {reals(x), node, reals(thresholds), integers(roots), integers(leaves), reals(weights)});
  }
};

constexpr int32_t kLeft = -1, kRight = -2;  // leaves of one weight each

TEST(tree_ensemble, a_node_turns_left_where_its_bit_is_set) {
  const double found[] = {-1, 0.5, 2, kNan};
  for (int32_t turns = 0; turns < 16; ++turns)
    for (int way = 0; way < 4; ++way) {
      const HandTrees trees = {
          .nodes = {turns, kLeft, kRight}, .roots = {0}, .leaves = {1, 1}, .thresholds = {0.5}, .weights = {10, 20}};
      for (const KernelEntry* entry : {&reference::kTreeEnsembleF32, &reference::kTreeEnsembleF64}) {
        const Execution run = trees.run({found[way]}, *entry);
        ASSERT_EQ(run.code, Code::kOk);
        EXPECT_EQ(run.outputs[0].real(0), (turns >> way & 1) != 0 ? 10 : 20) << turns << ' ' << way;
      }
    }
}

// Half of a forest's trees say yes. A plain float32 sum of 50 times 0.01f would be above or below 1/2.
TEST(tree_ensemble, half_of_a_forest_is_a_half) {
  for (const int trees : {10, 30, 50, 70, 90, 100, 200, 1000}) {
    HandTrees forest = {.nodes = {0, kLeft, kLeft},
                        .roots = {},
                        .leaves = {1, 1},
                        .thresholds = {0},
                        .weights = {double(float(1.0 / trees)), 0}};
    for (int t = 0; t < trees; ++t) forest.roots.push_back(t % 2 == 0 ? kLeft : kRight);
    EXPECT_FLOAT_EQ(float(forest.run({0}).outputs[0].real(0)), 0.5f) << trees;
    EXPECT_LE(std::fabs(forest.run({0}).outputs[0].real(0) - 0.5), 0.5 * 0x1p-24) << trees;
  }
}

TEST(tree_ensemble, a_target_that_no_leaf_names_is_0) {
  for (const uint32_t aggregate : {0u, 1u, 2u}) {
    const HandTrees trees = {.nodes = {15, kLeft, kRight},
                             .roots = {0, kRight},
                             .leaves = {2 * 1 + 1, 2 * 1 + 1},
                             .thresholds = {0},
                             .weights = {3, 5},
                             .targets = 3,
                             .aggregate = aggregate};
    const Array y = trees.run({1}).outputs.at(0);
    EXPECT_EQ(y.real(0), 0);
    EXPECT_EQ(y.real(1), aggregate == 0 ? 8 : aggregate == 1 ? 3 : 5);
    EXPECT_EQ(y.real(2), 0);
  }
}

TEST(tree_ensemble, walks_that_never_end_or_leave_are_refused) {
  const HandTrees good = {.nodes = {15, 1, kRight, 15, kLeft, kRight},
                          .roots = {0},
                          .leaves = {1, 1},
                          .thresholds = {0, 0},
                          .weights = {3, 5}};
  ASSERT_EQ(good.run({1}).code, Code::kOk);
  const auto with = [&](auto change) {
    HandTrees changed = good;
    change(changed);
    return changed.run({1}).code;
  };
  constexpr int32_t kLowest = INT32_MIN, kHighest = INT32_MAX;
  for (const int32_t to : {0, 2, kHighest})
    EXPECT_EQ(with([to](HandTrees& t) { t.nodes[1] = to; }), Code::kIndex) << to;
  for (const int32_t to : {0, 1}) EXPECT_EQ(with([to](HandTrees& t) { t.nodes[4] = to; }), Code::kIndex) << to;
  for (const int32_t to : {-3, kLowest}) EXPECT_EQ(with([to](HandTrees& t) { t.nodes[4] = to; }), Code::kIndex) << to;
  for (const int32_t to : {2, kHighest, -3, kLowest})
    EXPECT_EQ(with([to](HandTrees& t) { t.roots[0] = to; }), Code::kIndex) << to;
  for (const int32_t feature : {16 + 15, kLowest + 15, -1})
    EXPECT_EQ(with([feature](HandTrees& t) { t.nodes[0] = feature; }), Code::kIndex) << feature;
  for (const int32_t target : {3, -1, kHighest})
    EXPECT_EQ(with([target](HandTrees& t) { t.leaves[0] = target; }), Code::kIndex) << target;
  EXPECT_EQ(with([](HandTrees& t) { t.depth = 1; }), Code::kIndex);
  EXPECT_EQ(with([](HandTrees& t) { t.depth = 2; }), Code::kOk);
  EXPECT_EQ(with([](HandTrees& t) { t.depth = 3; }), Code::kAttribute);
  EXPECT_EQ(with([](HandTrees& t) { t.targets = 0; }), Code::kAttribute);
  EXPECT_EQ(with([](HandTrees& t) { t.targets = 1u << 31; }), Code::kAttribute);
  EXPECT_EQ(with([](HandTrees& t) { t.aggregate = 3; }), Code::kAttribute);
}

// A leaf's run of weights ends with the list, or after one weight for each target.
TEST(tree_ensemble, leaves_end_where_they_do_not_say_so) {
  HandTrees trees = {
      .nodes = {15, kLeft, kLeft}, .roots = {0}, .leaves = {0, 0, 0}, .thresholds = {0}, .weights = {1, 2, 4}};
  EXPECT_EQ(trees.run({1}).outputs.at(0).real(0), 1);
  trees.targets = 2;
  EXPECT_EQ(trees.run({1}).outputs.at(0).real(0), 3);
  trees.nodes = {15, -3, kLeft};
  EXPECT_EQ(trees.run({1}).outputs.at(0).real(0), 4);
}

}  // namespace
}  // namespace nacre::test
