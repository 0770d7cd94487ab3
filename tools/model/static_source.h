// Writes the C++ of a static program, which `nacre firmware` makes from the tables (static_tables.h).
//
//   NAME.h            declares NAME_program, NAME_self_test and, for a training, NAME_training, in C and C++
//   NAME.cc           the tables, the arena and all other RAM of the program
//   NAME_weights.cc   weights, one aligned array
//   NAME_test.cc      golden pairs, and the self-test that runs them
//   NAME_main.c       a C program that only runs the self-test, for a board with a standard output
//   CMakeLists.txt, NAME.mk, meson.build   build files (static_builds.h)
// The sources include only installed headers of this library. Macros name the sections that a linker script may place
// apart: NACRE_WEIGHTS_SECTION, NACRE_GOLDEN_SECTION, and NACRE_BANK_<I>_SECTION for bank I of the arena.
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
  std::string name;                // a C identifier, in the names of files and symbols
  std::vector<GoldenPair> golden;  // pairs that the self-test runs
};

// Returns the files' names with their text.
std::vector<std::pair<std::string, std::string>> static_source(const StaticSource& source);

}  // namespace nacre::tools
