// Finds which kernel takes each step of a program without binding it: no memory is needed, and the tier need not run
// here.
#pragma once

#include <string>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Returns the set of kernels that comes before the reference: the tier of the program's own target; else that of
// `target` ("x86/avx2", "reference"); else, for "" or "host", the fastest that runs here. Throws if `target` names
// none.
std::string kernels_for(const LoadedModel& model, uint32_t program, const std::string& target);
bool names_kernels(const std::string& target);

// Names the kernel that bind picks for each step: "avx2/dense_f32", "reference/softmax_f32"; "" if no kernel takes the
// step. On the host, steps that name XNNPACK's place may get a kernel of XNNPACK.
std::vector<std::string> step_kernels(const LoadedModel& model, uint32_t program, const std::string& target);

bool is_reference(const std::string& kernel);  // "reference/..."

}  // namespace nacre::tools
