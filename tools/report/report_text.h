// A program's report as text: what `nacre inspect` prints.
#pragma once

#include <cstddef>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// One line per layer, inputs and outputs, memory; lines of at most `width` characters.
std::string report_text(const ProgramReport& report, size_t width);

// One line per step.
std::string steps_text(const ProgramReport& report, size_t width);

}  // namespace nacre::tools
