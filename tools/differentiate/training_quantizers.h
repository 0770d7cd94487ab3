// Trains layers that a policy quantizes. Steps in the graph round as the integer or float8 layer will, and gradients
// pass through them.
//
//   int8/static    fake_quantize on the weights and on every activation that the converter would give codes, over a
//                  range that quantize_static would share among them. The range is trained, or running (observe_range,
//                  update_range). While ranges run, training rounds by the ends of the micro-batch: nothing is cut
//   int8/weights, int4, int8   fake_quantize on the weights, by the rule of each; int8 also on the rows of x
//   float8         fake_float8 on x and w (E4M3), fake_float8_gradient behind y (E5M2). Each has a scale, an amax
//                  history and counters in state, and the step's amax in the step block. update_scales commits them
//   float8/current like float8, but with scales from the current values, and without state
//
// The program `infer` gets the same rounding without observers, so it computes the network that is trained. Bias codes
// (int32) are not simulated: their steps are scale_x scale_w, far below those of y.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/quantize_static.h"
#include "tools/differentiate/options.h"
#include "tools/differentiate/update_program.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct QuantizerPlan {
  StaticValues values;              // activations of int8/static layers, as after folding batch norms
  std::vector<std::string> ranges;  // by group: name of the state value, "" if the range is fixed
  std::vector<Range> initial;       // by group
};

// Plans the quantizers. `simplified` has its policies resolved, and its parameters are still constants. `calibration`
// is null if no data was given. Learned ranges need it. Throws if a layer's policy cannot be trained.
QuantizerPlan plan_quantizers(const Graph& simplified, const Calibration* calibration,
                              const QuantizerTraining& options);

// Adds the quantizers after make_parameters, before differentiate. `trains` is true for `gradients`, which has
// observers, and false for `infer`. Of the options it reads those of the quantizers and of the loss.
void add_quantizers(Graph& graph, const QuantizerPlan& plan, const TrainingOptions& options, bool trains);

// Returns the nodes with which `update` commits the quantizers' state. `graph` is as add_quantizers left it for
// training.
Commit commit_quantizers(const Graph& graph, const QuantizerTraining& options);

// Returns the ranges and amax histories that training found, as a calibration. It reads them from `state`, by the
// names of the network's values. compile() uses it for the network with its trained parameters, under the same
// policies. `simplified` is as it was given to compile_training, with policies resolved.
Calibration trained_calibration(const Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
