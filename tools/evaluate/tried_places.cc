#include "tools/evaluate/tried_places.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "tools/base/error.h"
#include "tools/base/progress.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLeastRounds = 11, kMostRounds = 1001;
constexpr std::chrono::seconds kEnough{2};  // after it no round is begun beyond kLeastRounds
constexpr double kLeastUs = 1e-3;           // in place of 0, if the clock did not advance
constexpr uint64_t kSeed = 1;               // seed of the inputs

// Returns the quantile of sorted numbers for a share such as 1/4, interpolated linearly.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1);
  const auto below = size_t(at);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (at - double(below)) * (above - sorted[below]);
}
Quartiles quartiles(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return {quantile(numbers, 0.25), quantile(numbers, 0.5), quantile(numbers, 0.75)};
}
double median(const std::vector<double>& numbers) { return quartiles(numbers).median; }

Quartiles ratios(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> all;
  for (size_t i = 0; i < of.size(); ++i) all.push_back(of[i] / std::max(to[i], kLeastUs));
  return quartiles(std::move(all));
}

// A program bound to kernels of the given ports (sets of kernels), and the times of its runs.
class TimedProgram {
 public:
  TimedProgram(std::span<const uint8_t> bytes, const std::string& name, Ports ports,
               const std::shared_ptr<const ThreadPool>& threads)
      : model_(bytes, name, kReportDefect), bound_(model_, 0, std::move(ports), threads),
        inputs_(seeded_inputs(model_, 0, kSeed)), steps_(bound_.program().view().step_count) {}

  std::string kernel(uint32_t step) const {
    return name_of_kernel(bound_.program().kernel(step), name_of_port(bound_.ports()[0]));
  }
  void run_whole() { whole_.push_back(timed(0, uint32_t(steps_.size()), true)); }
  void run_steps() {
    for (uint32_t i = 0; i < steps_.size(); ++i) steps_[i].push_back(timed(i, i + 1, i == 0));
  }
  void forget() {
    whole_.clear();
    for (std::vector<double>& step : steps_) step.clear();
  }
  const std::vector<double>& whole() const { return whole_; }  // microseconds, by round
  const std::vector<double>& step(uint32_t i) const { return steps_[i]; }

 private:
  double timed(uint32_t first, uint32_t last, bool with_inputs) {
    const Program& program = bound_.program();
    size_t at = 0;
    for (uint32_t i = 0; with_inputs && i < program.input_count(); ++i) {
      std::memcpy(program.input(i).data(), inputs_.data() + at, program.input(i).size());
      at += program.input(i).size();
    }
    const Clock::time_point start = Clock::now();
    const Status status = program.run(first, last, 0);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    model_.require(status);
    return us;
  }

  LoadedModel model_;
  BoundProgram bound_;
  std::vector<uint8_t> inputs_;
  std::vector<double> whole_;
  std::vector<std::vector<double>> steps_;
};

// Runs both programs in turns, each first in every second round. Drops the times of the warm-up rounds. Returns the
// number of the other rounds.
uint64_t rounds(TimedProgram& a, TimedProgram& b, void (TimedProgram::*run)(), const std::string& what) {
  constexpr uint64_t kWarmUp = 3;
  Progress progress(what, kMostRounds);
  Clock::time_point start;
  for (uint64_t round = 0;; ++round) {
    if (round == kWarmUp) a.forget(), b.forget(), start = Clock::now();
    const uint64_t timed = round < kWarmUp ? 0 : round - kWarmUp;
    if (timed == kMostRounds || (timed >= kLeastRounds && Clock::now() - start > kEnough)) return timed;
    progress.show(timed);
    TimedProgram *const first = round % 2 == 0 ? &a : &b, *const second = round % 2 == 0 ? &b : &a;
    (first->*run)();
    (second->*run)();
  }
}

}  // namespace

TriedPlaces try_places(const std::function<std::vector<uint8_t>(std::span<const uint8_t> places)>& write, size_t steps,
                       uint32_t threads, const std::string& name) {
  const Ports ports = {port_named("auto"), port_named("xnnpack")};
  // one pool for both programs, because the threads of a pool spin for a while after its work
  const std::shared_ptr<const ThreadPool> pool = make_threads(threads);
  const std::vector<uint8_t> none(steps, 0), all(steps, kXnnpackPlace);
  TimedProgram own(write(none), name, ports, pool);
  TimedProgram xnnpack(write(all), name, ports, pool);
  TriedPlaces tried;
  tried.own = name_of_port(ports[0]);
  tried.rounds = rounds(own, xnnpack, &TimedProgram::run_steps, "tune steps");
  for (uint32_t i = 0; i < steps; ++i) {
    TriedStep step = {.own = own.kernel(i), .xnnpack = xnnpack.kernel(i), .own_us = median(own.step(i))};
    if (!step.xnnpack.starts_with("xnnpack/")) step.xnnpack.clear();
    if (!step.xnnpack.empty()) {
      ++tried.taken;
      step.xnnpack_us = median(xnnpack.step(i));
      step.ratio = ratios(xnnpack.step(i), own.step(i));
    }
    tried.places.push_back(step.faster() ? kXnnpackPlace : 0);
    tried.steps.push_back(std::move(step));
  }
  if (tried.places == none) return tried;
  own.forget();
  TimedProgram moved(write(tried.places), name, ports, pool);
  tried.whole_rounds = rounds(own, moved, &TimedProgram::run_whole, "tune whole runs");
  tried.own_us = median(own.whole());
  tried.moved_us = median(moved.whole());
  tried.ratio = ratios(moved.whole(), own.whole());
  if (!tried.moved()) tried.places = none;
  return tried;
}

}  // namespace nacre::tools
