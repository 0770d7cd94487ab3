// Paths of the tests' files: files of the project (NACRE_ROOT in the environment, else the folder of this build) and
// shared data (NACRE_SHARED, else beside the project), which may not be there.
#pragma once

#include <string>

namespace nacre::tools {

std::string project_path(const std::string& path);  // of a file of the project
std::string shared_path(const std::string& path);   // of shared data
std::string include_options();  // of a compiler that is to find <nacre/...> and what these headers include

}  // namespace nacre::tools
