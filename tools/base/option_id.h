// How messages spell an option: code below the commands knows its id alone.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

// "--batch 8" of "batch" and "8"; for a program that calls commands as its functions (Caller), as it writes arguments.
std::string option(std::string_view id, std::string_view value = {});

}  // namespace nacre::tools
