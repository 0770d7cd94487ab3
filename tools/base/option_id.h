// How messages spell an option: code below the commands knows its id alone.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

inline std::string option(std::string_view id) { return "--" + std::string(id); }

}  // namespace nacre::tools
