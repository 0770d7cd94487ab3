// Finds which kernel takes each step of a program without binding it: no memory is needed, and the instruction set need
// not be this machine's.
#pragma once

#include <string>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns the name of the kernel set that is asked first: the tier (kernel_choice.h) of the program's own target; else
// that of `target` ("x86/avx2", "reference"); else, for "" or "host", the fastest that runs here. Throws Error if
// `target` names no set of kernels.
std::string kernels_for(const LoadedModel& model, uint32_t program, const std::string& target);
bool names_kernels(const std::string& target);

// Returns the kernel that bind picks for each step: "avx2/dense_f32", "reference/softmax_f32"; "" if no kernel takes
// the step. For "" and "host", steps that name XNNPACK's place may get a kernel of XNNPACK.
std::vector<std::string> step_kernels(const LoadedModel& model, uint32_t program, const std::string& target);

bool is_reference(const std::string& kernel);  // "reference/..."

}  // namespace nacre::tools
