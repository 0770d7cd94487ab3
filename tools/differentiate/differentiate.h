// differentiate() turns the forward graph into the program `gradients`: forward pass, loss, backward pass. Sums of
// gradients are in the region `step`.
//
// The gradient tables of the ops (OpRule::gradients) drive the pass. It walks the nodes in reverse and emits the step
// that the table names for every input that depends on a trained parameter. Gradients of a value that several nodes
// read are added. Gradients that no parameter needs are not computed. For example, training only the last two layers
// adds no backward step before them.
#pragma once

#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// A trained parameter and the sum of its gradients, which the update program reads. With --update immediate there is no
// such sum, and `gradient` is not used.
struct GradientOf {
  std::string parameter, gradient;  // names of the state value and of the step value
  std::vector<std::string> layers;  // the layers that read the parameter
  bool decays = true;               // whether weight decay applies; false for biases and parameters of norms
};

struct StatisticsOf {  // one batch norm: its running mean and variance, and the sums for them
  std::string running_mean, running_variance, mean_sum, variance_sum, batches;
};

struct Differentiated {
  Graph graph;
  // The type of gradients and loss. float64 if a trained layer computes in float64.
  ElementType sums = ElementType::kFloat32;
  std::vector<GradientOf> gradients;
  std::vector<StatisticsOf> statistics;
};

// Further nodes of an update, which read and write `values` (state and step values). Ids in `nodes` are indices of
// `values`. The nodes run after the running statistics, under the same guard. A value of the name of one in `gradients`
// is that one.
struct Commit {
  std::vector<Value> values;
  std::vector<Node> nodes;
};

// Names of the values that the programs of a training model share.
inline constexpr const char *kGradientsName = "gradients", *kLossName = "loss_sum", *kCountName = "sample_count",
                            *kLossScaleName = "loss_scale", *kStepCountName = "step_count",
                            *kMicroBatchName = "micro_batch", *kSeedName = "seed";

// Differentiates a graph that is simplified and real-valued, with policies resolved and parameters in state
// (make_parameters). The loss reads the output that options.loss names, or the first. If a softmax or sigmoid makes it
// and the loss contains that function, the loss reads the function's operand. `commit` is for --update immediate, under
// which this program updates the parameters itself.
Differentiated differentiate(const Graph& graph, const TrainingOptions& options, const Commit& commit = {});

}  // namespace nacre::tools
