// Spells an option in messages, because the code that writes a message may know only the option's id ("batch").
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

// Returns "--batch 8" for "batch" and "8". A caller (caller.h) that calls commands as functions spells it as an
// argument.
std::string option(std::string_view id, std::string_view value = {});

}  // namespace nacre::tools
