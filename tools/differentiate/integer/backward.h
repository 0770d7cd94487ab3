// Trains without floats (policy int8/full): errors and gradients are integers, parameters have integer masters, and
// scales stay as calibration made them. Formulas: engine/ops/integer_gradient.h and integer_update.h.
//
//   state       an int32 master per weight and bias of the layers that train. One code of a weight is 2^24 units. A
//               code of a bias is as many units as leave the bias room. Also the range of each error.
//   gradients   the deployed int8 program, the loss in integers, errors as int8 codes, sums in int32
//   update      the steps that integer/update.h names
//   derive      the codes of the masters, which infer and gradients read; empty if only a share is written per step
//
// Dense layers and convolutions train. Errors pass back through them, additions, reshapes, means over the map, and
// pools whose windows do not overlap.
#pragma once

#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

struct IntegerTraining {
  Graph gradients, update;
};

// Makes the programs of an integer training. `infer` is the int8 network after apply_policy. Its trained constants
// become codes of masters. `layers` are the indices of layers under int8/full; `options` may choose among them. Throws
// if an option needs floats, or if a layer cannot train so.
IntegerTraining train_in_integers(Graph& infer, const std::vector<int>& layers, const TrainingOptions& options);

}  // namespace nacre::tools
