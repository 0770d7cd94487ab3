// The sets of kernels there are, and what is in one, as tables and as JSON.
#pragma once

#include <string>

namespace nacre::tools {

// `set`: whose kernels are listed; "": the sets.
void list_kernels(const std::string& set, bool json);

}  // namespace nacre::tools
