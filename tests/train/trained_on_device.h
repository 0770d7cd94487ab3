// Trains the regression on the simulated GPU.
#pragma once

#include "tests/run/on_device.h"
#include "tests/train/regression.h"

namespace nacre::test {

// Whether the device loses the memory of which it keeps a second copy.
inline bool loses = false;
inline decltype(Port::copy) copy_of_device = nullptr;

// The regression's trainer on the device, started.
struct TrainedOnDevice {
  Buffer file = pack(with_places(training(), {1}));
  Model model;
  FakeDriver driver;
  cuda::Device device;
  Port port = {};
  const Port* ports[2] = {nullptr, nullptr};
  std::optional<Places> places;
  Sizes sizes;
  std::optional<Blocks> blocks;
  Trainer trainer;
  uint64_t device_bytes = 0;

  explicit TrainedOnDevice(bool keeps) {
    EXPECT_TRUE(model.open(file.bytes()).ok());
    EXPECT_TRUE(device.open(&driver.driver(), kModules, 0, nullptr)) << device.sentence();
    port = device.port();
    port.copy = [](void* context, CopyDirection direction, void* to, const void* from, size_t bytes) {
      return direction == CopyDirection::kWithinPort && loses ? Code::kPortFailed
                                                              : copy_of_device(context, direction, to, from, bytes);
    };
    copy_of_device = device.port().copy;
    loses = false;
    ports[1] = &port;
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
    NACRE_TRY(Training::accumulate_into(trainer, batch, 0));
    return trainer.commit(0.25f, nullptr);
  }
  std::vector<std::byte> state() const { return {trainer.state().begin(), trainer.state().end()}; }
};

}  // namespace nacre::test
