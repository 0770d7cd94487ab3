// differentiate: the forward graph becomes the program `gradients`: forward, loss, backward, sums in the step block.
//
// The gradient tables of the ops (OpRule::gradients) drive the pass. It walks the nodes in reverse and emits the step
// that the table names for every input that depends on a trained parameter. Gradients of a value that several nodes
// read are added. Gradients that no parameter needs are not computed: training the last two layers makes no backward
// step before them.
#pragma once

#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// A sum of the step block that the update program commits.
struct GradientOf {
  std::string parameter, gradient;  // names of the state value and of the step value
  std::vector<std::string> layers;  // that read the parameter
  bool decays = true;               // weights do, biases and what norms hold only where all do
};

struct StatisticsOf {  // of one batch norm: running mean and variance, and the sums that feed them
  std::string running_mean, running_variance, mean_sum, variance_sum, batches;
};

struct Differentiated {
  Graph graph;
  ElementType sums = ElementType::kFloat32;  // of gradients and loss: float64 where a trained layer computes in it
  std::vector<GradientOf> gradients;
  std::vector<StatisticsOf> statistics;
};

// Further nodes that a step commits, over `values` (state and step values; ids in `nodes` are indices here). They run
// under the guard, after the running statistics. Values that the program `gradients` has are the same ones, by name.
struct Commit {
  std::vector<Value> values;
  std::vector<Node> nodes;
};

// Names of the values that the programs of a training model share.
inline constexpr const char *kGradientsName = "gradients", *kLossName = "loss_sum", *kCountName = "sample_count",
                            *kLossScaleName = "loss_scale", *kStepCountName = "step_count",
                            *kMicroBatchName = "micro_batch", *kSeedName = "seed";

// `graph`: simplified, real-valued, policies resolved, parameters in state (make_parameters). Its first output is what
// the loss looks at; a softmax or sigmoid that ends it is looked through by the loss that contains it. `commit`: for
// --update immediate, where the program commits what it finds.
Differentiated differentiate(const Graph& graph, const TrainingOptions& options, const Commit& commit = {});

}  // namespace nacre::tools
