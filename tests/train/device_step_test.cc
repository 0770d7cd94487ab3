// Tests Trainer::step on a device: gradients, update and the steps that depend on it are one launch and one wait.
// After a failure the state is as after two failed calls.
#include <gtest/gtest.h>

#include "tests/train/trained_on_device.h"

namespace nacre::test {
namespace {

void write(Trainer& trainer, const Batch& batch) {
  std::memcpy(trainer.input(0).data(), batch.x.data(), trainer.input(0).size());
  std::memcpy(trainer.input(1).data(), batch.labels.data(), trainer.input(1).size());
}

struct Step {
  Status status;
  Trainer::Report report = {};
};
Step step(Trainer& trainer, const Batch& batch, uint32_t rows = 0) {
  write(trainer, batch);
  Step made;
  made.status = trainer.step(0.25f, &made.report, rows);
  return made;
}

// Compares two reports. NaN losses count as equal.
bool same(const Trainer::Report& a, const Trainer::Report& b) {
  const float x[] = {a.loss, a.norm, a.loss_scale, a.samples}, y[] = {b.loss, b.norm, b.loss_scale, b.samples};
  return a.applied == b.applied && std::memcmp(x, y, sizeof x) == 0 && a.refused_in_row == b.refused_in_row;
}

// Returns the index of the first byte that differs, or -1 if none does.
int difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const auto found = std::ranges::mismatch(a, b);
  return found.in1 == a.end() && found.in2 == b.end() ? -1 : int(found.in1 - a.begin());
}

struct Calls {
  uint64_t launches, waits, allocations, all;
  explicit Calls(const FakeDriver& driver)
      : launches(driver.calls("cuGraphLaunch")), waits(driver.calls("cuStreamSynchronize")),
        allocations(driver.calls("cuMemAlloc_v2") + driver.calls("cuMemHostAlloc")), all(driver.all_calls()) {}
};

TEST(device_step, is_one_launch_and_one_wait_and_gives_the_hosts_bytes) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(7);
  for (int i = 0; i < 8; ++i) {
    Batch batch = random_batch(random);
    if (i == 4) batch.x[0] = std::numeric_limits<float>::infinity();  // refused
    const uint32_t rows = i == 5 ? 3 : 0;
    const Step expected = step(host.trainer, batch, rows);
    const Calls before(gpu.driver);
    const Step made = step(gpu.trainer, batch, rows);
    const Calls after(gpu.driver);
    ASSERT_TRUE(expected.status.ok() && made.status.ok()) << gpu.device.sentence();
    EXPECT_TRUE(same(made.report, expected.report)) << i;
    EXPECT_EQ(made.report.applied, i != 4);
    if (i == 2 || i == 3 || i == 7) {
      EXPECT_EQ(after.launches - before.launches, 1u);
      EXPECT_EQ(after.waits - before.waits, 1u);
      EXPECT_EQ(after.allocations, before.allocations);
      EXPECT_LE(after.all - before.all, 6u) << "and what sets the context";
    }
    EXPECT_EQ(difference(gpu.state(), host.state()), -1) << i;
  }
  EXPECT_EQ(gpu.driver.broken(), 0u);
}

TEST(device_step, what_cannot_be_counted_or_looked_up_leaves_the_state) {
  for (const int steps : {0, 1, 3}) {
    Training host;
    TrainedOnDevice gpu(true);
    std::mt19937 random(8);
    for (int i = 0; i < steps; ++i) {
      const Batch batch = random_batch(random);
      ASSERT_TRUE(step(host.trainer, batch).status.ok() && step(gpu.trainer, batch).status.ok());
    }
    const Batch batch = random_batch(random);
    Batch none = batch, outside = batch;
    none.labels.assign(none.labels.size(), -1);
    outside.labels[1] = kClasses;
    for (const auto& [wrong, code] : {std::pair(none, Code::kNothingAccumulated), {outside, Code::kIndex}}) {
      EXPECT_EQ(step(gpu.trainer, wrong).status.code, code);
      EXPECT_EQ(difference(gpu.state(), host.state()), -1) << steps;
    }
    write(gpu.trainer, batch);
    EXPECT_EQ(gpu.trainer.step(-1, nullptr).code, Code::kLearningRate);
    EXPECT_EQ(gpu.trainer.step(0.25f, nullptr, kRows + 1).code, Code::kRows);
    ASSERT_TRUE(step(host.trainer, batch).status.ok() && step(gpu.trainer, batch).status.ok());
    EXPECT_EQ(difference(gpu.state(), host.state()), -1) << steps;
  }
}

// The step fails before the first step, when the host has the state, and later, when only the device has it.
TEST(device_step, that_fails_leaves_the_state_and_the_next_one_is_the_hosts) {
  int faults = 0;
  for (const char* symbol :
       {"cuMemHostAlloc", "cuMemAlloc_v2", "cuStreamBeginCapture_v2", "cuLaunchKernel", "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuStreamSynchronize", "cuCtxSetCurrent"})
    for (uint64_t nth = 0; nth < 3; ++nth)
      for (const int steps : {0, 1, 2}) {
        Training host;
        TrainedOnDevice gpu(true);
        std::mt19937 random(9);
        for (int i = 0; i < steps; ++i) {
          const Batch batch = random_batch(random);
          ASSERT_TRUE(step(host.trainer, batch).status.ok() && step(gpu.trainer, batch).status.ok());
        }
        const std::vector<std::byte> before = host.state();
        const Batch batch = random_batch(random);
        gpu.driver.fail(symbol, nth);
        const Step failed = step(gpu.trainer, batch);
        if (!gpu.driver.failed()) {
          gpu.driver.fail("", 0);
          EXPECT_TRUE(failed.status.ok());
          continue;
        }
        ++faults;
        if (failed.status.ok()) {  // two calls instead
          ASSERT_TRUE(step(host.trainer, batch).status.ok());
          EXPECT_EQ(difference(gpu.state(), host.state()), -1);
          continue;
        }
        EXPECT_EQ(failed.status.code, Code::kPortFailed) << symbol;
        EXPECT_EQ(difference(gpu.state(), before), -1) << symbol << " " << nth << " " << steps;
        ASSERT_TRUE(step(host.trainer, batch).status.ok() && step(gpu.trainer, batch).status.ok());
        EXPECT_EQ(difference(gpu.state(), host.state()), -1) << symbol << " " << nth << " " << steps;
      }
  EXPECT_GE(faults, 12);
}

TEST(device_step, commits_what_was_accumulated_before) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(10);
  for (int i = 0; i < 3; ++i) {
    const Batch first = random_batch(random), second = random_batch(random);
    ASSERT_TRUE(host.accumulate(first).ok() && Training::accumulate_into(gpu.trainer, first, 0).ok());
    const Step expected = step(host.trainer, second), made = step(gpu.trainer, second);
    EXPECT_TRUE(same(made.report, expected.report));
    EXPECT_EQ(made.report.samples, 2.0f * kRows);
    EXPECT_EQ(difference(gpu.state(), host.state()), -1);
  }
}

// A device that does not keep its memory, and the host, use accumulate and commit instead.
TEST(device_step, is_two_calls_where_it_cannot_be_one) {
  Training host, apart;
  TrainedOnDevice gpu(false);
  std::mt19937 random(11);
  for (int i = 0; i < 3; ++i) {
    const Batch batch = random_batch(random);
    const Trainer::Report expected = host.step(batch);
    EXPECT_TRUE(same(step(apart.trainer, batch).report, expected));
    EXPECT_TRUE(same(step(gpu.trainer, batch).report, expected));
    EXPECT_EQ(difference(gpu.state(), host.state()), -1);
    EXPECT_EQ(difference(apart.state(), host.state()), -1);
  }
}

}  // namespace
}  // namespace nacre::test
