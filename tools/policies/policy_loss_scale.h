// Finds the loss scale of a training from the policies of the network's layers.
#pragma once

#include <string>

#include "engine/numeric/policy.h"
#include "tools/graph/graph.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct PolicyLossScale {
  bool said = false;  // true if a policy names a loss scale, even none
  LossScale kind = LossScale::kNone;
  float value = 0;           // a fixed scale
  bool float16 = false;      // true if a layer that has a policy computes in float16
  std::string origin;        // "--policy 'mixed_float16;loss_scale=128'", or the layer that names the scale
  std::string numbers = {};  // numbers of a dynamic scale: TfLossScale::numbers
};

// Returns the one loss scale that a training has: the one that the layers' policies name. If they name several, the
// policy of the whole network decides (as tf.keras's global policy does). If that policy has no loss scale, PolicyError
// names two of the layers (Contradiction). A policy that says "none" counts only if its layer computes in float16,
// because other layers need no scale. resolve_policies has run on `resolved` with this request. `overridden` says that
// --loss-scale decides: policies may then differ, and the first one is returned.
PolicyLossScale loss_scale_of_policies(const Graph& resolved, const PolicyRequest& request, bool overridden = false);

}  // namespace nacre::tools
