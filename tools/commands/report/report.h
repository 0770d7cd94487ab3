// nacre report: shows models side by side, or a network under several policies, as one self-contained HTML page.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/evaluation.h"

namespace nacre::tools {

struct ReportOptions {
  std::vector<std::string> models;  // the first is the reference; or one network's file
  // Policies under which a network is compiled; the first is the reference.
  std::vector<std::string> policies = {"float32", "bfloat16", "int8_from_float32", "int8/weights_from_float32",
                                       "int4/32_from_float32"};
  std::vector<std::string> shapes;   // for axes that a network leaves open
  std::vector<std::string> ignored;  // settings of its file to ignore
  SetOptions set;                    // no data: no comparison and no score; no labels: a comparison, but no score
  std::string calibrate;             // samples for ranges; "": taken from the set (calibration_set.h)
  std::string output;                // the output to judge; "": the only one
  std::string target;
  std::string html;  // the page to write
  Running running;
  bool profile = false;     // also times each layer
  bool no_latency = false;  // leaves out the latencies that the evaluation measures: equal models give equal pages
  bool cast_inputs = false;
  bool json = false;
};

void report(const ReportOptions& options);

}  // namespace nacre::tools
