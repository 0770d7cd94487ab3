#include "tools/model/profile.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "ports/cuda/cuda_port.h"
#include "tools/base/progress.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/roof.h"

namespace nacre::tools {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> times) {
  std::ranges::sort(times);
  const size_t n = times.size();
  return n == 0 ? 0 : (times[(n - 1) / 2] + times[n / 2]) / 2;
}

// Returns the microseconds of steps [first, last).
double timed(const BoundProgram& bound, uint32_t first, uint32_t last) {
  const Clock::time_point start = Clock::now();
  const Status status = bound.program().run(first, last, 0);
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  bound.loaded().require(status);
  return us;
}

using Timing = cuda::Device::Timing;

// For each step, its time in each run.
using StepTimes = std::vector<std::vector<double>>;

// Returns the times of steps [first, last) in one run, by the GPU's clock; for kGraphs the sum of its graphs.
std::vector<double> timed_on_gpu(const BoundProgram& bound, uint32_t first, uint32_t last, Timing timing) {
  cuda::Device& device = gpu_device();
  device.time(timing);
  timed(bound, first, last);
  std::vector<double> times;
  for (const cuda::Device::Time& time : device.times()) times.push_back(double(time.us));
  if (timing == Timing::kGraphs) times = {std::accumulate(times.begin(), times.end(), 0.0)};
  return times;
}

// Times one run step by step. Consecutive steps of the GPU run in one call, so that they wait only for launches.
void time_steps(const BoundProgram& bound, const std::vector<bool>& on_gpu, StepTimes& times) {
  const auto steps = uint32_t(on_gpu.size());
  for (uint32_t step = 0, end = 0; step < steps; step = end) {
    for (end = step; end < steps && on_gpu[end];) ++end;
    if (end > step) {
      const std::vector<double> segment = timed_on_gpu(bound, step, end, Timing::kSteps);
      for (uint32_t i = step; i < end; ++i) times[i].push_back(segment.at(i - step));
    } else {
      times[step].push_back(timed(bound, step, step + 1));
      end = step + 1;
    }
  }
}

// Stops the GPU's timing, so that no events stay behind.
struct TimedGpu {
  bool used;
  ~TimedGpu() {
    if (used) gpu_device().time(Timing::kNone);
  }
};

}  // namespace

std::vector<bool> steps_on_gpu(const Program& program) {
  std::vector<bool> on_gpu;
  for (uint32_t step = 0; step < program.view().step_count; ++step)
    on_gpu.push_back(cuda::Device::name_of(program.kernel(step)) != nullptr);
  return on_gpu;
}

Profile profile(const BoundProgram& bound, uint64_t runs, const std::function<void()>& write_inputs) {
  const uint32_t steps = bound.program().view().step_count;
  Profile result;
  result.runs = runs;
  const std::vector<bool> on_gpu = steps_on_gpu(bound.program());
  const TimedGpu gpu = {std::ranges::find(on_gpu, true) != on_gpu.end()};
  const uint64_t all_runs = (gpu.used ? 4 : 3) * runs;
  Progress progress("profile", all_runs);
  std::vector<double> whole, graphs;
  StepTimes single(steps);
  for (uint64_t run = 0; run < all_runs; ++run) {
    write_inputs();
    if (run < 2 * runs) {
      const double us = timed(bound, 0, steps);
      if (run == 0) result.first_us = us;
      if (run >= runs) whole.push_back(us);
    } else if (run < 3 * runs) {
      time_steps(bound, on_gpu, single);
    } else {
      graphs.push_back(timed_on_gpu(bound, 0, steps, Timing::kGraphs)[0]);
    }
    progress.show(run + 1);
  }
  result.us = median(std::move(whole));
  result.gpu_us = median(std::move(graphs));
  const std::string set = name_of_port(bound.ports()[0]);
  const Model& model = bound.loaded().model();
  for (uint32_t step = 0; step < steps; ++step) {
    const std::string kernel = name_of_kernel(bound.program().kernel(step), set);
    const StepWork work = step_work(model, model.steps()[bound.program().view().first_step + step]);
    const double least = on_gpu[step] ? 0 : least_seconds(tier_of_kernel(kernel), work) / bound.threads() * 1e6;
    result.steps.push_back({.step = step,
                            .kernel = kernel,
                            .us = median(std::move(single[step])),
                            .least_us = least,
                            .on_gpu = on_gpu[step]});
  }
  return result;
}

}  // namespace nacre::tools
