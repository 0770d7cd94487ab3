// nacre search: measures policy maps (a policy for each layer) and finds one with the smallest file within limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct SearchOptions {
  std::string network;
  std::vector<std::string> shapes;   // for axes that it leaves open
  std::vector<std::string> ignored;  // settings of its file to ignore
  SetOptions set;                    // samples to run and the labels that score them
  std::string calibrate;             // samples for ranges; "": taken from the set (calibration_set.h)
  std::string output;                // the output to judge; "": the only one
  std::vector<std::string> policies = {"float32", "bfloat16", "int8_from_float32", "int8/weights_from_float32",
                                       "int4/32_from_float32"};  // the first is the reference
  double max_drop = 0;                                           // in units of the metric
  std::optional<uint64_t> max_bytes;                             // of the model file, with its metadata
  std::optional<double> max_time_us;                             // median per sample, on this machine
  int budget = 200;                                              // at most this many models are compiled and run
  std::string map;                                               // the policy file to write; "": none
  Running running;                                               // kernels and threads of measured runs
  bool cast_inputs = false;
  bool json = false;
};

// Prints the result. Throws Error(kFailed) if no measured map meets the limits, and writes nothing then.
void search(const SearchOptions& options);

}  // namespace nacre::tools
