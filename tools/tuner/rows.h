// Which rows are trained on, and in which order: pure functions of a seed, so that a run that is resumed goes on with
// the row that came next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::tools {

// A permutation of 0 .. rows - 1: Durstenfeld's shuffle (Knuth, TAOCP 2, 3.4.2, algorithm P)
//
//   for j = rows - 1 .. 1:  exchange order[j], order[k],   k drawn from 0 .. j
//
// by splitmix64 started at splitmix64(seed)'s first number + splitmix64(epoch)'s second.
std::vector<int64_t> shuffled(int64_t rows, uint64_t seed, uint64_t epoch);

struct Split {
  std::vector<int64_t> train, validate;  // rows, ascending
};

// Whether the seed chooses the rows for validation: --validate FRACTION, not ROWS.npy.
bool draws_rows(const std::string& validate);

// `validate`: "" for none; a fraction in (0, 1), of which the nearest number of rows is drawn by the seed, at least one
// and not all; or a .npy with the rows' numbers.
Split split_rows(int64_t rows, const std::string& validate, uint64_t seed);

}  // namespace nacre::tools
