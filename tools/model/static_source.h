// The C++ of a static program: what `nacre firmware` writes of the tables (static_tables.h).
//
//   NAME.h            declares NAME_program, NAME_self_test and, of a training, NAME_training, in C and C++
//   NAME.cc           the tables, the arena and what else of RAM it takes
//   NAME_weights.cc   weights, one aligned array
//   NAME_test.cc      golden pairs, and the self-test that runs them
//   NAME_main.c       a C program that does nothing else, for a board with a standard output
//
// They include the engine's headers and link its library: nothing else. Sections that a linker script may place apart
// are named by macros: NACRE_WEIGHTS_SECTION, NACRE_GOLDEN_SECTION, and NACRE_BANK_<I>_SECTION of bank I of the arena.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/model/static_tables.h"
#include "tools/model/writer.h"

namespace nacre::tools {

struct StaticSource {
  const LoadedModel& model;
  const TargetMachine& machine;
  const StaticTables& tables;
  std::string name;                // an identifier of C: of the files and of the symbols
  std::vector<GoldenPair> golden;  // that the self-test runs
};

// File names with their text.
std::vector<std::pair<std::string, std::string>> static_source(const StaticSource& source);

}  // namespace nacre::tools
