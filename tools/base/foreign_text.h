// Shows names and texts that come from files and may hold any character, on terminals, in pages, in CSV and in JSON.
//
// A format control is a character that changes how other characters are shown and is not seen itself: U+202E reverses a
// line, U+200B hides in a name. It is written as \u202E, which JSON reads as the character.
#pragma once

#include <string>
#include <string_view>

namespace nacre::tools {

std::string with_visible_controls(std::string_view text);

// Also writes control codes as escaped() does (error.h), except line ends and tabs.
std::string visible_lines(std::string_view text);

}  // namespace nacre::tools
