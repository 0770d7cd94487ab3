// Makes the build files that `nacre firmware` writes beside its sources, for a project that takes in a static program.
//
//   CMakeLists.txt   add_subdirectory(DIR) gives the library NAME; find_package(nacre) comes before it
//   NAME.mk          include DIR/NAME.mk gives $(NAME_objects); NACRE is the folder where nacre was installed
//   meson.build      subdir('DIR') gives the dependency NAME; nacre is installed, or a subproject
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nacre::tools {

// Returns the files' names with their text, which begins with the comment `origin`.
std::vector<std::pair<std::string, std::string>> static_builds(const std::string& name, const std::string& origin);

}  // namespace nacre::tools
