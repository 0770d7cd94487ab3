// Writes a program's report as text, for `nacre inspect`.
#pragma once

#include <cstddef>
#include <string>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// Returns a table with a line per layer, at most `width` characters wide if possible, then inputs, outputs and memory.
std::string report_text(const ProgramReport& report, size_t width);

// Returns a table with a line per step, at most `width` characters wide if possible.
std::string steps_text(const ProgramReport& report, size_t width);

}  // namespace nacre::tools
