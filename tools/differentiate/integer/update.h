// The program `update` of training in integers: verdict_codes, sgd_codes, pending_codes and write_codes of a share,
// update_error_range, count_step; all but the first are guarded by it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// A parameter that trains, by the names of its values.
struct IntegerParameter {
  std::string master, gradient, range;  // range: of the error that its gradient is made of; "": that of the loss
  std::vector<double> change;           // per channel: units of the master for a gradient of 1, at a rate of 1
  bool channels_last = false;           // else channels are axis 0
};

// Codes in state, by the names of values.
struct StoredCodes {
  std::string master, codes;  // "": a layer has none
  int bits = 0;               // of the master behind its code
};

// A layer of whose channels each step writes the codes of `count`.
struct PartialLayer {
  std::string name;
  StoredCodes weights, bias;  // one of them may be absent
  int count = 0;
  bool channels_last = false;
};

// Describes a matmul that trains. `bits`: bits of its masters behind their codes, by the name of the codes.
PartialLayer partial_layer(const Graph& graph, const Node& node, const std::map<std::string, int>& bits,
                           const TrainingOptions& options);

// The range of an error that is made of one or two others; "": of the loss's.
struct ErrorRange {
  std::string amax, range, of_error, of_other;
};

// Parts that a step commits. `ranges` in the order in which the program `gradients` makes their errors.
struct IntegerCommit {
  std::vector<IntegerParameter> parameters;
  std::vector<PartialLayer> partial;
  std::vector<ErrorRange> ranges;
};

Graph integer_update(const Graph& gradients, const IntegerCommit& commit);

}  // namespace nacre::tools
