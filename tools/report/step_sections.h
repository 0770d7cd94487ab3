// Writes the first steps of a program into a page: a table, and a section for each step, to which the graph links.
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
  size_t count = 0;  // how many steps, from the first on, are shown
};

void add_step_table(Html& page, const StepSections& steps);
void add_step_sections(Html& page, const StepSections& steps);

}  // namespace nacre::tools
