// Makes a comparison of two programs as JSON, for nacre compare and nacre report.
#pragma once

#include <string>

#include "tools/base/json.h"
#include "tools/evaluate/comparison.h"
#include "tools/evaluate/program_report.h"

namespace nacre::tools {

// Names of a step's layer and of its policy. They are "" for a step without a layer.
std::string layer_name_of(const ProgramReport& report, uint32_t step);
std::string policy_name_of(const ProgramReport& report, uint32_t step);

// Infinity and NaN, which JSON lacks, become null. The keys `equal` and `not_finite` explain it.
Json comparison_json(const ProgramReport& a, const ProgramReport& b, const Comparison& comparison);

}  // namespace nacre::tools
