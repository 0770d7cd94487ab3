// Makes an HTML page that compares models: costs, quality, the layers that lose most, the time of each layer.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/comparison.h"
#include "tools/evaluate/evaluation.h"
#include "tools/evaluate/program_report.h"
#include "tools/model/profile.h"

namespace nacre::tools {

struct ReportedModel {
  const ProgramReport* program;
  const Comparison* against_first = nullptr;  // null: the first model, or nothing was run
  const Profile* profile = nullptr;           // null: it was not timed
  RanBy by = {};                              // kernels and threads of the timing
  std::string name = "";                      // "": the name of its file
};

struct ReportedSet {
  const Evaluation* evaluation = nullptr;  // null: no labels were given
  Metric metric;
  std::string metric_name;
  std::string calibrated = "";      // source of the ranges; "": none was measured here
  bool leaves_latency_out = false;  // does not show the latencies of the evaluation
};

// Makes the report. Equal models, sets and profiles give equal pages. Latencies are the profile's, else those of the
// evaluation; without either, the page says that none was measured.
std::string html_report(const std::vector<ReportedModel>& models, const ReportedSet& set);

}  // namespace nacre::tools
