// Models side by side as one HTML page: what they are, what each layer's policy costs, how far they are from the first.
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
  std::string kernels = "";                   // that it was timed with
};

struct ReportedSet {  // labels were given
  const Evaluation* evaluation = nullptr;
  Metric metric;
  std::string metric_name;
};

std::string html_report(const std::vector<ReportedModel>& models, const ReportedSet& set);

}  // namespace nacre::tools
