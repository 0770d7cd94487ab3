// nacre report: models side by side, or a network under several policies, as one self-contained HTML page.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct ReportOptions {
  std::vector<std::string> models;  // the first is the reference; or one network's file
  // Policies that a network is compiled in; the first is the reference.
  std::vector<std::string> policies = {"float32", "bfloat16", "int8_from_float32", "int8/weights_from_float32",
                                       "int4/32_from_float32"};
  std::vector<std::string> shapes;   // of axes that a network leaves open
  std::vector<std::string> ignored;  // settings of its file that are gone on without
  SetOptions set;                    // no data: nothing is run; no labels: errors only
  std::string calibrate;             // samples for ranges; "": some of the set (calibration_set.h)
  std::string output;                // the output that is judged; "": the only one
  std::string target;
  std::string html;  // the page to write
  Running running;
  bool profile = false;  // also the time of each layer
  bool cast_inputs = false;
};

void report(const ReportOptions& options);

}  // namespace nacre::tools
