// Tests that programs and steps that are too small to share run on the caller's thread (run/pass.h, ThreadPool).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "engine/nacre.h"
#include "ports/threads/threads.h"
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

// Spins for so many microseconds.
void work(int us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(thread_pool, a_number_below_0_is_refused) { EXPECT_THROW(ThreadPool(-3), ThreadsRefused); }

// A tile takes 1 us on the caller's thread and 10 us on another one, as where two cores share no cache.
TEST(threads_pay, not_in_small_steps_that_take_longer_on_two_threads) {
  ThreadPool pool(2, {.wake_after_us = 0, .most_rest_us = 0});
  struct Counted {
    std::atomic<int> elsewhere = 0;
    static void run(void* self, int, int worker) {
      work(worker == 0 ? 1 : 10);
      if (worker != 0) ++static_cast<Counted*>(self)->elsewhere;
    }
  } first, then;
  const auto run = [&](Counted& counted, int steps) {
    for (int i = 0; i < steps; ++i) pool.workers()->run(pool.workers()->context, &Counted::run, &counted, 2);
  };
  for (int i = 0; i < 40; ++i) run(first, 1000);  // the pool tries both
  run(then, 4000);
  EXPECT_LT(then.elsewhere, 1600) << first.elsewhere << " of the first 40000 steps were shared";
}

}  // namespace
}  // namespace nacre::test
