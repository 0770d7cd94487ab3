// OpFilter says which layers a policy applies to, by what they compute: --only OPS and --except OPS, like only: and
// except: of Axon's apply_policy. An op has its name in engine/ops ("dense"), the source's ("Gemm", "FULLY_CONNECTED"),
// or that of Keras and Axon ("Dense"). Case and '_' do not matter.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

class OpFilter {
 public:
  // A filter of two empty lists takes all layers. If `only` has names, `except` is ignored. Keeps a reference to one.
  OpFilter(const std::vector<std::string>& only, const std::vector<std::string>& except);

  bool takes(const Graph& graph, int layer) const;

 private:
  const std::vector<std::string>& names_;
  bool only_;
};

// Returns whether `name` names what the layer computes: the source's operator, a name in the same row of the table of
// op_filter.cc, or the op's name in engine/ops. That may cover several operators ("clamp": Relu, Relu6, Clip).
bool layer_is(const Graph& graph, int layer, const std::string& name);

// Throws PolicyError "UnknownOp" with the nearest names if no op has this name. Throws "NoSuchLayer" with the nearest
// names and up to 20 ops of the network if no layer has this op.
void check_op_name(const Graph& graph, const std::string& name, const Place& place);

}  // namespace nacre::tools
