// Training without a float (policy int8/full): errors and gradients are integers, parameters are integer masters, and
// scales stay as calibration made them. Formulas: engine/ops/integer_gradient.h and update.h.
//
//   state       a master per weight and bias of the layers that train, int32: 2^24 to a code of a weight, as many to
//               one of a bias as leaves it room; the range of each error
//   gradients   the deployed int8 program, the loss in integers, errors as int8 codes, sums in int32
//   update      verdict_codes, sgd_codes, update_error_range, count_step
//   derive      codes of masters, which infer and gradients read
//
// Dense layers and convolutions train. An error passes back through them, sums, reshapes, means over the map and pools
// whose windows do not overlap.
#pragma once

#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

struct IntegerTraining {
  Graph gradients, update;
};

// `infer`: the int8 network after apply_policy and fuse; its trained constants become codes of masters. `layers`: those
// under int8/full, of which `options` may choose. Throws where an option needs floats, or a layer cannot train so.
IntegerTraining train_in_integers(Graph& infer, const std::vector<int>& layers, const TrainingOptions& options);

}  // namespace nacre::tools
