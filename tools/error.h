// One sentence for whoever gave bad input: the place, the fact, the remedy. Thrown anywhere in the tools, caught in main.
#pragma once

#include <stdexcept>
#include <string>

namespace nacre::tools {

// Exit codes of every tool, documented in --help.
enum ExitCode { kSuccess = 0, kFailed = 1, kUsage = 2, kBadInput = 3, kUnsupported = 4, kIo = 5 };

struct Error : std::runtime_error {
  Error(ExitCode exit_code, const std::string& place, const std::string& fact, const std::string& remedy = "")
      : std::runtime_error(place + ": " + fact + (remedy.empty() ? "" : "\n    " + remedy)), code(exit_code) {}
  ExitCode code;
};

}  // namespace nacre::tools
