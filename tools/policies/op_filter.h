// --only OPS and --except OPS, as Axon's apply_policy(model, policy, only: [...]) and except: which layers a policy is
// for, by what they compute. An op goes by its name here ("dense"), in the source ("Gemm", "FULLY_CONNECTED") and in
// Keras and Axon ("Dense"); capitals and '_' do not matter.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/policies/policy_error.h"

namespace nacre::tools {

class OpFilter {
 public:
  // At most one of them may be given; the filter refers to it. Neither: every layer is taken.
  OpFilter(const std::vector<std::string>& only, const std::vector<std::string>& except);

  bool takes(const Graph& graph, int layer) const;

 private:
  const std::vector<std::string>& names_;
  bool only_;
};

// Whether `name` names what the layer computes: the source's own operator; or a name of the same op in the table of
// op_filter.cc; or the op here, which may cover several of the source's ("clamp": Relu, Relu6, Clip).
bool layer_is(const Graph& graph, int layer, const std::string& name);

// Throws PolicyError "UnknownOp" with the nearest ones where nobody knows an op of this name, "NoSuchLayer" with the
// nearest and all of the network where no layer is one.
void check_op_name(const Graph& graph, const std::string& name, const Place& place);

}  // namespace nacre::tools
