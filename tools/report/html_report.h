// Models side by side as one HTML page: what each costs, how good it is, which layers lose most, where the time goes.
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
  const Comparison* against_first = nullptr;  // null: the first, or nothing was run
  const Profile* profile = nullptr;           // null: it was not timed
  RanBy by = {};                              // that it was timed with
  std::string name = "";                      // "": that of its file
};

struct ReportedSet {  // labels were given
  const Evaluation* evaluation = nullptr;
  Metric metric;
  std::string metric_name;
  std::string calibrated = "";  // where ranges are from; "": none was measured here
};

// Makes the report. Equal models, sets and profiles give equal pages: a model that was not to be timed shows no time.
std::string html_report(const std::vector<ReportedModel>& models, const ReportedSet& set);

}  // namespace nacre::tools
