// Makes manual pages (roff, man(7)) from what the commands declare: `nacre man -o share/man/man1`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nacre::tools {

struct ManualPage {
  std::string name;  // "nacre-convert.1"
  std::string text;
};

// Returns one page for the tool and one for each command.
std::vector<ManualPage> manual(const CLI::App& app);

}  // namespace nacre::tools
