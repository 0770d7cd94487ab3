// Every tensor of one run, each at the moment it is complete: <step>_<name>.npy, and index.json beside them.
#pragma once

#include <vector>

#include "tools/files/output_files.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Per arena tensor of the program, the step after which it is complete, -1 for inputs: the step that writes it. A
// tensor that no step writes is a view of such a one (a reshape), or is written in parts, through views of it (a
// concat): then the last of those.
std::vector<int> completing_steps(const Model& model, const ProgramView& view);

// Runs `bound`, whose inputs have been written, step by step, and adds the files. Steps count from 0 within the
// program; inputs come before the first and are named input_<name>.npy.
void dump_tensors(const BoundProgram& bound, uint32_t program, OutputFiles& files);

}  // namespace nacre::tools
