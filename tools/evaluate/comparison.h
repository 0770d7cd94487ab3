// Compares two programs on the same inputs, tensor by tensor and output by output. A is the reference.
#pragma once

#include <string>
#include <vector>

#include "tools/evaluate/error_measure.h"
#include "tools/evaluate/tensor_match.h"
#include "tools/files/npy.h"
#include "tools/model/running.h"

namespace nacre::tools {

struct ComparedTensor {
  uint32_t a, b;          // tensor ids
  uint32_t step, step_b;  // the steps of A and of B that complete the tensor
  ErrorMeasure error;
  uint64_t saturated = 0;  // elements of B at the ends of their type: evaluate/decode.h

  double saturated_share() const { return error.elements() == 0 ? 0 : double(saturated) / double(error.elements()); }
};

struct ComparedOutput {
  uint32_t a, b;  // indices of the programs' outputs
  ErrorMeasure error;
  uint64_t saturated = 0;            // as in ComparedTensor
  uint64_t rows = 0, same_best = 0;  // rows along the last axis, and rows whose largest element has the same index
};

struct Comparison {
  std::vector<ComparedTensor> tensors;  // in A's order of execution
  std::vector<Unmatched> unmatched;
  std::vector<ComparedOutput> outputs;
  std::vector<std::string> notes;  // changes made to the data, as sentences
  uint64_t samples = 0;
  RanBy by_a = {}, by_b = {};
};

// Sorts the most damaged tensors first: by SQNR, lowest first, then by the relative error.
void sort_by_damage(Comparison& comparison);

// Compares the programs. `data` is by the names of A's inputs; a single array may have any name. Both programs get
// the same samples, converted to the types of their inputs (evaluate/sample_data.h). `cast` allows exact changes of
// type. Throws Error if inputs or outputs do not fit together.
Comparison compare_programs(const ProgramReport& a, const ProgramReport& b, const NpzArrays& data, bool cast,
                            const Running& running);

}  // namespace nacre::tools
