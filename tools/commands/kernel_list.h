// Lists the sets of kernels, and the kernels of one set, as tables and as JSON.
#pragma once

#include <string>

namespace nacre::tools {

// Lists the kernels of `set`, or the sets if `set` is "".
void list_kernels(const std::string& set, bool json);

}  // namespace nacre::tools
