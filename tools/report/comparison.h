// Two programs on the same inputs, tensor by tensor and output by output. A is the reference.
#pragma once

#include <string>
#include <vector>

#include "tools/npy.h"
#include "tools/report/error_measure.h"
#include "tools/report/tensor_match.h"

namespace nacre::tools {

struct ComparedTensor {
  uint32_t a, b;  // tensor ids
  uint32_t step;  // of A
  ErrorMeasure error;
};

struct ComparedOutput {
  uint32_t a, b;  // indices of the programs' outputs
  ErrorMeasure error;
  uint64_t rows = 0,
           same_best =
               0;  // rows along the last axis, and in how many the largest element is the same one
};

struct Comparison {
  std::vector<ComparedTensor> tensors;  // in A's order of execution
  std::vector<Unmatched> unmatched;
  std::vector<ComparedOutput> outputs;
  std::vector<std::string> notes;  // what was done to the data, as sentences
  uint64_t samples = 0;
};

// `data` by name of A's inputs; a single array may have any name. Throws Error where inputs or
// outputs do not fit together.
Comparison compare_programs(const ProgramReport& a, const ProgramReport& b, const NpzArrays& data);

}  // namespace nacre::tools
