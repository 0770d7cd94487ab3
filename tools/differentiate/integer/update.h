// The program `update` of integer training. Its steps are verdict_codes, sgd_codes, pending_codes and write_codes of a
// share, update_error_range, count_step. The first one guards all others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// A parameter that trains, by the names of its values.
struct IntegerParameter {
  std::string master, gradient, range;  // range: of the error behind the gradient; "" for the loss
  std::vector<double> change;           // per channel: units of the master for a gradient of 1, at a rate of 1
  bool channels_last = false;           // if false, channels are axis 0
};

// Codes in state, by the names of values.
struct StoredCodes {
  std::string master, codes;  // "" if the layer has none
  int bits = 0;               // number of bits of the master below its code
};

// A layer of which each step writes the codes of only `count` channels.
struct PartialLayer {
  std::string name;
  StoredCodes weights, bias;  // one of them may be absent
  int count = 0;
  bool channels_last = false;
};

// Describes a matmul that trains. `bits` has the number of bits of each master below its code, by the codes' name.
PartialLayer partial_layer(const Graph& graph, const Node& node, const std::map<std::string, int>& bits,
                           const TrainingOptions& options);

// The range of an error that is computed from one or two others. A name is "" for no error and for the loss's error.
struct ErrorRange {
  std::string amax, range, of_error, of_other;
};

// Names of what the update of a step changes. `ranges` has the order in which `gradients` computes their errors.
struct IntegerCommit {
  std::vector<IntegerParameter> parameters;
  std::vector<PartialLayer> partial;
  std::vector<ErrorRange> ranges;
};

Graph integer_update(const Graph& gradients, const IntegerCommit& commit);

}  // namespace nacre::tools
