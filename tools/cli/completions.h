// Completions for shells, made of what the commands declare: `nacre completions bash`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nacre::tools {

enum class Shell { kBash, kZsh, kFish };

// A script for the shell, of all commands of `app`, their options, the words that an option takes, and files where it
// takes one.
std::string completions(const CLI::App& app, Shell shell);

}  // namespace nacre::tools
