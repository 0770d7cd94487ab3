// Which tensors of two models hold the same thing: those of the same name, else the results of
// layers of the same name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/program_report.h"

namespace nacre::tools {

struct TensorPair {
  uint32_t a, b;            // tensor ids
  uint32_t step_a, step_b;  // of the programs: the ones that complete them
};

struct Unmatched {
  bool in_a;
  uint32_t tensor, step;  // the step completes it
  std::string why;        // where there was a namesake
};

struct TensorMatch {
  std::vector<TensorPair> pairs;  // in A's order of execution
  std::vector<Unmatched> unmatched;
};

// Of what steps make; inputs are not compared, and views of what was made neither. A tensor whose
// name was stripped has none.
TensorMatch match_tensors(const ProgramReport& a, const ProgramReport& b);

// Whether both have the same elements in the same order, axes of 1 apart.
bool same_shape(const TensorRecord& a, const TensorRecord& b);

}  // namespace nacre::tools
