// Layers that a policy quantizes are trained as what they will be: steps in the graph round what an integer or float8
// layer would, and gradients pass through them.
//
//   int8/static    fake_quantize on the weights and on every activation that the converter would give codes, over a
//                  range that quantize_static would share among them: trained, or running (observe_range,
//                  update_range). While ranges run, training rounds by the ends of the micro-batch: nothing is cut
//   int8/weights, int4, int8   fake_quantize on the weights, by the rule of each; int8 also on the rows of x
//   float8         fake_float8 on x and w (E4M3), fake_float8_gradient behind y (E5M2), each with a scale, an amax
//                  history and counters in state and the amax of the step in the step block; update_scales commits them
//   float8/current the same by scales of the values themselves
//
// The program `infer` gets the same rounding without what observes, so that it computes what is trained. Bias codes
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
  StaticValues values;              // activations of int8/static layers, as they stand when batch norms are folded
  std::vector<std::string> ranges;  // by group: name of the state value, "" where the range is fixed
  std::vector<Range> initial;       // by group
};

// `simplified`: policies resolved, parameters still constants. `calibration`: null where no data was given; learned
// ranges need it. Throws where a layer's policy cannot be trained.
QuantizerPlan plan_quantizers(const Graph& simplified, const Calibration* calibration,
                              const QuantizerTraining& options);

// After make_parameters, before differentiate. `trains`: of `gradients`, with what observes; else of `infer`.
void add_quantizers(Graph& graph, const QuantizerPlan& plan, const QuantizerTraining& options, bool trains);

// Nodes by which `update` commits the quantizers' state. `graph`: as add_quantizers left it for training.
Commit commit_quantizers(const Graph& graph, const QuantizerTraining& options);

// Ranges and amax histories that training found, as if they had been measured on data: from `state`, by the names of
// the network's values. For compile() of the network with its trained parameters, under the same policies.
// `simplified`: as it was given to compile_training, policies resolved.
Calibration trained_calibration(const Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
