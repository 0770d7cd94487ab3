// Lists the constants of a network that training changes: their names, and how many numbers each has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

struct TrainedConstant {
  std::string name;
  int64_t numbers = 0;
};

// Returns the constants that make_parameters would train, in the order of the graph's values. Throws as
// make_parameters does.
std::vector<TrainedConstant> trained_constants(Graph graph, const TrainedParameters& options);

// Returns "trained: 6 constants, 99 numbers: a.weight, a.bias, .." with at most eight names. Lines are broken between
// names and have at most 88 columns, except for a name that is longer: TensorFlow Lite makes names of 400 columns.
std::vector<std::string> trained_lines(const std::vector<TrainedConstant>& constants);

}  // namespace nacre::tools
