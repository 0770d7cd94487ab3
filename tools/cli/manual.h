// Manual pages (roff, man(7)), made of what the commands declare: `nacre man -o share/man/man1`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nacre::tools {

struct ManualPage {
  std::string name;  // "nacre-convert.1"
  std::string text;
};

// One of the tool, and one of each command.
std::vector<ManualPage> manual(const CLI::App& app);

}  // namespace nacre::tools
