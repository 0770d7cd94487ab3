// Training on a device that keeps its memory: what is there is not copied to it again, and the host's state is never
// older than what was learned.
#include <gtest/gtest.h>

#include "tests/run/on_device.h"
#include "tests/train/regression.h"

namespace nacre::test {
namespace {

// The trainer of the regression on the device, started.
struct TrainedOnDevice {
  Buffer file = pack(with_places(training(), {1}));
  Model model;
  FakeDriver driver;
  cuda::Device device;
  const Port* ports[2] = {nullptr, nullptr};
  std::optional<Places> places;
  Sizes sizes;
  std::optional<Blocks> blocks;
  Trainer trainer;
  uint64_t device_bytes = 0;

  explicit TrainedOnDevice(bool keeps) {
    EXPECT_TRUE(model.open(file.bytes()).ok());
    EXPECT_TRUE(device.open(&driver.driver(), kModules, 0, nullptr)) << device.sentence();
    ports[1] = &device.port();
    places.emplace(ports);
    if (keeps) places->keep(1);
    EXPECT_TRUE(Trainer::measure(model, "host", reference_kernels(), &sizes, {}, &*places).ok());
    blocks.emplace(sizes);
    device_bytes = places->bytes(1);
    EXPECT_TRUE(places->give(1, device.allocate(size_t(device_bytes))).ok());
    EXPECT_TRUE(trainer.bind(model, "host", reference_kernels(), blocks->memory, nullptr, &*places).ok());
    EXPECT_TRUE(trainer.start().ok());
  }

  Status step(const Batch& batch) {
    TRY(Training::accumulate_into(trainer, batch, 0));
    return trainer.commit(0.25f, nullptr);
  }
  std::vector<std::byte> state() const { return {trainer.state().begin(), trainer.state().end()}; }
};

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
  // The parameters alone, which gradients, update and derive read.
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

// Wherever a call fails, and whether that of the gradients or of the update.
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

}  // namespace
}  // namespace nacre::test
