// Names and texts of files, which may hold anything, as they are shown: on terminals, in pages, in CSV and in JSON.
//
// A format control is a character that changes how others are shown and is not seen itself: U+202E turns a line around,
// U+200B hides in a name. It is written as \u202E, which in JSON is the character itself.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

std::string with_visible_controls(std::string_view text);

// Control codes too, as escaped() writes them (error.h), but for the ends of lines and tabs.
std::string visible_lines(std::string_view text);

}  // namespace nacre::tools
