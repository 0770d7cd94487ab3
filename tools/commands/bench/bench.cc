#include "tools/commands/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/base/table.h"
#include "tools/commands/bench/profile_table.h"
#include "tools/model/golden.h"
#include "tools/model/program_cost.h"

namespace nacre::tools {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

struct Times {  // times of single runs in microseconds; all functions but mean() and deviation() need them sorted
  std::vector<double> us;

  // Returns the smallest time that p of 100 runs do not exceed.
  double percentile(double p) const { return us[size_t(std::ceil(p / 100 * double(us.size()))) - 1]; }
  double median() const { return (us[(us.size() - 1) / 2] + us[us.size() / 2]) / 2; }
  double mean() const {
    double sum = 0;
    for (const double t : us) sum += t;
    return sum / double(us.size());
  }
  double deviation() const {
    const double middle = mean();
    double sum = 0;
    for (const double t : us) sum += (t - middle) * (t - middle);
    return std::sqrt(sum / double(us.size()));
  }
};

// How often the program is run: at least `runs` times, and for at least `ms` milliseconds. Unless the user asked for
// more, kMostSeconds limits it.
struct Repeats {
  uint64_t runs, ms;
  bool asked;  // the user gave the numbers: kMostSeconds does not end the runs
};

constexpr uint64_t kRuns = 50, kRunsMs = 1000, kWarmUps = 1, kWarmUpMs = 200, kProfiled = 20;
constexpr double kMostSeconds = 4;        // limit for all runs together, unless the user asked for more
constexpr size_t kMostTimes = 2'000'000;  // `ms` alone asks for no more runs than this: their times take 16 MB

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options), model_(options.model), program_(model_.infer_program(options.target)),
        bound_(bind_to_run(model_, program_, options.running)), inputs_(seeded_inputs(model_, program_, options.seed)) {
  }

  void run() {
    first_us_ = one_run();
    const bool warms = options_.warmup_runs || options_.warmup_ms;
    // After a long first run there is no warm-up, unless the user asked for one.
    if (warms || first_us_ < kMostSeconds / 8 * 1e6)
      warm_up_ =
          repeat({options_.warmup_runs.value_or(kWarmUps), options_.warmup_ms.value_or(kWarmUpMs), warms}).us.size();
    if (warms) begun_ = Clock::now();  // a warm-up that the user asked for does not shorten the timed runs
    const bool asked = options_.runs || options_.least_ms;
    times_ = repeat({options_.runs.value_or(kRuns), options_.least_ms.value_or(kRunsMs), asked});
    std::ranges::sort(times_.us);
    if (options_.profile) profile_ = profile(bound_, profiled_runs(), [&] { write_inputs(); });
    options_.json ? print_as_json() : print_text();
  }

 private:
  void write_inputs() {
    const Program& program = bound_.program();
    model_.require(program.start());  // every run begins a stream, because a full cache would take no more
    size_t at = 0;
    for (uint32_t i = 0; i < program.input_count(); ++i) {
      const std::span<std::byte> input = program.input(i);
      std::memcpy(input.data(), inputs_.data() + at, input.size());
      at += input.size();
    }
  }

  double one_run() {
    write_inputs();
    const Clock::time_point start = Clock::now();
    const Status status = bound_.program().run();
    const double us = seconds(Clock::now() - start) * 1e6;
    model_.require(status);
    return us;
  }

  // Runs and times as `repeats` says. Unless `asked`, a run that would probably end after kMostSeconds is not begun.
  Times repeat(const Repeats& repeats) {
    Times times;
    const Clock::time_point start = Clock::now();
    const auto wanted = [&] {
      const size_t done = times.us.size();
      const bool more =
          done < repeats.runs || (done < kMostTimes && seconds(Clock::now() - start) * 1000 < double(repeats.ms));
      if (!more || repeats.asked || done == 0) return more;
      return seconds(Clock::now() - begun_) + times.us.back() / 1e6 < kMostSeconds;
    };
    while (wanted()) times.us.push_back(one_run());
    return times;
  }

  // Returns how many runs to profile. profile() does each three times: to warm up, as a whole, by steps (on GPUs 4).
  uint64_t profiled_runs() const {
    if (options_.runs) return std::max(kProfiled, *options_.runs);
    const double within = kMostSeconds / 2 * 1e6 / 3 / times_.median();
    return std::clamp<uint64_t>(uint64_t(within), 1, kRuns);
  }

  bool cut_short() const { return !options_.runs && times_.us.size() < kRuns; }

  uint64_t memory() const { return bound_.sizes().total(); }

  void print_text() const {
    const Statistics s = statistics(model_, program_);
    const RanBy by = ran_by(bound_);
    print(fmt::format("{}: {} kernels, {}, batch {}, {} multiply-accumulates, {} bytes of memory\n", options_.model,
                      by.kernels, counted(uint64_t(by.threads), "thread"), s.batch, grouped(s.multiply_accumulates),
                      grouped(memory())));
    print(fmt::format(
        "first run {:.2f} us; {} to warm up; then {}{}:\n", first_us_, counted(warm_up_, "run"),
        counted(times_.us.size(), "run"),
        cut_short() ? fmt::format(", fewer than {} so that all end within 5 s (--runs N: as many)", kRuns) : ""));
    print(
        fmt::format("min {:.2f}  median {:.2f}  mean {:.2f}  p90 {:.2f}  p99 {:.2f}  max {:.2f} us, "
                    "standard deviation {:.2f} us\n",
                    times_.us.front(), times_.median(), times_.mean(), times_.percentile(90), times_.percentile(99),
                    times_.us.back(), times_.deviation()));
    if (s.multiply_accumulates > 0)
      print(fmt::format("{:.2f} GMAC/s at the median\n", double(s.multiply_accumulates) / times_.median() / 1000));
    if (profile_) print("\n" + profile_text(model_, program_, *profile_, terminal_width()));
  }

  void print_as_json() const {
    Json report = {{"model", options_.model},
                   {"kernels", ran_by(bound_).kernels},
                   {"threads", ran_by(bound_).threads},
                   {"batch", statistics(model_, program_).batch},
                   {"multiply_accumulates", statistics(model_, program_).multiply_accumulates},
                   {"memory_bytes", memory()},
                   {"first_us", first_us_},
                   {"warm_up_runs", warm_up_},
                   {"runs", times_.us.size()},
                   {"cut_short", cut_short()},
                   {"min_us", times_.us.front()},
                   {"median_us", times_.median()},
                   {"mean_us", times_.mean()},
                   {"p90_us", times_.percentile(90)},
                   {"p99_us", times_.percentile(99)},
                   {"max_us", times_.us.back()},
                   {"standard_deviation_us", times_.deviation()}};
    if (profile_) report["profile"] = profile_json(model_, program_, *profile_);
    print_json(report);
  }

  Clock::time_point begun_ = Clock::now();
  const BenchOptions& options_;
  LoadedModel model_;
  uint32_t program_;
  BoundProgram bound_;
  std::vector<uint8_t> inputs_;
  double first_us_ = 0;
  size_t warm_up_ = 0;
  Times times_;
  std::optional<Profile> profile_;
};

}  // namespace

void bench(const BenchOptions& options) { Bench(options).run(); }

}  // namespace nacre::tools
