// nacre bench: measures how long a model takes on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/model/running.h"

namespace nacre::tools {

struct BenchOptions {
  std::string model;
  std::string target;  // target of the program, as in LoadedModel::find_program
  Running running;
  // The least number of runs, and the least time. Defaults: 50 runs and 1,000 ms; 1 run and 200 ms to warm up; fewer
  // if all would take longer than 4 s.
  std::optional<uint64_t> runs, least_ms, warmup_runs, warmup_ms;
  uint64_t seed = 1;  // seed of the inputs
  bool profile = false;
  bool json = false;
};

void bench(const BenchOptions& options);

}  // namespace nacre::tools
