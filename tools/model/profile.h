// How long each step of a program takes, and which kernel runs it.
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
  double least_us = 0;  // of its roof (roof.h), on as many cores as there are threads; 0: not known here
  bool on_gpu = false;  // by the GPU's clock, with the wait for its launch (cuda::Device::Timing::kSteps)
};

struct Profile {
  std::vector<StepProfile> steps;
  double us = 0;        // of a whole run, median
  double first_us = 0;  // of the first run of all: caches are cold, pages not there yet
  double gpu_us = 0;    // of a whole run's kernels as one graph, by the GPU's clock, median; 0: none runs there
  uint64_t runs = 0;    // that were timed, after as many that were not
};

// Runs the program `runs` times as a whole and as often step by step, whose times are of single steps and so hold what
// reading the clock takes; where steps run on the GPU, as often as a whole by its clock too. After them the roof of
// each is measured. write_inputs() is called before each run.
Profile profile(const BoundProgram& bound, uint64_t runs, const std::function<void()>& write_inputs);

}  // namespace nacre::tools
