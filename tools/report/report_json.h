// Makes a model's report as JSON: its programs, layers, steps, operands and tensors, with full names.
#pragma once

#include "tools/base/print.h"
#include "tools/evaluate/program_report.h"

namespace nacre::tools {

Json tensor_json(const ProgramReport& report, uint32_t tensor);
Json program_json(const ProgramReport& report);
// Returns the model with a program_json of each program. `target` chooses the kernels that are named.
Json model_json(const LoadedModel& model, const std::string& target);

}  // namespace nacre::tools
