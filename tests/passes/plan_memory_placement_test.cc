// Tests the offsets that plan_memory chooses, against all placements of a few blocks and against first fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/passes/plan_memory_graphs.h"
#include "tests/passes/random_graph.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

using namespace plan_memory_graphs;

// Tries all offsets on a grid of 16 bytes. Returns whether a placement within `limit` bytes exists; `offsets` gets it.
bool exists(const std::vector<Storage>& held, std::vector<uint64_t>& offsets, uint64_t limit) {
  const size_t i = offsets.size();
  if (i == held.size()) return true;
  for (uint64_t at = 0; at + held[i].block.bytes <= limit; at += kAlignment) {
    bool free = true;
    for (size_t j = 0; j < i && free; ++j) {
      const auto takes = [&](size_t y, size_t x) {
        const auto& over = held[y].takes_over;
        return at == offsets[j] && std::find(over.begin(), over.end(), uint32_t(x)) != over.end();
      };
      const bool shares = at < offsets[j] + held[j].block.bytes && offsets[j] < at + held[i].block.bytes;
      free = !(shares && held[i].block.meets(held[j].block)) || takes(i, j) || takes(j, i);
    }
    if (!free) continue;
    offsets.push_back(at);
    if (exists(held, offsets, limit)) return true;
    offsets.pop_back();
  }
  return false;
}

TEST(plan_memory, plans_of_up_to_six_tensors_are_optimal) {
  int above_bound = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Graph graph = random_graph(
        {.nodes = 3 + int(seed % 3), .largest = 90, .granule = seed % 2 == 0 ? 16 : 1, .views = 0.1}, seed);
    make_views(graph);
    std::vector<uint32_t> order(graph.nodes.size());
    std::iota(order.begin(), order.end(), 0u);
    const std::vector<Storage> held = storages(graph, order, false);
    if (held.size() > 6) continue;
    graph = planned(graph);
    if (used(graph) == graph.liveness_bound) continue;
    ++above_bound;
    std::vector<uint64_t> offsets;
    ASSERT_FALSE(exists(held, offsets, used(graph) - 1)) << "seed " << seed;
  }
  EXPECT_GT(above_bound, 0);
}

TEST(placement, blocks_that_need_more_than_the_bound_are_placed_optimally) {
  std::mt19937 random(7);
  int above = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Storage> held(6);
    std::vector<Block> blocks;
    for (Storage& s : held) {
      const auto first = uint32_t(random() % 6);
      s.block = {1 + random() % 60, first, first + uint32_t(random() % 4)};
      blocks.push_back(s.block);
    }
    const Placement placement = place(blocks, 10'000'000);
    ASSERT_GE(placement.used, liveness_bound(blocks));
    if (placement.used == liveness_bound(blocks)) continue;
    ++above;
    std::vector<uint64_t> offsets;
    ASSERT_FALSE(exists(held, offsets, placement.used - 1)) << "round " << round;
  }
  EXPECT_GT(above, 0);
}

TEST(placement, sweep_is_first_fit_in_the_order_of_first_steps) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks;
    for (int i = 0; i < 100; ++i) {
      const auto first = uint32_t(random() % 90);
      blocks.push_back({random() % 500, first, first + uint32_t(random() % 12)});
    }
    std::vector<uint32_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return blocks[a].first < blocks[b].first; });
    ASSERT_EQ(sweep(blocks, false).offsets, first_fit(blocks, order).offsets) << "round " << round;
  }
}

}  // namespace
}  // namespace nacre::tools
