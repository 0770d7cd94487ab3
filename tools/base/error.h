// One sentence for whoever gave bad input: the place, the fact, the remedy. Thrown anywhere in the tools, caught in
// main.
//
// Each of the three may hold a path or a name from a file, which may hold anything: control characters are shown
// escaped. A fact that is a list has a line for each thing, which begins with two spaces.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace nacre::tools {

// Exit codes of every tool, documented in --help.
enum ExitCode { kSuccess = 0, kFailed = 1, kUsage = 2, kBadInput = 3, kUnsupported = 4, kIo = 5 };

// The remedy of an error that no input should bring about.
inline constexpr const char* kReportDefect = "this is a defect of the converter: report it with the network";

// Control characters as \n, \t, \r or \x1B. `list`: a new line before two spaces stays one.
std::string escaped(std::string_view text, bool list = false);

struct Error : std::runtime_error {
  Error(ExitCode exit_code, const std::string& place, const std::string& fact, const std::string& remedy = "")
      : std::runtime_error(escaped(place) + ": " + escaped(fact, true) +
                           (remedy.empty() ? "" : "\n    " + escaped(remedy, true))),
        code(exit_code) {}
  ExitCode code;
};

}  // namespace nacre::tools
