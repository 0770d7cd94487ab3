// The program `update` of training in integers: verdict_codes, sgd_codes, update_error_range, count_step; all but the
// first are guarded by it.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

// A parameter that trains, by the names of its values.
struct IntegerParameter {
  std::string master, gradient, range;  // range: of the error that its gradient is made of; "": that of the loss
  std::vector<double> change;           // per channel: units of the master for a gradient of 1, at a rate of 1
  bool channels_last = false;           // else channels are axis 0
};

// The range of an error that is made of one or two others; "": of the loss's.
struct ErrorRange {
  std::string amax, range, of_error, of_other;
};

// `ranges` in the order in which the program `gradients` makes their errors.
Graph integer_update(const Graph& gradients, const std::vector<IntegerParameter>& parameters,
                     const std::vector<ErrorRange>& ranges);

}  // namespace nacre::tools
