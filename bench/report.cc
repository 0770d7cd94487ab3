#include "bench/report.h"

#include <fmt/format.h>
#include <cstdlib>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <vector>

#include "bench_commit.h"

namespace nacre::bench {
namespace {

bool other_format = false;  // --benchmark_format was given: Google Benchmark's own reporter prints

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

std::string compiler_name() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

const char* build_kind() {
#if defined(__OPTIMIZE__)
  return "optimised";
#else
  return "NOT OPTIMISED: times mean nothing";
#endif
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s ", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.3f} us", seconds * 1e6);
  return fmt::format("{:.1f} ns", seconds * 1e9);
}

class MedianReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override {
    fmt::print("CPU       {}, {} cores, {:.2f} GHz nominal, scaling {}\n", cpu_name(), context.cpu_info.num_cpus,
               context.cpu_info.cycles_per_second / 1e9,
               context.cpu_info.scaling == benchmark::CPUInfo::DISABLED  ? "off"
               : context.cpu_info.scaling == benchmark::CPUInfo::ENABLED ? "on: times vary"
                                                                         : "unknown");
    fmt::print("compiler  {}, {}\ncommit    {}\n", compiler_name(), build_kind(), kCommit);
    fmt::print("load      {:.2f} at the start\n\n",
               context.cpu_info.load_avg.empty() ? 0.0 : context.cpu_info.load_avg[0]);
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    double median = NAN, variation = NAN;
    std::string rates, name, label;
    for (const Run& run : runs) {
      name = run.run_name.function_name;
      if (run.error_occurred) {
        fmt::print("{:<58} {}\n", name, run.error_message);
        std::fflush(stdout);
        return;
      }
      if (run.aggregate_name == "cv") variation = run.real_accumulated_time;
      if (run.aggregate_name != "median") continue;
      median = run.real_accumulated_time / double(std::max<int64_t>(1, run.iterations));
      label = run.report_label;
      for (const auto& [unit, counter] : run.counters)
        rates += unit != kRoof       ? fmt::format("   {:.3f} G{}", counter.value / 1e9, unit)
                 : counter.value > 0 ? fmt::format("   {:.0f} % of the roof", 100 * counter.value)
                                     : "";
    }
    fmt::print("{:<58} {:>12}   cv {:>5.1f} %{}{}\n", name, time_text(median), variation * 100, rates,
               label.empty() ? "" : "   " + label);
    std::fflush(stdout);
  }
};

}  // namespace

void set_rate(benchmark::State& state, const char* unit, double per_iteration) {
  state.counters[unit] = benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate);
}

bool initialize(int* argc, char** argv) {
  for (int i = 1; i < *argc; ++i) other_format |= std::string(argv[i]).starts_with("--benchmark_format");
  benchmark::Initialize(argc, argv);
  for (int i = 1; i < *argc; ++i) {
    if (argv[i][0] != '-') continue;
    fmt::print(stderr, "{}: {}: unknown option; --help lists them\n", argv[0], argv[i]);
    return false;
  }
  return true;
}

int run_benchmarks() {
  MedianReporter reporter;
  const size_t count =
      other_format ? benchmark::RunSpecifiedBenchmarks() : benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return count > 0 ? 0 : 1;
}

std::filesystem::path project_root() {
  const char* root = std::getenv("NACRE_ROOT");
  return root != nullptr ? root : NACRE_ROOT;
}

std::filesystem::path models_folder(int argc, char** argv) {
  if (argc > 1) return argv[1];
  const char* shared = std::getenv("NACRE_SHARED");
  const bool given = shared != nullptr && *shared != 0;
  return (given ? std::filesystem::path(shared) : project_root() / ".." / "shared") / "models" / "mlperf_tiny";
}

}  // namespace nacre::bench
