// nacre bench: how long a model takes on this machine.
#pragma once

#include <cstdint>
#include <string>

namespace nacre::tools {

struct BenchOptions {
  std::string model;
  std::string target;            // of the program in the file, as LoadedModel::find_program takes it
  std::string kernels = "auto";  // kernel_choice.h
  uint32_t threads = 1;
  uint64_t warmup_runs = 1, runs = 50;        // at least
  uint64_t warmup_ms = 200, least_ms = 1000;  // and so long
  uint64_t seed = 1;                          // of the inputs
  bool profile = false;
  bool json = false;
};

void bench(const BenchOptions& options);

}  // namespace nacre::tools
