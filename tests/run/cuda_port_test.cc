// Tests the CUDA port over a driver without a GPU: its refusals, the launches that it records and runs, and its state
// after a failure.
#include "ports/cuda/cuda_port.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/run/on_device.h"

namespace nacre::test {
namespace {

std::string sentence_of(const DriverOptions& options, std::span<const void* const> modules = kModules, int gpu = 0) {
  const FakeDriver driver(options);
  cuda::Device device;
  EXPECT_FALSE(device.open(&driver.driver(), modules, gpu));
  device.close();
  EXPECT_EQ(driver.held(), 0u);
  EXPECT_EQ(driver.broken(), 0u);
  return device.sentence();
}

TEST(cuda_port, what_is_missing_is_one_sentence) {
  cuda::Device device;
  EXPECT_FALSE(device.open(nullptr, kModules));
  EXPECT_STREQ(device.sentence(), "cuda: this machine has no NVIDIA driver (libcuda.so.1)");
  EXPECT_EQ(sentence_of({.init = cuda::kNoDevice}), "cuda: this machine has no NVIDIA GPU");
  EXPECT_EQ(sentence_of({.init = 999}), "cuda: cuInit failed with CUDA error 999");
  EXPECT_EQ(sentence_of({.version = 12080}), "cuda: the NVIDIA driver knows CUDA 12.8, and 13.0 is needed; update it");
  EXPECT_EQ(sentence_of({}, kModules, 1), "cuda: there is no GPU 1; this machine has 1");
  EXPECT_EQ(sentence_of({}, {}), "cuda: this build has no kernels for it; build with -Dcuda=enabled where nvcc is");
  EXPECT_EQ(sentence_of({.load = cuda::kNoBinaryForDevice}),
            "cuda: this build's kernels are not for this GPU; set -Dgpu_targets to its architecture");
}

TEST(cuda_port, a_driver_that_lacks_a_function_is_one_sentence) {
  const FakeDriver driver;
  cuda::Driver without = driver.driver();
  without.event_elapsed = nullptr;
  cuda::Device device;
  EXPECT_FALSE(device.open(&without, kModules));
  EXPECT_STREQ(device.sentence(), "cuda: the NVIDIA driver lacks cuEventElapsedTime_v2; update it");
  EXPECT_EQ(driver.held(), 0u);
}

TEST(cuda_port, an_open_device_knows_its_architecture) {
  for (const int architecture : {75, 90, 120}) {
    FakeDriver driver({.architecture = architecture});
    cuda::Device device;
    EXPECT_EQ(device.architecture(), 0);
    ASSERT_TRUE(device.open(&driver.driver(), kModules)) << device.sentence();
    EXPECT_EQ(device.architecture(), architecture);
    device.close();
    EXPECT_EQ(device.architecture(), 0);
    driver.fail("cuDeviceGetAttribute", 1);
    EXPECT_FALSE(device.open(&driver.driver(), kModules));
    EXPECT_STREQ(device.sentence(), "cuda: cuDeviceGetAttribute failed with CUDA error 719");
  }
}

TEST(cuda_port, the_driver_of_this_machine_opens_or_says_why_not) {
  cuda::Device device;
  if (!device.open(cuda::load_driver(), kModules)) {
    EXPECT_TRUE(std::string(device.sentence()).starts_with("cuda: ")) << device.sentence();
  }
}

TEST(cuda_port, every_model_gives_the_bytes_of_the_host) {
  struct Way {
    std::vector<uint8_t> pattern;
    bool products;  // by cuBLASLt
  };
  size_t models = 0, kernels = 0, by_library = 0;
  for (const ModelCase& c : cases()) {
    const Draft draft = c.make();
    Placed host(draft);
    if (host.model.program(0).entry != Entry::kInfer) continue;
    ASSERT_TRUE(host.bind().ok()) << c.name;
    write_inputs(host.program, host.model);
    const Status expected = host.program.run();
    for (const auto& [pattern, products] : {Way{{1}, false}, {{0, 1}, false}, {{1, 0}, false}, {{1}, true}}) {
      OnDevice placed(with_places(draft, pattern), {}, products);
      ASSERT_TRUE(placed.bind().ok()) << c.name;
      for (int run = 0; run < 3; ++run) {
        write_inputs(placed.program, placed.model);
        EXPECT_EQ(placed.program.run().code, expected.code) << c.name;
        if (expected.ok()) {
          EXPECT_EQ(outputs_of(placed.program), outputs_of(host.program)) << c.name;
        }
      }
      EXPECT_EQ(placed.driver.broken(), 0u) << c.name;
      kernels += placed.device.counts().kernels;
      by_library += placed.device.counts().products;
    }
    ++models;
  }
  EXPECT_GT(models, 20u);
  EXPECT_GT(kernels, 300u);
  EXPECT_GT(by_library, 10u);
}

TEST(cuda_port, a_program_is_recorded_once_and_launched_as_one_graph) {
  OnDevice placed(with_places(chain(5), {1}));
  ASSERT_TRUE(placed.bind().ok());
  for (uint64_t run = 1; run <= 4; ++run) {
    write_inputs(placed.program, placed.model, uint32_t(run));
    ASSERT_TRUE(placed.program.run().ok());
    EXPECT_EQ(placed.device.counts().recordings, 1u);
    EXPECT_EQ(placed.device.counts().launches, run);
    EXPECT_EQ(placed.device.counts().kernels, 5 * run);
  }
  EXPECT_EQ(placed.driver.calls("cuLaunchKernel"), 5u);  // into the capture
  EXPECT_EQ(placed.driver.calls("cuGraphInstantiateWithFlags"), 1u);
  const uint64_t allocations = placed.driver.calls("cuMemAlloc_v2");
  EXPECT_EQ(allocations, 1u);
}

TEST(cuda_port, each_number_of_rows_has_a_graph_of_its_own) {
  Placed host(batched());
  OnDevice placed(with_places(batched(), {1}));
  ASSERT_TRUE(host.bind().ok() && placed.bind().ok());
  for (const uint32_t rows : {3u, 1u, 3u, 2u, 1u}) {
    std::vector<std::byte> outputs[2];
    for (int i = 0; i < 2; ++i) {
      Program& program = i == 0 ? host.program : placed.program;
      write_inputs(program, i == 0 ? host.model : placed.model, rows);
      const auto out = program.bytes(program.view().outputs[0]);
      std::fill(out.begin(), out.end(), std::byte{0x33});
      ASSERT_TRUE(program.run_rows(rows).ok());
      outputs[i] = outputs_of(program);
    }
    EXPECT_EQ(outputs[0], outputs[1]) << rows;
  }
  EXPECT_EQ(placed.device.counts().recordings, 3u);
  EXPECT_EQ(placed.device.counts().launches, 5u);
}

TEST(cuda_port, a_guard_is_read_on_the_device) {
  Placed host(guarded());
  OnDevice placed(with_places(guarded(), {1}));
  ASSERT_TRUE(host.bind().ok() && placed.bind().ok());
  for (const uint32_t go : {0u, 1u, 7u, 0u}) {
    std::vector<std::byte> results[2];
    for (int i = 0; i < 2; ++i) {
      Program& program = i == 0 ? host.program : placed.program;
      write_inputs(program, i == 0 ? host.model : placed.model);
      std::memcpy(program.input(1).data(), &go, sizeof go);
      const auto out = program.bytes(program.view().outputs[0]);
      std::fill(out.begin(), out.end(), std::byte{0x11});
      ASSERT_TRUE(program.run().ok());
      results[i] = outputs_of(program);
    }
    EXPECT_EQ(results[0], results[1]) << go;
  }
  EXPECT_EQ(placed.device.counts().recordings, 1u);
  EXPECT_EQ(placed.device.counts().launches, 4u);              // of a step that has no effect too
  EXPECT_EQ(placed.driver.calls("cuMemcpyDtoHAsync_v2"), 4u);  // outputs, and no guard
}

TEST(cuda_port, a_program_that_is_bound_again_is_recorded_again) {
  OnDevice placed(with_places(chain(3), {1}));
  ASSERT_TRUE(placed.bind().ok());
  ASSERT_TRUE(placed.program.run().ok());
  placed.program.unbind();
  ASSERT_TRUE(placed.bind().ok());
  ASSERT_TRUE(placed.program.run().ok());
  EXPECT_EQ(placed.device.counts().recordings, 2u);
  EXPECT_EQ(placed.driver.broken(), 0u);
}

TEST(cuda_port, every_call_that_fails_is_one_status_and_the_next_run_is_whole) {
  Placed host(with_places(chain(4), {0}));
  ASSERT_TRUE(host.bind().ok());
  write_inputs(host.program, host.model);
  ASSERT_TRUE(host.program.run().ok());
  size_t faults = 0;
  for (const char* symbol :
       {"cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2", "cuStreamBeginCapture_v2", "cuLaunchKernel", "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"}) {
    size_t found = 0;
    for (uint64_t nth = 0;; ++nth) {
      OnDevice placed(with_places(chain(4), {1}));
      ASSERT_TRUE(placed.bind().ok());
      write_inputs(placed.program, placed.model);
      placed.driver.fail(symbol, nth);
      const Status status = placed.program.run();
      if (!placed.driver.failed()) break;
      EXPECT_EQ(status.code, Code::kPortFailed) << symbol << " " << nth;
      EXPECT_NE(std::string(placed.device.sentence()).find("719"), std::string::npos) << placed.device.sentence();
      write_inputs(placed.program, placed.model);
      EXPECT_TRUE(placed.program.run().ok()) << symbol << " " << nth;
      EXPECT_EQ(outputs_of(placed.program), outputs_of(host.program)) << symbol << " " << nth;
      placed.program.unbind();
      placed.device.close();
      EXPECT_EQ(placed.driver.held(), 0u) << symbol << " " << nth;
      ++found;
    }
    EXPECT_GT(found, 0u) << symbol;
    faults += found;
  }
  EXPECT_GT(faults, 10u);
}

TEST(cuda_port, memory_that_is_not_there_is_one_sentence) {
  OnDevice placed(with_places(chain(2), {1}), {.memory = 4096});
  EXPECT_TRUE(placed.device.allocate(1 << 20).empty());
  EXPECT_STREQ(placed.device.sentence(),
               "cuda: simulated GPU has not 1048576 bytes free; bind fewer programs or a smaller batch");
}

}  // namespace
}  // namespace nacre::test
