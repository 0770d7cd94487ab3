// The goals of the CUDA port, G1 to G15: speed, work of the host, and numbers. Each has what was measured, or why
// nothing could be measured.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/cuda_timings.h"

namespace nacre::test {

enum class Reached { kYes, kNo, kNotThere };

struct GoalRow {
  std::string id, measure, wanted, found;
  Reached reached = Reached::kNotThere;
};

// Lines that claims cuda_equal and cuda_trains printed in the same run; "" if the claim did not run.
struct CheckedClaims {
  std::string equal, trains;
};

// `no_peer` says why torch times nothing; "" if it does.
std::vector<GoalRow> goal_rows(const CudaTimings& timings, const CheckedClaims& claims, const std::string& no_peer);

struct GoalCounts {
  int reached = 0, missed = 0, not_there = 0;  // counts of goals; a goal with a missed row is missed
};
GoalCounts count_goals(const std::vector<GoalRow>& rows);

const char* name_of(Reached reached);
std::string text_of(const Ratio& ratio);  // "1.02 [0.99, 1.04]"

}  // namespace nacre::test
