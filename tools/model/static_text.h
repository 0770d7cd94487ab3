// Writes text for static_source.cc and static_tables_source.cc, which alone include it: lists of a static program's
// C++, the first line of each generated file (build files too), and NAME.cc.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tools/base/version.h"
#include "tools/model/static_source.h"

namespace nacre::tools {

// Joins items into lines of at most 120 columns, each after `indent`.
template <class Items, class F>
std::string lines(const Items& items, const std::string& indent, const F& text_of) {
  std::string text, line = indent;
  for (const auto& item : items) {
    const std::string next = text_of(item) + ",";
    if (line.size() > indent.size() && line.size() + next.size() + 1 > 120) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + next;
  }
  return text + line + "\n";
}

// Returns the hash of the model file from which the tables were made, in hexadecimal. The self-test prints it.
inline std::string hash_text(const StaticTables& tables) {
  std::string text;
  for (const uint8_t byte : tables.hash) text += fmt::format("{:02x}", byte);
  return text;
}

inline std::string top(const StaticSource& s, const std::string& what, const char* comment = "//") {
  return fmt::format("{} {} of the model {} for {}: written by `nacre firmware` {}.\n", comment, what,
                     hash_text(s.tables), s.machine.name, kVersion);
}

// Returns NAME.cc: the programs' constants, and the variables that they use in RAM.
std::string static_tables_source(const StaticSource& source);

}  // namespace nacre::tools
