// nacre search: the policy map that makes a network smallest within limits, found by measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct SearchOptions {
  std::string network;
  std::vector<std::string> shapes;   // of axes that it leaves open
  std::vector<std::string> ignored;  // settings of its file that are gone on without
  SetOptions set;                    // what is measured on; the labels decide
  std::string calibrate;             // samples for ranges; "": some of the set (calibration_set.h)
  std::string output;                // the output that is judged; "": the only one
  std::vector<std::string> policies = {"float32", "bfloat16", "int8_from_float32", "int8/weights_from_float32",
                                       "int4/32_from_float32"};  // the first is the reference
  double max_drop = 0;                                           // in units of the metric
  std::optional<uint64_t> max_bytes;                             // of the model file
  std::optional<double> max_time_us;                             // median per sample, here
  int budget = 200;                                              // models that are compiled and run, at most
  std::string map;                                               // the policy file to write; "": none
  Running running;                                               // of what is measured
  bool cast_inputs = false;
  bool json = false;
};

// Throws Error(kFailed) after printing where no map that was measured meets the limits; then nothing is written.
void search(const SearchOptions& options);

}  // namespace nacre::tools
