// Writes the first screen of a report: findings, the models in a table, and as points over bytes and time.
#pragma once

#include <string>
#include <vector>

#include "tools/report/html.h"
#include "tools/report/html_report.h"

namespace nacre::tools {

// All models must have names.
void add_overview(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set);

void add_confusions(Html& page, const std::vector<ReportedModel>& models, const ReportedSet& set);

}  // namespace nacre::tools
