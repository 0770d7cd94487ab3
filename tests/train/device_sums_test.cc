// Tests the sums of a step on a device that keeps them. They are read, written and joined as on the host, so that
// several devices learn the bytes that one learns (NUMERICS.md (57)).
#include <gtest/gtest.h>

#include "engine/train/step_sums.h"
#include "tests/train/trained_on_device.h"

namespace nacre::test {
namespace {

constexpr uint32_t kDevices = 3;

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// Takes a step of these micro-batches on one trainer, each summed from zero.
Status step_apart(Trainer& trainer, const std::vector<Batch>& batches) {
  std::vector<std::byte> keep(trainer.sums().size());
  for (const Batch& batch : batches) {
    std::memcpy(trainer.input(0).data(), batch.x.data(), trainer.input(0).size());
    std::memcpy(trainer.input(1).data(), batch.labels.data(), trainer.input(1).size());
    NACRE_TRY(trainer.accumulate_apart(keep));
  }
  return trainer.commit(0.25f, nullptr);
}

// Takes that step as several devices do. They have one state, so one device takes each one's micro-batch in turn.
void step_together(TrainedOnDevice& device, const std::vector<Batch>& batches) {
  Trainer& trainer = device.trainer;
  std::vector<std::byte> all;
  for (uint32_t i = 0; i < kDevices; ++i) {
    ASSERT_TRUE(trainer.begin_at(i).ok());
    ASSERT_TRUE(Training::accumulate_into(trainer, batches[i], 0).ok());
    const std::vector<std::byte> block = copy_of(trainer.sums());
    ASSERT_FALSE(block.empty());
    if (i == 0) all = block;
    else ASSERT_TRUE(join_sums(device.model, all, block).ok());
  }
  std::ranges::copy(all, trainer.sums().begin());
  ASSERT_TRUE(trainer.merged(kDevices).ok());
  ASSERT_TRUE(trainer.commit(0.25f, nullptr).ok());
}

TEST(device_sums, of_several_devices_are_those_of_one_and_of_the_host) {
  for (const bool keeps : {false, true}) {
    Training host;
    std::vector<std::vector<std::byte>> states;  // of the host, step by step
    for (const bool together : {false, true}) {
      TrainedOnDevice device(keeps);  // only one simulated driver at a time
      std::mt19937 random(11);
      for (size_t step = 0; step < 4; ++step) {
        std::vector<Batch> batches;
        for (uint32_t i = 0; i < kDevices; ++i) batches.push_back(random_batch(random));
        if (!together) {
          ASSERT_TRUE(step_apart(host.trainer, batches).ok());
          states.push_back(host.state());
          ASSERT_TRUE(step_apart(device.trainer, batches).ok()) << device.device.sentence();
        } else {
          step_together(device, batches);
        }
        EXPECT_EQ(device.state(), states[step]) << keeps << together << step;
      }
    }
  }
}

// The sums stay on the device until somebody asks for them. A second call finds them on the host.
TEST(device_sums, are_copied_home_when_they_are_asked_for) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(12);
  for (int i = 0; i < 2; ++i) {
    const Batch batch = random_batch(random);
    ASSERT_TRUE(host.accumulate(batch).ok());
    ASSERT_TRUE(Training::accumulate_into(gpu.trainer, batch, 0).ok());
    const uint64_t before = gpu.driver.bytes_out();
    EXPECT_EQ(copy_of(gpu.trainer.sums()), copy_of(host.trainer.sums())) << "micro-batch " << i;
    const uint64_t size = gpu.trainer.sums().size();
    EXPECT_EQ(gpu.driver.bytes_out() - before, size);
  }
  ASSERT_TRUE(host.trainer.commit(0.25f, nullptr).ok());
  ASSERT_TRUE(gpu.trainer.commit(0.25f, nullptr).ok());
  EXPECT_EQ(gpu.state(), host.state());
  const std::vector<std::byte> zeros(gpu.trainer.sums().size());
  EXPECT_EQ(copy_of(gpu.trainer.sums()), zeros) << "a commit ends them";
}

// Ports exchange sums among themselves. Then merged_at copies only the counter to the host.
TEST(device_sums, that_were_written_there_are_what_is_committed) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(14);
  const Port& port = *gpu.ports[1];
  const auto on_device = [&](CopyDirection direction, void* to, const void* from, size_t bytes) {
    ASSERT_EQ(port.copy(port.context, direction, to, from, bytes), Code::kOk);
  };
  EXPECT_TRUE(host.trainer.sums_at(port).empty());
  EXPECT_EQ(host.trainer.merged_at(port, 1).code, Code::kNothingAccumulated);
  for (int step = 0; step < 3; ++step) {
    std::vector<Batch> batches;
    for (uint32_t i = 0; i < kDevices; ++i) batches.push_back(random_batch(random));
    ASSERT_TRUE(step_apart(host.trainer, batches).ok());
    std::vector<std::byte> all, block(gpu.trainer.sums_at(port).size());
    for (uint32_t i = 0; i < kDevices; ++i) {
      ASSERT_TRUE(gpu.trainer.begin_at(i).ok());
      ASSERT_TRUE(Training::accumulate_into(gpu.trainer, batches[i], 0).ok());
      on_device(CopyDirection::kFromPort, block.data(), gpu.trainer.sums_at(port).data(), block.size());
      if (i == 0) all = block;
      else ASSERT_TRUE(join_sums(gpu.model, all, block).ok());
    }
    gpu.trainer.discard();
    on_device(CopyDirection::kFromPort, block.data(), gpu.trainer.sums_at(port).data(), block.size());
    EXPECT_EQ(block, std::vector<std::byte>(block.size())) << "what was discarded is zero there too";
    on_device(CopyDirection::kToPort, gpu.trainer.sums_at(port).data(), all.data(), all.size());
    EXPECT_EQ(gpu.trainer.merged_at(port, 0).code, Code::kNothingAccumulated);
    const uint64_t before = gpu.driver.bytes_out();
    ASSERT_TRUE(gpu.trainer.merged_at(port, kDevices).ok());
    EXPECT_LE(gpu.driver.bytes_out() - before, 16u);
    ASSERT_TRUE(gpu.trainer.commit(0.25f, nullptr).ok());
    EXPECT_EQ(gpu.state(), host.state());
  }
}

// A copy to the device fails, or the fill with zeros: the device's block is then unknown, and the next call copies it.
TEST(device_sums, that_did_not_arrive_there_are_copied_again) {
  TrainedOnDevice gpu(true);
  std::mt19937 random(16);
  const Port& port = *gpu.ports[1];
  ASSERT_TRUE(Training::accumulate_into(gpu.trainer, random_batch(random), 0).ok());
  std::vector<std::byte> want(gpu.trainer.sums().size(), std::byte{0x3C});
  for (const char* symbol : {"cuMemcpyHtoDAsync_v2", "cuMemsetD8Async"}) {
    if (symbol == std::string("cuMemsetD8Async")) {
      gpu.trainer.discard();
      want.assign(want.size(), std::byte{0});
    } else {
      std::ranges::copy(want, gpu.trainer.sums().begin());
      ASSERT_TRUE(gpu.trainer.merged(1).ok());
    }
    gpu.driver.fail(symbol, 0);
    EXPECT_TRUE(gpu.trainer.sums_at(port).empty()) << symbol;
    ASSERT_TRUE(gpu.driver.failed()) << symbol;
    gpu.driver.fail("", 0);
    std::vector<std::byte> block(want.size());
    const std::span<const std::byte> there = gpu.trainer.sums_at(port);
    ASSERT_EQ(there.size(), want.size()) << symbol;
    ASSERT_EQ(port.copy(port.context, CopyDirection::kFromPort, block.data(), there.data(), block.size()), Code::kOk);
    EXPECT_EQ(block, want) << symbol;
  }
}

TEST(device_sums, lie_on_no_device_that_keeps_nothing) {
  TrainedOnDevice passing(false);
  EXPECT_TRUE(passing.trainer.sums_at(*passing.ports[1]).empty());
  EXPECT_EQ(passing.trainer.merged_at(*passing.ports[1], 1).code, Code::kPort);
}

template <class T>
void expect_joined(SumKind kind, const std::vector<T>& a, const std::vector<T>& b) {
  FakeDriver driver;
  cuda::Device device;
  ASSERT_TRUE(device.open(&driver.driver(), kModules, 0, nullptr)) << device.sentence();
  const Port& port = device.port();
  const size_t bytes = a.size() * sizeof(T);
  const std::span<std::byte> memory = device.allocate(2 * bytes);
  std::byte *const into = memory.data(), *const from = memory.data() + bytes;
  ASSERT_EQ(port.copy(port.context, CopyDirection::kToPort, from, a.data(), bytes), Code::kOk);
  ASSERT_TRUE(device.make_current() && device.put_copy(into, from, bytes) && device.wait());
  ASSERT_EQ(port.copy(port.context, CopyDirection::kToPort, from, b.data(), bytes), Code::kOk);
  ASSERT_TRUE(device.make_current() && device.put_join(kind, into, from, a.size()) && device.wait())
      << device.sentence();
  std::vector<T> made(a.size()), want = a;
  ASSERT_EQ(port.copy(port.context, CopyDirection::kFromPort, made.data(), into, bytes), Code::kOk);
  join(kind, reinterpret_cast<std::byte*>(want.data()), reinterpret_cast<const std::byte*>(b.data()), bytes);
  EXPECT_EQ(std::memcmp(made.data(), want.data(), bytes), 0);
}

TEST(device_sums, are_joined_on_the_device_as_on_the_host) {
  std::mt19937 random(15);
  const auto numbers = [&]<class T>(T scale) {
    std::vector<T> x(1001);
    for (T& each : x) each = T(double(random()) / 4294967296.0 * double(scale));
    return x;
  };
  expect_joined(SumKind::kFloat32, numbers(3.0f), numbers(1e-6f));
  expect_joined(SumKind::kFloat64, numbers(3.0), numbers(1e-9));
  std::vector<int32_t> a = numbers(int32_t{2'000'000'000}), b = numbers(int32_t{1'000'000'000});
  a[0] = INT32_MAX, b[0] = 1, a[1] = INT32_MIN, b[1] = -5, a[2] = INT32_MIN, b[2] = INT32_MAX;
  expect_joined(SumKind::kInt32, a, b);
  expect_joined(SumKind::kUint32, numbers(uint32_t{0xFFFFFFFF}), numbers(uint32_t{0xFFFFFFFF}));
}

TEST(device_sums, that_do_not_come_home_are_nobodys) {
  Training host;
  TrainedOnDevice gpu(true);
  std::mt19937 random(13);
  const Batch batch = random_batch(random), second = random_batch(random);
  host.step(batch);
  ASSERT_TRUE(gpu.step(batch).ok());
  const std::vector<std::byte> before = gpu.state();
  ASSERT_TRUE(Training::accumulate_into(gpu.trainer, second, 0).ok());
  gpu.driver.fail("cuMemcpyDtoHAsync_v2", 0);
  EXPECT_TRUE(gpu.trainer.sums().empty());
  ASSERT_TRUE(gpu.driver.failed());
  gpu.driver.fail("", 0);
  gpu.trainer.discard();
  EXPECT_EQ(gpu.state(), before);
  // Takes a micro-batch apart, and lets each of its copies fail in turn.
  int faults = 0;
  for (uint64_t nth = 0; nth < 8; ++nth) {
    std::vector<std::byte> keep(gpu.trainer.sums().size());
    ASSERT_TRUE(Training::accumulate_into(gpu.trainer, batch, 0).ok());
    std::memcpy(gpu.trainer.input(0).data(), second.x.data(), gpu.trainer.input(0).size());
    std::memcpy(gpu.trainer.input(1).data(), second.labels.data(), gpu.trainer.input(1).size());
    gpu.driver.fail("cuMemcpyDtoHAsync_v2", nth);
    const Status status = gpu.trainer.accumulate_apart(keep);
    if (!gpu.driver.failed()) {
      EXPECT_TRUE(status.ok());
      gpu.driver.fail("", 0);
      gpu.trainer.discard();
      continue;
    }
    ++faults;
    EXPECT_EQ(status.code, Code::kPortFailed);
    gpu.driver.fail("", 0);
    gpu.trainer.discard();
    EXPECT_EQ(gpu.state(), before);
  }
  EXPECT_GT(faults, 1);
  host.step(second);
  ASSERT_TRUE(gpu.step(second).ok());
  EXPECT_EQ(gpu.state(), host.state());
}

}  // namespace
}  // namespace nacre::test
