// Error: a message for the user who gave bad input. It names the place, the fact and the remedy. It is thrown anywhere
// in the tools. run_tool() prints it, unless code in between handles it.
//
// Place, fact and remedy may hold a path or a name from a file, with any characters: control characters are shown
// escaped. If the fact or the remedy is a list, each entry has a line, which begins with two spaces.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace nacre::tools {

// Exit codes of the command nacre, documented in its --help.
enum ExitCode { kSuccess = 0, kFailed = 1, kUsage = 2, kBadInput = 3, kUnsupported = 4, kIo = 5 };

// The remedy in an Error that no input file should cause.
inline constexpr const char* kReportDefect = "this is a defect of the converter: report it with the network";

// Writes control characters as \n, \t, \r or \x1B, format controls as \u202E. With `list`, "\n  " stays a line end.
std::string escaped(std::string_view text, bool list = false);

struct Error : std::runtime_error {
  Error(ExitCode exit_code, const std::string& place, const std::string& fact, const std::string& remedy = "")
      : std::runtime_error(escaped(place) + ": " + escaped(fact, true) +
                           (remedy.empty() ? "" : "\n    " + escaped(remedy, true))),
        code(exit_code) {}
  ExitCode code;
};

}  // namespace nacre::tools
