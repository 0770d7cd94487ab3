// A model's report for machines: everything that the file says about its programs, names whole.
#pragma once

#include "tools/base/print.h"
#include "tools/evaluate/program_report.h"

namespace nacre::tools {

Json tensor_json(const ProgramReport& report, uint32_t tensor);
Json program_json(const ProgramReport& report);
// With a program_json of each program; `target`: whose kernels are named.
Json model_json(const LoadedModel& model, const std::string& target);

}  // namespace nacre::tools
