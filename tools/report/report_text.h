// Writes a program's report as text, for `nacre inspect`.
#pragma once

#include <cstddef>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// Returns one line per layer, inputs and outputs, and memory, in lines of at most `width` characters.
std::string report_text(const ProgramReport& report, size_t width);

// Returns one line per step.
std::string steps_text(const ProgramReport& report, size_t width);

}  // namespace nacre::tools
