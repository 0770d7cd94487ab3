// Tests device times of the CUDA port, by the simulated GPU's clock: 1 us per kernel and 1 ns per thread.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/run/on_device.h"

namespace nacre::test {
namespace {

using Timing = cuda::Device::Timing;

float sum_of_times(const cuda::Device& device) {
  float sum = 0;
  for (const cuda::Device::Time& time : device.times()) sum += time.us;
  return sum;
}

bool runs_like(OnDevice& placed, Placed& host) {
  for (Program* program : {&host.program, &placed.program}) {
    write_inputs(*program, program == &host.program ? host.model : placed.model);
    if (!program->run().ok()) return false;
  }
  return outputs_of(placed.program) == outputs_of(host.program);
}

TEST(cuda_times, every_step_has_its_kernels_name_and_the_time_that_the_clock_went_on) {
  size_t steps = 0;
  for (const ModelCase& c : cases()) {
    Placed host(c.make());
    if (host.model.program(0).entry != Entry::kInfer) continue;
    OnDevice placed(with_places(c.make(), {1}));
    ASSERT_TRUE(host.bind().ok() && placed.bind().ok()) << c.name;
    write_inputs(host.program, host.model);
    if (!host.program.run().ok()) continue;
    placed.device.time(Timing::kSteps);
    EXPECT_TRUE(runs_like(placed, host)) << c.name;
    const std::span<const cuda::Device::Time> times = placed.device.times();
    std::vector<const char*> kernels;
    for (uint32_t i = 0; i < placed.program.view().step_count; ++i)
      if (const char* name = cuda::Device::name_of(placed.program.kernel(i)); name != nullptr) kernels.push_back(name);
    ASSERT_EQ(times.size(), kernels.size()) << c.name;
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_STREQ(times[i].kernel, kernels[i]) << c.name << " " << i;
      const long threads = std::lround(double(times[i].us) * 1000) - 1000;
      EXPECT_TRUE(threads > 0 && threads % long{cuda::kBlockThreads} == 0) << c.name << " " << i << ": " << threads;
    }
    EXPECT_EQ(placed.driver.calls("cuGraphLaunch"), 0u) << c.name;
    EXPECT_EQ(placed.driver.broken(), 0u) << c.name;
    steps += times.size();
  }
  EXPECT_GT(steps, 100u);
}

TEST(cuda_times, a_graph_takes_as_long_as_its_steps_together) {
  Placed host(chain(5));
  OnDevice placed(with_places(chain(5), {1}));
  ASSERT_TRUE(host.bind().ok() && placed.bind().ok());
  placed.device.time(Timing::kSteps);
  ASSERT_TRUE(runs_like(placed, host));
  const float steps = sum_of_times(placed.device);
  placed.device.time(Timing::kGraphs);
  EXPECT_TRUE(placed.device.times().empty());
  ASSERT_TRUE(runs_like(placed, host) && runs_like(placed, host));
  ASSERT_EQ(placed.device.times().size(), 2u);  // one graph in each run
  for (const cuda::Device::Time& time : placed.device.times()) {
    EXPECT_EQ(time.kernel, nullptr);
    EXPECT_NEAR(time.us, steps, 1e-3f);
  }
  EXPECT_EQ(placed.device.counts().recordings, 1u);
}

TEST(cuda_times, events_are_made_once_and_given_back) {
  Placed host(chain(5));
  OnDevice placed(with_places(chain(5), {1}));
  ASSERT_TRUE(host.bind().ok() && placed.bind().ok());
  const uint64_t held = placed.driver.held();
  placed.device.time(Timing::kSteps);
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(runs_like(placed, host));
  EXPECT_EQ(placed.device.times().size(), 15u);
  EXPECT_EQ(placed.driver.calls("cuEventCreate"), 6u);
  EXPECT_EQ(placed.driver.held(), held + 6);
  placed.device.time(Timing::kNone);
  EXPECT_EQ(placed.driver.held(), held);
  ASSERT_TRUE(runs_like(placed, host));
  EXPECT_TRUE(placed.device.times().empty());
  EXPECT_EQ(placed.driver.calls("cuEventRecord"), 18u);  // none since
  placed.device.time(Timing::kGraphs);
  ASSERT_TRUE(runs_like(placed, host));
  placed.program.unbind();
  placed.device.close();  // with events that nobody gave back
  EXPECT_EQ(placed.driver.held(), 0u);
  EXPECT_EQ(placed.driver.broken(), 0u);
}

TEST(cuda_times, a_step_whose_guard_is_zero_has_a_time_too) {
  OnDevice placed(with_places(guarded(), {1}));
  ASSERT_TRUE(placed.bind().ok());
  placed.device.time(Timing::kSteps);
  for (const uint32_t go : {0u, 1u}) {
    write_inputs(placed.program, placed.model);
    std::memcpy(placed.program.input(1).data(), &go, sizeof go);
    ASSERT_TRUE(placed.program.run().ok());
  }
  EXPECT_EQ(placed.device.times().size(), 2 * size_t{placed.program.view().step_count});
}

TEST(cuda_times, every_call_that_fails_is_one_status_and_the_next_run_has_its_times) {
  Placed host(chain(4));
  ASSERT_TRUE(host.bind().ok());
  for (const auto& [timing, graph_calls] : {std::pair(Timing::kSteps, 0u), std::pair(Timing::kGraphs, 1u)})
    for (const char* symbol : {"cuEventCreate", "cuEventRecord", "cuEventElapsedTime_v2", "cuLaunchKernel",
                               "cuGraphLaunch", "cuStreamSynchronize"}) {
      uint64_t found = 0;
      for (;; ++found) {
        OnDevice placed(with_places(chain(4), {1}));
        ASSERT_TRUE(placed.bind().ok());
        placed.device.time(timing);
        write_inputs(placed.program, placed.model);
        placed.driver.fail(symbol, found);
        const Status status = placed.program.run();
        if (!placed.driver.failed()) break;
        const std::string what = std::string(symbol) + " " + std::to_string(found);
        EXPECT_EQ(status.code, Code::kPortFailed) << what;
        EXPECT_NE(std::string(placed.device.sentence()).find("719"), std::string::npos) << placed.device.sentence();
        placed.device.time(timing);  // times read before the failure are discarded
        EXPECT_TRUE(runs_like(placed, host)) << what;
        EXPECT_EQ(placed.device.times().size(), timing == Timing::kSteps ? 4u : 1u) << what;
        placed.program.unbind();
        placed.device.close();
        EXPECT_EQ(placed.driver.held(), 0u) << what;
        EXPECT_EQ(placed.driver.broken(), 0u) << what;
      }
      const bool called = std::string(symbol) != "cuGraphLaunch" || graph_calls != 0;
      EXPECT_EQ(found > 0, called) << symbol;
    }
}

}  // namespace
}  // namespace nacre::test
