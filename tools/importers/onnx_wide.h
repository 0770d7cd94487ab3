// Operators on more axes than a value has, kMaxRank: onnx_wide.cc. Private to tools/importers.
#pragma once

#include <cstdint>
#include <vector>

namespace nacre::tools::onnx_import {

class Import;
class Source;

// False: no operand has so many axes, or the operator has no form here.
bool import_wide(Import& import, const Source& source);

// A transpose of at most kMaxRank axes: of x seen with `dims`.
struct TransposeStep {
  std::vector<int64_t> dims;
  std::vector<int> perm;
};
// One after another they are the transpose of any number of axes up to 8; none where no element moves.
std::vector<TransposeStep> transpose_steps(std::vector<int64_t> dims, std::vector<int> perm);

// Shapes that broadcast, with neighbouring axes as one along which the same of them have one index; all of one rank.
std::vector<std::vector<int64_t>> joined_axes(const std::vector<std::vector<int64_t>>& shapes);

}  // namespace nacre::tools::onnx_import
