// Tests which steps the CUDA port runs in one launch. However it groups and reorders steps, memory must hold the
// results of the original order.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ports/cuda/step_groups.h"

namespace nacre::test {
namespace {

using cuda::groups_of;
using LaunchStep = cuda::GroupedStep;

std::byte cells_of_steps[64];

LaunchStep launch_step(uint32_t kernel, std::vector<int> reads, std::vector<int> writes, bool joins = true) {
  LaunchStep made = {kernel, joins, {}};
  for (const int at : reads) made.touched.push_back({cells_of_steps + at, cells_of_steps + at + 1, false});
  for (const int at : writes) made.touched.push_back({cells_of_steps + at, cells_of_steps + at + 1, true});
  return made;
}

using Launches = std::vector<std::vector<size_t>>;

TEST(cuda_launches, steps_of_one_kernel_that_do_not_meet_are_one_launch) {
  const std::vector<LaunchStep> steps = {launch_step(1, {0}, {1}), launch_step(2, {2}, {3}), launch_step(1, {4}, {5}),
                                         launch_step(1, {0}, {6}), launch_step(2, {7}, {8})};
  EXPECT_EQ(groups_of(steps), (Launches{{0, 2, 3}, {1, 4}}));
}

TEST(cuda_launches, a_step_does_not_pass_what_it_meets) {
  // A step cannot join an earlier launch if a step in between writes its input, reads or writes its output, or if the
  // launch writes its input.
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}), launch_step(2, {0}, {4}), launch_step(1, {4}, {5})}),
            (Launches{{0}, {1}, {2}}));
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}), launch_step(2, {5}, {4}), launch_step(1, {3}, {5})}),
            (Launches{{0}, {1}, {2}}));
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}), launch_step(2, {0}, {5}), launch_step(1, {3}, {5})}),
            (Launches{{0}, {1}, {2}}));
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}), launch_step(1, {1}, {2})}), (Launches{{0}, {1}}));
  // Both steps read the same input.
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}), launch_step(2, {0}, {5}), launch_step(1, {0}, {6})}),
            (Launches{{0, 2}, {1}}));
  // The kernel has no form for several steps.
  EXPECT_EQ(groups_of(std::vector{launch_step(1, {0}, {1}, false), launch_step(1, {2}, {3}, false)}),
            (Launches{{0}, {1}}));
}

// Each step writes a function of all its inputs and of its number.
void run_launch_step(const std::vector<LaunchStep>& steps, size_t i, std::vector<uint32_t>* cells) {
  uint32_t value = uint32_t(i) * 2654435761u + 1;
  for (const cuda::Touched& t : steps[i].touched)
    if (!t.writes) value = value * 31 + (*cells)[size_t(t.first - cells_of_steps)];
  for (const cuda::Touched& t : steps[i].touched)
    if (t.writes) (*cells)[size_t(t.first - cells_of_steps)] = value;
}

TEST(cuda_launches, random_steps_make_what_they_make_in_their_order) {
  std::mt19937 random(12);
  size_t joined = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<LaunchStep> steps;
    for (int i = 0; i < 40; ++i) {
      std::vector<int> reads, writes;
      for (auto k = random() % 3; k > 0; --k) reads.push_back(int(random() % 64));
      for (auto k = 1 + random() % 2; k > 0; --k) writes.push_back(int(random() % 64));
      steps.push_back(launch_step(uint32_t(random() % 3), reads, writes, random() % 8 != 0));
    }
    std::vector<uint32_t> in_order(64, 7), grouped = in_order;
    for (size_t i = 0; i < steps.size(); ++i) run_launch_step(steps, i, &in_order);
    size_t count = 0;
    for (const std::vector<size_t>& group : groups_of(steps)) {
      joined += group.size() - 1, count += group.size();
      // The steps of a launch run in any order, here backwards.
      for (size_t k = group.size(); k-- > 0;) run_launch_step(steps, group[k], &grouped);
    }
    EXPECT_EQ(count, steps.size());
    EXPECT_EQ(grouped, in_order);
  }
  EXPECT_GT(joined, 1000u);
}

}  // namespace
}  // namespace nacre::test
