#include "tools/training/training.h"

#include <algorithm>

#include "tools/training/adapters.h"
#include "tools/training/derive.h"
#include "tools/training/parameters.h"
#include "tools/training/rematerialize.h"
#include "tools/training/training_quantizers.h"
#include "tools/training/update_program.h"

namespace nacre::tools {
namespace {

// Steps compute in the types of the layers' policies; what a policy quantizes is nodes already.
void apply_types(Graph& graph, const CompileOptions& options) {
  const std::vector<Layer> layers = graph.layers;
  for (Layer& layer : graph.layers) layer.policy.quantization = Quantization::kNone;
  apply_policy(graph, {.rounding = options.rounding, .io_types = options.io_types});
  check(graph);
  if (options.fuse) fuse(graph);
  check(graph);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].asked) graph.layers[i].policy = layers[i].policy;
}

}  // namespace

bool computes_in(Graph simplified, const PolicyRequest& policies, ElementType type) {
  resolve_policies(simplified, policies);
  return std::ranges::any_of(simplified.layers, [&](const Layer& layer) { return layer.asked && layer.policy.compute == type; });
}

TrainingModel compile_training(Graph simplified, const TrainingOptions& training, const CompileOptions& compiling,
                               const WriteOptions& writing) {
  resolve_policies(simplified, compiling.policies);
  TrainedParameters train = training.train;
  if (training.adapters.rank > 0) train = add_adapters(simplified, training.adapters, train, training.seed);
  const QuantizerPlan quantizers = plan_quantizers(simplified, compiling.calibration, training.quantizers);
  make_parameters(simplified, train);
  make_statistics(simplified, train);
  check(simplified);

  TrainingModel model;
  model.infer = simplified;
  add_quantizers(model.infer, quantizers, training.quantizers, false);
  add_quantizers(simplified, quantizers, training.quantizers, true);
  check(model.infer);
  check(simplified);
  const Commit commit = commit_quantizers(simplified, training.quantizers);
  Differentiated differentiated = differentiate(simplified, training, commit);
  check(differentiated.graph);
  if (!training.immediate) model.update = update_program(differentiated, training, commit);
  apply_types(model.infer, compiling);
  apply_types(differentiated.graph, compiling);
  Graph& backward = training.immediate ? model.update : model.gradients;
  backward = std::move(differentiated.graph);
  check(model.update);
  Graph* const readers[] = {&model.infer, &backward};
  model.derive = derive(readers);

  std::vector<ProgramSource> programs;
  const std::pair<Graph*, Entry> all[] = {{&model.infer, Entry::kInfer},
                                          {&model.gradients, Entry::kGradients},
                                          {&model.update, Entry::kUpdate},
                                          {&model.derive, Entry::kDerive}};
  for (const auto& [graph, entry] : all) {
    if (graph->nodes.empty()) continue;
    const bool whole = graph == &backward;
    if (whole && training.arena_limit > 0) model.rematerialized = rematerialize(*graph, training.arena_limit);
    if (entry == Entry::kInfer || whole) schedule(*graph, compiling.target);
    plan_memory(*graph, compiling.target);
    check(*graph);
    programs.push_back({.graph = graph, .entry = entry, .target = compiling.target.name});
  }
  model.bytes = write_model(programs, writing);
  return model;
}

}  // namespace nacre::tools
