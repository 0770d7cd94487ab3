// Measures how long each step of a program takes, and tells which kernel runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct StepProfile {
  uint32_t step = 0;    // of the program
  std::string kernel;   // "avx2/dense_f32"
  double us = 0;        // median over the runs
  double least_us = 0;  // least time by the roof (roof.h), on as many cores as threads; 0: not known
  bool on_gpu = false;  // timed by the GPU's clock, with the wait for its launch (cuda::Device::Timing::kSteps)
};

struct Profile {
  std::vector<StepProfile> steps;
  double us = 0;        // of a whole run, median
  double first_us = 0;  // of the very first run: cold caches, pages not mapped yet
  double gpu_us = 0;    // of a whole run's kernels as one graph, by the GPU's clock, median; 0 if no step runs on a GPU
  uint64_t runs = 0;    // runs that were timed, after as many untimed ones
};

// Returns for each step whether a GPU runs it.
std::vector<bool> steps_on_gpu(const Program& program);

// Runs the program `runs` times to warm up, as often as a whole, and as often step by step. The times of single steps
// include reading the clock. If steps run on the GPU, runs the program as often again by its clock. Then finds the
// least possible time (roof.h) of each step of the host. Calls write_inputs() before each run.
Profile profile(const BoundProgram& bound, uint64_t runs, const std::function<void()>& write_inputs);

}  // namespace nacre::tools
