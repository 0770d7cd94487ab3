// The loss scale that the policies of a network's layers ask of its training.
#pragma once

#include <string>

#include "engine/numeric/policy.h"
#include "tools/graph/graph.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct PolicyLossScale {
  bool said = false;  // some policy names a loss scale, be it none
  LossScale kind = LossScale::kNone;
  float value = 0;           // of a fixed one
  bool float16 = false;      // a layer computes in float16
  std::string origin;        // "--policy 'mixed_float16;loss_scale=128'", or the layer that says it
  std::string numbers = {};  // of a dynamic one: TfLossScale::numbers
};

// A training has one loss scale. It is the one that the layers' policies name; where they name several, that of the
// policy of the whole network (as with tf.keras's global policy), else PolicyError names two of the layers
// (Contradiction). A layer that names none counts only if it computes in float16: others need none.
// `resolved`: a graph for which resolve_policies has run with this request. `overridden`: --loss-scale decides, so that
// policies may differ; the first is what it takes the place of.
PolicyLossScale loss_scale_of_policies(const Graph& resolved, const PolicyRequest& request, bool overridden = false);

}  // namespace nacre::tools
