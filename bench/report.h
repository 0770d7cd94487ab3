// The report that every benchmark program prints: where it ran, and one line per benchmark with the
// median of at least 11 repetitions.
//
//   infer/int8/reference/kws               11 x  25.31 ms   cv 0.4 %   0.105 GMAC/s
//
// Google Benchmark's own formats are there for machines: --benchmark_out=FILE, or
// --benchmark_format=json.
#pragma once

#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

namespace nacre::bench {

inline constexpr int kRepetitions = 11;

// Registers under a path such as "infer/int8/reference/kws"; only aggregates of kRepetitions runs
// are reported.
template <class F>
void add(const std::string& path, F function) {
  benchmark::RegisterBenchmark(path.c_str(), function)
      ->Repetitions(kRepetitions)
      ->ReportAggregatesOnly(true)
      ->UseRealTime();
}

// The name of the counter that holds a share of the roof: set_rate(state, kRoof, least seconds).
inline constexpr const char* kRoof = "roof";

// Sets a rate that the line shows in thousand millions: `per_iteration` units, such as "MAC/s", in each iteration.
void set_rate(benchmark::State& state, const char* unit, double per_iteration);

// Removes Google Benchmark's own options from the arguments. Returns false, and prints a sentence, if an option is
// unknown.
bool initialize(int* argc, char** argv);
int run_benchmarks();

std::filesystem::path project_root();  // NACRE_ROOT, else the folder that this was built from
// Returns the folder of MLPerf Tiny's networks: the first argument, else below NACRE_SHARED or ../shared.
std::filesystem::path models_folder(int argc, char** argv);

}  // namespace nacre::bench
