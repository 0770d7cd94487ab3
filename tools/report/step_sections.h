// The steps of a program one by one, in a page: a table of all, and of each a section, which the graph leads to.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tools/evaluate/program_report.h"
#include "tools/report/html.h"
#include "tools/report/plots/histogram.h"

namespace nacre::tools {

struct StepSections {
  const ProgramReport& report;
  std::string id;    // step 7 has the id `id` + "7"
  size_t count = 0;  // of the first ones, that are shown
};

void add_step_table(Html& page, const StepSections& steps);
void add_step_sections(Html& page, const StepSections& steps);

}  // namespace nacre::tools
