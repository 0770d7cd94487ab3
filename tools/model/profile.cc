#include "tools/model/profile.h"

#include <algorithm>
#include <chrono>

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

// Microseconds of steps [first, last).
double timed(const BoundProgram& bound, uint32_t first, uint32_t last) {
  const Clock::time_point start = Clock::now();
  const Status status = bound.program().run(first, last, 0);
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  bound.loaded().require(status);
  return us;
}

}  // namespace

Profile profile(const BoundProgram& bound, uint64_t runs, const std::function<void()>& write_inputs) {
  const uint32_t steps = bound.program().view().step_count;
  Profile result;
  result.runs = runs;
  Progress progress("profile", 3 * runs);
  std::vector<double> whole;
  std::vector<std::vector<double>> single(steps);
  for (uint64_t run = 0; run < 3 * runs; ++run) {
    write_inputs();
    if (run < 2 * runs) {
      const double us = timed(bound, 0, steps);
      if (run == 0) result.first_us = us;
      if (run >= runs) whole.push_back(us);
    } else {
      for (uint32_t step = 0; step < steps; ++step) single[step].push_back(timed(bound, step, step + 1));
    }
    progress.show(run + 1);
  }
  result.us = median(std::move(whole));
  const std::string set = name_of_port(bound.ports()[0]);
  const Model& model = bound.loaded().model();
  for (uint32_t step = 0; step < steps; ++step) {
    const std::string kernel = name_of_kernel(bound.program().kernel(step), set);
    const StepWork work = step_work(model, model.steps()[bound.program().view().first_step + step]);
    const double least = least_seconds(tier_of_kernel(kernel), work) / bound.threads() * 1e6;
    result.steps.push_back({step, kernel, median(std::move(single[step])), least});
  }
  return result;
}

}  // namespace nacre::tools
