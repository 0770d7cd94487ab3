// Tests that programs whose steps are too small to share run on the caller's thread (run/pass.h).
#include <gtest/gtest.h>

#include "engine/nacre.h"
#include "ports/vector/tiers.h"
#include "tests/model/network_runs.h"

namespace nacre::test {
namespace {

// Workers that count the shared steps.
struct CountedSteps {
  int steps = 0;
  Workers workers;

  explicit CountedSteps(uint64_t least_work) : workers{this, 2, &CountedSteps::run, least_work} {}
  static void run(void* self, void (*task)(void*, int, int), void* context, int tiles) {
    ++static_cast<CountedSteps*>(self)->steps;
    for (int tile = 0; tile < tiles; ++tile) task(context, tile, 0);
  }
};

TEST(threads_pay, in_a_program_of_enough_work_alone) {
  const KernelSet* fast = nullptr;
  each_vector_tier([&](const VectorTier& tier) {
    if (tier.runs_here && !tier.by_name) fast = tier.port->set;
  });
  if (fast == nullptr) GTEST_SKIP() << "this build has no fast kernels for this machine";
  const KernelSet* const sets[] = {fast, &reference::kernels()};
  const Buffer file = pack(float_chain());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Sizes sizes;
  ASSERT_TRUE(Program::measure(model, 0, sets, &sizes, {.workers = 2}).ok());
  const auto shared_steps = [&](uint64_t least_work) {
    CountedSteps counted(least_work);
    Blocks blocks(sizes);
    Program program;
    EXPECT_TRUE(program.bind(model, 0, sets, blocks.memory, &counted.workers).ok());
    EXPECT_TRUE(program.run().ok());
    return counted.steps;
  };
  EXPECT_GT(shared_steps(sizes.work / 32), 0);  // the program has the work of 32 shared steps
  EXPECT_EQ(shared_steps(sizes.work / 8 + 1), 0);
}

}  // namespace
}  // namespace nacre::test
