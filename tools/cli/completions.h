// Makes completions for shells from what the commands declare: `nacre completions bash`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nacre::tools {

enum class Shell { kBash, kZsh, kFish };

// Returns a script for the shell. It completes all commands of `app`, their options, the words that an option takes,
// and files if the option takes a file.
std::string completions(const CLI::App& app, Shell shell);

}  // namespace nacre::tools
