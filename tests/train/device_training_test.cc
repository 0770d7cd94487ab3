// Tests training on a device that keeps its memory. Data already there is not copied again, the state comes back only
// when it is asked for, and Trainer::state() is never older than the last step.
#include <gtest/gtest.h>

#include "tests/train/trained_on_device.h"

namespace nacre::test {
namespace {

TEST(device_training, what_the_device_has_is_not_copied_to_it_again) {
  uint64_t bytes[2] = {}, memory[2] = {};
  for (const bool keeps : {false, true}) {
    Training host;
    TrainedOnDevice gpu(keeps);
    memory[keeps] = gpu.device_bytes;
    std::mt19937 random(1);
    uint64_t last = 0;
    for (int i = 0; i < 4; ++i) {
      const Batch batch = random_batch(random);
      host.step(batch);
      const uint64_t before = gpu.driver.bytes_in();
      ASSERT_TRUE(gpu.step(batch).ok()) << gpu.device.sentence();
      EXPECT_EQ(gpu.state(), host.state());
      if (i > 1) {
        EXPECT_EQ(gpu.driver.bytes_in() - before, last) << "every step copies the same";
      }
      last = gpu.driver.bytes_in() - before;
    }
    bytes[keeps] = last;
  }
  // Without kept memory, at least the parameters are copied again for each of gradients, update and derive.
  EXPECT_LE(bytes[true] + 3 * 4 * (kFeatures + 1) * kClasses, bytes[false]);
  EXPECT_LT(memory[true], memory[false]);
}

TEST(device_training, a_state_that_the_host_wrote_is_what_the_next_step_learns_from) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(2);
  const std::vector<std::byte> first = gpu.state();
  for (int i = 0; i < 6; ++i) {
    const Batch batch = random_batch(random);
    if (i == 3) {
      std::ranges::copy(first, gpu.trainer.state().begin());
      std::ranges::copy(first, host.trainer.state().begin());
      ASSERT_TRUE(gpu.trainer.restored().ok());
      ASSERT_TRUE(host.trainer.restored().ok());
    }
    host.step(batch);
    ASSERT_TRUE(gpu.step(batch).ok());
    EXPECT_EQ(gpu.state(), host.state());
  }
}

// Each call fails in turn, in the gradients or in the update.
TEST(device_training, a_step_that_fails_leaves_the_state_and_the_next_one_is_the_hosts) {
  for (const char* symbol : {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch", "cuStreamSynchronize"})
    for (uint64_t nth = 0; nth < 6; ++nth)
      for (const bool first : {false, true}) {
        Training host;
        TrainedOnDevice gpu(true);
        std::mt19937 random(3);
        const Batch batch = random_batch(random), second = random_batch(random);
        if (!first) {
          host.step(batch);
          ASSERT_TRUE(gpu.step(batch).ok());
        }
        const std::vector<std::byte> before = gpu.state();
        gpu.driver.fail(symbol, nth);
        const Status failed = gpu.step(second);
        if (!gpu.driver.failed()) continue;
        EXPECT_EQ(failed.code, Code::kPortFailed);
        uint32_t derive = 0;
        ASSERT_TRUE(gpu.model.find(Entry::kDerive, nullptr, &derive).ok());
        const bool derived = failed.index >= gpu.model.program(derive).first_step;
        if (derived) {
          host.step(second);
          ASSERT_TRUE(gpu.trainer.restored().ok());
        } else {
          EXPECT_EQ(gpu.state(), before);
        }
        host.step(batch);
        ASSERT_TRUE(gpu.step(batch).ok());
        EXPECT_EQ(gpu.state(), host.state()) << symbol << " " << nth << " " << first;
      }
}

// Outputs, the report and the counters come back; the state comes back once, when it is asked for.
TEST(device_training, what_is_learned_stays_on_the_device_until_it_is_asked_for) {
  constexpr uint64_t kParameters = 4 * (kFeatures + 1) * kClasses;
  uint64_t bytes[2] = {};
  for (const bool keeps : {false, true}) {
    Training host;
    TrainedOnDevice gpu(keeps);
    std::mt19937 random(4);
    for (int i = 0; i < 5; ++i) {
      const Batch batch = random_batch(random);
      host.step(batch);
      const uint64_t before = gpu.driver.bytes_out();
      ASSERT_TRUE(gpu.step(batch).ok()) << gpu.device.sentence();
      bytes[keeps] = gpu.driver.bytes_out() - before;
    }
    const uint64_t before = gpu.driver.bytes_out();
    EXPECT_EQ(gpu.state(), host.state());
    const uint64_t state = gpu.trainer.state().size();
    EXPECT_EQ(gpu.driver.bytes_out() - before, keeps ? state : 0) << "a second call finds it on the host";
  }
  EXPECT_LE(bytes[true] + 2 * kParameters, bytes[false]);  // parameters and velocities
}

// Steps fail as above, but the host lacks the state. The device copies it back, and derives again if `derive` failed.
TEST(device_training, a_step_that_fails_leaves_what_only_the_device_has) {
  int faults = 0;
  for (const char* symbol : {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuGraphLaunch",
                             "cuStreamSynchronize", "cuCtxSetCurrent"})
    for (uint64_t nth = 0; nth < 8; ++nth)
      for (const int steps : {1, 2}) {
        Training host, before;
        TrainedOnDevice gpu(true);
        std::mt19937 random(5);
        for (int i = 0; i < steps; ++i) {
          const Batch batch = random_batch(random);
          for (Training* on_host : {&host, &before}) on_host->step(batch);
          ASSERT_TRUE(gpu.step(batch).ok());
        }
        const Batch second = random_batch(random);
        host.step(second);
        gpu.driver.fail(symbol, nth);
        const Status failed = gpu.step(second);
        if (!gpu.driver.failed()) break;
        ++faults;
        EXPECT_EQ(failed.code, Code::kPortFailed);
        if (gpu.state() == before.state()) {
          ASSERT_TRUE(gpu.step(second).ok());
        } else {
          ASSERT_TRUE(gpu.trainer.restored().ok());
        }
        EXPECT_EQ(gpu.state(), host.state()) << symbol << " " << nth << " " << steps;
        const Batch third = random_batch(random);
        host.step(third);
        ASSERT_TRUE(gpu.step(third).ok());
        EXPECT_EQ(gpu.state(), host.state()) << symbol << " " << nth << " " << steps;
      }
  EXPECT_GT(faults, 20);
}

// After the loss nothing counts as the state: neither the host's older block nor a checkpoint of it.
TEST(device_training, a_state_that_the_device_loses_is_said_to_be_lost) {
  TrainedOnDevice gpu(true);
  std::mt19937 random(6);
  const Batch batch = random_batch(random);
  ASSERT_TRUE(gpu.step(batch).ok());
  const std::vector<std::byte> saved = gpu.state();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(gpu.step(batch).ok());
  ASSERT_TRUE(Training::accumulate_into(gpu.trainer, batch, 0).ok());
  loses = true;
  gpu.driver.fail("cuGraphLaunch", 0);
  EXPECT_EQ(gpu.trainer.commit(0.25f, nullptr).code, Code::kPortFailed);
  loses = false;
  EXPECT_TRUE(gpu.trainer.state().empty());
  EXPECT_EQ(gpu.step(batch).code, Code::kPortFailed);
  EXPECT_EQ(gpu.trainer.restored().code, Code::kPortFailed);
  ASSERT_TRUE(gpu.trainer.start().ok());
  std::ranges::copy(saved, gpu.trainer.state().begin());
  ASSERT_TRUE(gpu.trainer.restored().ok());
  EXPECT_EQ(gpu.state(), saved);
  EXPECT_TRUE(gpu.step(batch).ok());
}

}  // namespace
}  // namespace nacre::test
