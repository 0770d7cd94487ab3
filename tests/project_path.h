// Paths of the tests' files: files of the project (NACRE_ROOT in the environment, or the folder of this build), and
// shared data (NACRE_SHARED, or beside the project), which may be missing.
#pragma once

#include <string>

namespace nacre::tools {

std::string project_path(const std::string& path);  // of a file of the project
std::string shared_path(const std::string& path);   // of shared data
std::string include_options();  // compiler options that find <nacre/...> and the headers that these include

}  // namespace nacre::tools
