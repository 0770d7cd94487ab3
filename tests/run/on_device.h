// Runs a model on the simulated GPU (tests/fake/fake_driver.h), through the CUDA port.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "ports/cuda/cuda_port.h"
#include "tests/fake/fake_cublaslt.h"
#include "tests/fake/fake_driver.h"
#include "tests/run/placed.h"

namespace nacre::test {

using fake::DriverOptions;
using fake::FakeDriver;

inline const void* const kModules[] = {FakeDriver::module()};

// A model that bind() binds to the host and to the simulated GPU.
struct OnDevice {
  Buffer file;
  Model model;
  FakeDriver driver;
  fake::FakeCublasLt library{driver};
  cuda::Device device;
  std::optional<Places> places;
  const Port* ports[2] = {nullptr, nullptr};
  Sizes sizes;
  std::optional<Blocks> blocks;
  Program program;

  // `products` gives the port cuBLASLt.
  explicit OnDevice(const Draft& draft, const DriverOptions& options = {}, bool products = false)
      : file(pack(draft)), driver(options) {
    const Status opened = model.open(file.bytes());
    EXPECT_TRUE(opened.ok()) << sentence(opened.code);
    EXPECT_TRUE(device.open(&driver.driver(), kModules, 0, products ? &library.library() : nullptr))
        << device.sentence();
    ports[1] = &device.port();
    places.emplace(ports);
  }
  ~OnDevice() { program.unbind(); }

  Status bind() {
    NACRE_TRY(places->measure(model, 0, reference_kernels(), &sizes));
    if (!blocks) blocks.emplace(sizes, std::byte{0});
    if (places->bytes(1) != 0) NACRE_TRY(places->give(1, device.allocate(size_t(places->bytes(1)))));
    return places->bind(&program, model, 0, reference_kernels(), blocks->memory);
  }
};

}  // namespace nacre::test
