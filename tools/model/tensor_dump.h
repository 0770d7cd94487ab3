// Collects every arena tensor of one run, each when it is complete, as <step>_<name>.npy, and index.json beside them.
#pragma once

#include <functional>
#include <vector>

#include "tools/files/output_files.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns for each arena tensor of the program the step after which it is complete, -1 for inputs. That is the step
// that writes it. A tensor that no step writes is a view of one (a reshape), or is written in parts through views of
// it (a concat): then it is complete after the last of these steps.
std::vector<int> completing_steps(const Model& model, const ProgramView& view);

// Runs `bound` step by step. Calls take(tensor, step) for each arena tensor as soon as it is complete after this step,
// which counts from 0 within the program; for inputs before the first step, with -1.
void run_and_take(const BoundProgram& bound, const std::function<void(uint32_t tensor, int step)>& take);

// Runs `bound` step by step and adds the files. Its inputs must have been written. Steps count from 0 within the
// program. Inputs come before the first step and are named input_<name>.npy.
void dump_tensors(const BoundProgram& bound, OutputFiles& files);

}  // namespace nacre::tools
