// Chooses the rows that are trained on, and their order. All are pure functions of a seed, so that a resumed run goes
// on with the row that came next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::tools {

// Returns a permutation of 0 .. rows - 1 by Durstenfeld's shuffle (Knuth, TAOCP 2, 3.4.2, algorithm P)
//
//   for j = rows - 1 .. 1:  exchange order[j], order[k],   k drawn from 0 .. j
//
// k comes from splitmix64, started at the first number of splitmix64(seed) + the second of splitmix64(epoch).
std::vector<int64_t> shuffled(int64_t rows, uint64_t seed, uint64_t epoch);

struct Split {
  std::vector<int64_t> train, validate;  // rows, ascending
};

// Returns whether the seed chooses the rows for validation: --validate FRACTION, not ROWS.npy.
bool draws_rows(const std::string& validate);

// `validate` is "" for no validation; a fraction in (0, 1), for which the seed draws the nearest number of rows, at
// least one and not all; or a .npy with the rows' numbers, or with a bool for each row.
Split split_rows(int64_t rows, const std::string& validate, uint64_t seed);

}  // namespace nacre::tools
