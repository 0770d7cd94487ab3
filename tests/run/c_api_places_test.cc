// Tests programs and trainers on places from C (nacre_c_places.h, cuda_c.h): they give the bytes of the host's run and
// of C++, on a port for tests and on the simulated GPU.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/c_api.h"
#include "engine/nacre_c.h"
#include "ports/cuda/c_api/cuda_handle.h"
#include "ports/x86/x86_c.h"
#include "tests/run/on_device.h"

namespace nacre::test {
namespace {

void expect_index(nacre_status status, uint32_t index) {
  EXPECT_EQ(status.code, NACRE_ARGUMENT);
  EXPECT_EQ(status.index, index);
}

// The kernels of the host, in both languages.
const nacre_kernels* const kHost[] = {nacre_reference_kernels(), nacre_training_kernels()};

nacre_sizes no_sizes() {
  nacre_sizes sizes = {};
  sizes.size = sizeof sizes;
  return sizes;
}

// A model whose steps have place 1, bound by the C API.
struct PlacedOfC {
  Buffer file, memory;
  nacre_model model;
  nacre_places places;
  const nacre_port* ports[2] = {nullptr, nullptr};
  nacre_program program = {};
  nacre_sizes sizes = no_sizes();

  PlacedOfC(const Draft& draft, const nacre_port* port) : file(pack(draft)) {
    ports[1] = port;
    EXPECT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
    EXPECT_EQ(nacre_places_make(&places, ports, 2).code, 0);
  }
  ~PlacedOfC() { nacre_program_unbind(&program); }

  nacre_status measure() { return nacre_places_measure(&places, &model, 0, kHost, 2, nullptr, &sizes); }
  nacre_status bind(size_t ahead = 0) {
    memory = Buffer(size_t(sizes.total) + ahead);
    return nacre_places_bind(&places, &program, &model, 0, kHost, 2, nullptr, memory.data() + ahead,
                             size_t(sizes.total));
  }
  void write() {
    for (uint32_t i = 0; i < nacre_program_input_count(&program); ++i) {
      size_t size = 0;
      auto* const to = static_cast<uint8_t*>(nacre_program_input(&program, i, &size));
      for (size_t k = 0; k < size; ++k) to[k] = k % 4 == 3 ? 0x3F : 0x11;
    }
  }
  std::vector<uint8_t> outputs() {
    size_t size = 0;
    const auto* const bytes = static_cast<const uint8_t*>(nacre_program_output(&program, 0, &size));
    return {bytes, bytes + size};
  }
};

std::vector<uint8_t> outputs_on_the_host(const Draft& draft) {
  PlacedOfC host(draft, nullptr);
  EXPECT_EQ(host.measure().code, 0);
  EXPECT_EQ(nacre_places_bytes(&host.places, 1), 0u);
  EXPECT_EQ(host.bind().code, 0);
  host.write();
  EXPECT_EQ(nacre_program_run(&host.program).code, 0);
  return host.outputs();
}

TEST(c_api_places, a_port_runs_the_steps_of_its_place) {
  const Draft draft = with_places(chain(4), {1});
  const std::vector<uint8_t> expected = outputs_on_the_host(draft);
  for (const uint32_t alignment : {16u, 64u, 1024u}) {
    fake::FakePort device(reference_kernels(), {.alignment = alignment});
    PlacedOfC c(draft, to_c(device.port()));
    EXPECT_STREQ(nacre_port_name(c.ports[1]), device.port().name);
    ASSERT_EQ(c.measure().code, 0);
    ASSERT_GT(nacre_places_bytes(&c.places, 1), 0u);
    const std::span<std::byte> given = device.allocate(size_t(nacre_places_bytes(&c.places, 1)));
    ASSERT_EQ(nacre_places_give(&c.places, 1, given.data(), given.size()).code, 0);
    ASSERT_EQ(c.bind(16).code, 0) << "a block at any multiple of 16";
    c.write();
    ASSERT_EQ(nacre_program_run(&c.program).code, 0);
    EXPECT_EQ(c.outputs(), expected);
    EXPECT_GT(device.counts().steps, 0u);
    EXPECT_EQ(device.counts().broken, 0u);
    nacre_step_info step = {};
    step.size = sizeof step;
    ASSERT_EQ(nacre_program_step(&c.program, 0, &step).code, 0);
    EXPECT_EQ(step.place, 1u);
    nacre_program_unbind(&c.program);
    EXPECT_EQ(nacre_program_input_count(&c.program), 0u);
    EXPECT_EQ(Code(nacre_program_run(&c.program).code), Code::kNotBound);
    c.sizes.total -= 1;
    EXPECT_EQ(Code(c.bind().code), Code::kMemorySize);
  }
}

TEST(c_api_places, the_simulated_gpu_gives_the_bytes_of_the_host) {
  const Draft draft = with_places(chain(4), {1});
  const std::vector<uint8_t> expected = outputs_on_the_host(draft);
  FakeDriver driver;
  nacre_cuda device;
  ASSERT_TRUE(device.device.open(&driver.driver(), kModules, 0, nullptr));
  EXPECT_EQ(nacre_cuda_architecture(&device), 90);
  EXPECT_EQ(nacre_cuda_has_products(&device), 0);
  EXPECT_STREQ(nacre_cuda_sentence(&device), "");
  EXPECT_EQ(nacre_cuda_name(&device), device.device.name());
  {
    PlacedOfC c(draft, nacre_cuda_port(&device));
    ASSERT_EQ(c.measure().code, 0);
    const auto bytes = size_t(nacre_places_bytes(&c.places, 1));
    void* const given = nacre_cuda_allocate(&device, bytes);
    ASSERT_NE(given, nullptr);
    ASSERT_EQ(nacre_places_give(&c.places, 1, given, bytes).code, 0);
    ASSERT_EQ(c.bind().code, 0);
    for (const int timing : {NACRE_CUDA_TIME_NONE, NACRE_CUDA_TIME_GRAPHS, NACRE_CUDA_TIME_STEPS}) {
      ASSERT_EQ(nacre_cuda_measure(&device, uint32_t(timing)).code, 0);
      c.write();
      ASSERT_EQ(nacre_program_run(&c.program).code, 0) << nacre_cuda_sentence(&device);
      EXPECT_EQ(c.outputs(), expected);
      nacre_cuda_time times[8] = {};
      const size_t count = nacre_cuda_times(&device, times, 8);
      EXPECT_EQ(count, timing == NACRE_CUDA_TIME_NONE ? 0u : timing == NACRE_CUDA_TIME_GRAPHS ? 1u : 4u);
      if (timing == NACRE_CUDA_TIME_STEPS) {
        EXPECT_STREQ(times[3].kernel, "kTanhF32");
      }
    }
    nacre_cuda_counts counts = {};
    counts.size = sizeof counts;
    ASSERT_EQ(nacre_cuda_count(&device, &counts).code, 0);
    EXPECT_EQ(counts.launches, device.device.counts().launches);
    EXPECT_EQ(counts.kernels, device.device.counts().kernels);
    nacre_program_unbind(&c.program);
    nacre_cuda_release(&device, given, bytes);
  }
  device.device.close();
}

TEST(c_api_places, a_trainer_on_a_device_learns_what_the_host_learns) {
  const Draft draft = with_places(training(), {1});
  Buffer file = pack(draft);
  nacre_model model;
  ASSERT_EQ(nacre_model_open(&model, file.data(), file.size()).code, 0);
  std::vector<uint8_t> states[2];
  for (const bool on_device : {false, true}) {
    FakeDriver driver;
    nacre_cuda device;
    ASSERT_TRUE(device.device.open(&driver.driver(), kModules, 0, nullptr));
    const nacre_port* const ports[] = {nullptr, on_device ? nacre_cuda_port(&device) : nullptr};
    nacre_places places;
    ASSERT_EQ(nacre_places_make(&places, ports, 2).code, 0);
    if (on_device) {
      ASSERT_EQ(nacre_places_keep(&places, 1).code, 0);
    }
    nacre_sizes sizes = no_sizes();
    ASSERT_EQ(nacre_places_measure_trainer(&places, &model, "host", kHost, 2, nullptr, &sizes).code, 0);
    if (const auto bytes = size_t(nacre_places_bytes(&places, 1)); bytes != 0) {
      ASSERT_EQ(nacre_places_give(&places, 1, nacre_cuda_allocate(&device, bytes), bytes).code, 0);
    }
    Buffer memory(size_t(sizes.total));
    nacre_trainer trainer;
    ASSERT_EQ(
        nacre_places_bind_trainer(&places, &trainer, &model, "host", kHost, 2, nullptr, memory.data(), memory.size())
            .code,
        0);
    ASSERT_EQ(nacre_trainer_start(&trainer).code, 0);
    EXPECT_EQ(nacre_trainer_immediate(&trainer), 0);
    for (int step = 0; step < 3; ++step) {
      size_t size = 0;
      auto* const x = static_cast<float*>(nacre_trainer_input(&trainer, 0, &size));
      for (size_t i = 0; i < size / sizeof *x; ++i) x[i] = float((int(i) * 7 + step) % 5) * 0.25f;
      auto* const labels = static_cast<int32_t*>(nacre_trainer_input(&trainer, 1, &size));
      for (size_t i = 0; i < size / sizeof *labels; ++i) labels[i] = int32_t(i) % 3;
      nacre_report report = {};
      report.size = sizeof report;
      if (step == 2) {  // the same as accumulate and commit
        ASSERT_EQ(nacre_trainer_step(&trainer, 0.25f, 0, &report).code, 0);
      } else {
        ASSERT_EQ(nacre_trainer_accumulate(&trainer, 0).code, 0);
        EXPECT_EQ(nacre_trainer_micro_batches(&trainer), 1u);
        EXPECT_EQ(nacre_trainer_gradients_at(&trainer, ports[1], &size) != nullptr, on_device);
        if (on_device) {
          ASSERT_EQ(nacre_trainer_merged_at(&trainer, ports[1], 1).code, 0);
        }
        ASSERT_EQ(nacre_trainer_commit(&trainer, 0.25f, &report).code, 0);
      }
      EXPECT_EQ(report.applied, 1u);
      EXPECT_EQ(nacre_trainer_micro_batches(&trainer), 0u);
    }
    size_t size = 0;
    const auto* const state = static_cast<const uint8_t*>(nacre_trainer_state(&trainer, &size));
    states[on_device ? 1 : 0].assign(state, state + size);
  }
  EXPECT_FALSE(states[0].empty());
  EXPECT_EQ(states[0], states[1]);
}

TEST(c_api_places, a_machine_without_a_gpu_says_so) {
  if (cuda::load_driver() != nullptr) GTEST_SKIP() << "this machine has a driver";
  char why[64] = "unset", one[1] = {'x'};
  EXPECT_EQ(nacre_cuda_open(0, 1, why, sizeof why), nullptr);
  EXPECT_GT(std::strlen(why), 10u);
  EXPECT_EQ(nacre_cuda_open(0, 0, one, sizeof one), nullptr);
  EXPECT_EQ(one[0], 0);
  EXPECT_EQ(nacre_cuda_open(0, 0, nullptr, 0), nullptr);
}

TEST(c_api_places, of_null) {
  PlacedOfC c(with_places(chain(1), {1}), nullptr);
  expect_index(nacre_places_make(nullptr, c.ports, 2), 0);
  expect_index(nacre_places_make(&c.places, nullptr, 2), 1);
  expect_index(nacre_places_make(&c.places, c.ports, 9), 2);
  expect_index(nacre_places_keep(nullptr, 0), 0);
  expect_index(nacre_places_keep(&c.places, 8), 1);
  expect_index(nacre_places_measure(nullptr, &c.model, 0, kHost, 2, nullptr, &c.sizes), 0);
  expect_index(nacre_places_measure(&c.places, nullptr, 0, kHost, 2, nullptr, &c.sizes), 1);
  expect_index(nacre_places_measure(&c.places, &c.model, 0, nullptr, 2, nullptr, &c.sizes), 3);
  expect_index(nacre_places_measure(&c.places, &c.model, 0, kHost, 2, nullptr, nullptr), 6);
  expect_index(nacre_places_bind(nullptr, &c.program, &c.model, 0, kHost, 2, nullptr, nullptr, 0), 0);
  expect_index(nacre_places_bind(&c.places, nullptr, &c.model, 0, kHost, 2, nullptr, nullptr, 0), 1);
  expect_index(nacre_places_bind(&c.places, &c.program, nullptr, 0, kHost, 2, nullptr, nullptr, 0), 2);
  EXPECT_EQ(Code(nacre_places_bind(&c.places, &c.program, &c.model, 0, kHost, 2, nullptr, nullptr, 0).code),
            Code::kMemorySize);
  expect_index(nacre_places_measure_trainer(&c.places, nullptr, nullptr, kHost, 2, nullptr, &c.sizes), 1);
  nacre_trainer trainer = {};
  expect_index(nacre_places_bind_trainer(&c.places, nullptr, &c.model, nullptr, kHost, 2, nullptr, nullptr, 0), 1);
  EXPECT_EQ(nacre_places_bytes(nullptr, 1), 0u);
  expect_index(nacre_places_give(nullptr, 1, nullptr, 0), 0);
  EXPECT_EQ(Code(nacre_places_give(&c.places, 1, nullptr, 0).code), Code::kPort);
  size_t size = 7;
  EXPECT_EQ(nacre_trainer_gradients_at(&trainer, nullptr, &size), nullptr);
  EXPECT_EQ(size, 0u);
  expect_index(nacre_trainer_merged_at(&trainer, nullptr, 1), 1);
  expect_index(nacre_trainer_step(nullptr, 0.1f, 0, nullptr), 0);
  EXPECT_STREQ(nacre_port_name(nullptr), "");
  EXPECT_EQ(nacre_cuda_port(nullptr), nullptr);
  EXPECT_EQ(nacre_cuda_allocate(nullptr, 16), nullptr);
  EXPECT_STREQ(nacre_cuda_name(nullptr), "");
  EXPECT_EQ(nacre_cuda_times(nullptr, nullptr, 0), 0u);
  expect_index(nacre_cuda_count(nullptr, nullptr), 0);
  expect_index(nacre_cuda_measure(nullptr, 0), 0);
  nacre_cuda_release(nullptr, nullptr, 0);
  nacre_cuda_multiply_as_tf32(nullptr, 1);
  nacre_cuda_close(nullptr);
  nacre_program_unbind(nullptr);
}

}  // namespace
}  // namespace nacre::test
