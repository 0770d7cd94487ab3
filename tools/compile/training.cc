#include "tools/compile/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/calibration/quantize_static.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/derive.h"
#include "tools/differentiate/float8_biases.h"
#include "tools/differentiate/float8_products.h"
#include "tools/differentiate/integer/backward.h"
#include "tools/differentiate/integer/policy.h"
#include "tools/differentiate/loss_output.h"
#include "tools/differentiate/parameters.h"
#include "tools/differentiate/rematerialize.h"
#include "tools/differentiate/trained_channels.h"
#include "tools/differentiate/trained_codes.h"
#include "tools/differentiate/training_forward.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/differentiate/update_program.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

constexpr const char *kNotTrained = "not_trained", *kFrozenMetadata = "frozen";

// Gives the steps the types of the layers' policies and fuses them. Quantizers of the policies are nodes already.
void apply_types(Graph& graph, const CompileOptions& options) {
  const std::vector<Layer> layers = graph.layers;
  for (Layer& layer : graph.layers) layer.policy.quantization = Quantization::kNone;
  apply_policy(graph, {.rounding = options.rounding, .io_types = options.io_types});
  check(graph);
  if (options.fuse) fuse(graph, options.target);
  check(graph);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].asked) graph.layers[i].policy = layers[i].policy;
}

// Makes the constants that `training` selects into parameters, and adds adapters and quantizers. `graph` becomes the
// network to differentiate, `infer` the inference network. Policies must be resolved.
void make_reals_trainable(Graph& graph, Graph& infer, const TrainingOptions& training,
                          const CompileOptions& compiling) {
  TrainedParameters train = training.train;
  split_channels(graph, train);
  if (training.adapters.rank > 0) train = add_adapters(graph, training.adapters, train, training.seed);
  refuse_quantized_forms(graph);
  const QuantizerPlan quantizers = plan_quantizers(graph, compiling.calibration, training.quantizers);
  make_parameters(graph, train);
  store_frozen_forms(graph);
  make_statistics(graph, train);
  check(graph);
  infer = graph;
  leave_out_dropout(infer);
  add_quantizers(infer, quantizers, training, false);
  add_quantizers(graph, quantizers, training, true);
  check(infer);
  check(graph);
}

// Returns the network as it is deployed in int8. Leaves in `graph` the same network before apply_policy.
Graph int8_network(Graph& graph, const TrainedParameters& train, const CompileOptions& compiling) {
  refuse_fits(graph);
  refuse_shared_codes(graph, train);
  simplify(graph);
  StaticOptions options;
  if (!compiling.range_remedy.empty()) options.range_remedy = compiling.range_remedy;
  quantize_static(graph, compiling.calibration, options);
  Graph infer = graph;
  leave_out_dropout(infer);
  apply_policy(infer, {.rounding = compiling.rounding, .io_types = compiling.io_types});
  check(infer);
  if (compiling.fuse) fuse(infer, compiling.target);
  return infer;
}

// Makes `infer` the int8 network as it is deployed, and its codes trainable. `graph` then treats them as source codes.
void make_codes_trainable(Graph& graph, Graph& infer, const TrainingOptions& training,
                          const CompileOptions& compiling) {
  infer = int8_network(graph, training.train, compiling);
  for (Layer& layer : graph.layers)
    if (layer.policy.quantization == Quantization::kInt8Static) layer.asked = false;
  train_codes(graph, infer, training.train);
  check(infer);
  check(graph);
}

uint64_t arena_bytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (const Bank& bank : graph.banks) bytes += bank.used;
  return bytes;
}

// Plans the memory of a scheduled program, if possible within `limit` bytes of arena. rematerialize() bounds the bytes
// that live at one time; the arena is larger if its blocks leave gaps. The next trial then lowers the bound by the
// excess. The last trial has the bound 0, for the fewest bytes. `graph` becomes the smallest plan found.
Rematerialized plan_within(Graph& graph, uint64_t limit, const Target& target) {
  constexpr int kTrials = 4;
  Rematerialized done;
  Graph best;
  uint64_t goal = limit;
  for (int trial = 0; trial < kTrials; ++trial) {
    Graph attempt = graph;
    const Rematerialized found = rematerialize(attempt, goal, kernels_of(target));
    schedule(attempt, target);
    plan_memory(attempt, target);
    const uint64_t used = arena_bytes(attempt);
    if (trial == 0 || used < arena_bytes(best)) done = found, best = std::move(attempt);
    if (used <= limit || goal <= kAlignment) break;
    goal = !found.reached || used - limit >= goal || trial == kTrials - 2 ? 0 : goal - (used - limit);
  }
  graph = std::move(best);
  return done;
}

}  // namespace

void require_arena_limit(const TrainingModel& made, const TrainingOptions& training) {
  uint64_t least = 0;
  const auto add = [&](const TrainingPrograms& programs) {
    for (const Graph* graph : {&programs.infer, &programs.gradients, &programs.update, &programs.derive})
      if (!graph->nodes.empty()) least = std::max(least, arena_bytes(*graph));
  };
  add(made);
  std::ranges::for_each(made.others, add);
  if (training.arena_limit == 0 || least <= training.arena_limit) return;
  throw Error(kUsage, option("arena-limit"),
              fmt::format("{} bytes cannot be reached: the least that was found is {}", grouped(training.arena_limit),
                          grouped(least)),
              "give at least that, or take a smaller " + option("batch") + ", fewer layers (" + option("train-last") +
                  "), or " + option("update", "immediate"));
}

void require_batch_norm(const TrainingModel& made, const TrainingOptions& training) {
  const auto operand = [&](const Node& node, size_t slot) -> const Value& {
    return made.infer.values[size_t(node.inputs[slot])];
  };
  const auto trains = [&](const Node& node) {
    const auto trainable = [&](size_t slot) {
      const Value& v = operand(node, slot);
      return v.trainable || v.region == Region::kDerived;  // computed from trained tensors
    };
    if (node.op != Op::kBatchNorm || operand(node, 3).frozen) return false;
    if (operand(node, 3).region == Region::kState || trainable(3)) return true;  // its statistics change
    return trainable(1) || trainable(2) || (operand(node, 1).fixed && operand(node, 2).fixed);
  };
  const bool any = std::ranges::any_of(made.infer.nodes, trains), frozen = training.train.frozen_batch_norm;
  const std::tuple<std::string, bool, bool> options[] = {
      {option("freeze-batch-norm"), frozen, any},
      {option("unbiased-variance"), training.unbiased_variance, any && !frozen},
      {option("batch-norm-momentum"), training.batch_norm_momentum != TrainingOptions().batch_norm_momentum,
       any && !frozen}};
  for (const auto& [name, given, acts] : options)
    if (given && !acts)
      throw Error(kUsage, name, "is about running statistics, and no batch norm here changes its own", "leave it out");
}

bool draws(const TrainingModel& made, const TrainingOptions& training) {
  const auto drops = [](const Node& node) { return node.op == Op::kDropout; };
  return training.adapters.rank > 0 || std::ranges::any_of(made.gradients.nodes, drops) ||
         std::ranges::any_of(made.update.nodes, drops);
}

std::vector<std::string> not_trained_of(const LoadedModel& model) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : model.metadata()) {
    if (key != kNotTrained) continue;
    std::istringstream text(value);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  return lines;
}

FrozenLayers frozen_of(const LoadedModel& model) {
  FrozenLayers found;
  for (const auto& [key, value] : model.metadata()) {
    if (key != kFrozenMetadata) continue;
    std::istringstream text(value);
    std::string line;
    std::getline(text, line);
    RE2::FullMatch(line, R"(\d+ of (\d+) layers?, (\d+) of (\d+) weights)", &found.of_layers, &found.weights,
                   &found.of_weights);
    while (std::getline(text, line)) found.names.push_back(line);
  }
  return found;
}

Json frozen_json(const FrozenLayers& frozen) {
  return {{"layers", frozen.names},
          {"of_layers", frozen.of_layers},
          {"weights", frozen.weights},
          {"of_weights", frozen.of_weights}};
}

namespace {

// Compiles a training in integers. `full` lists the layers under int8/full, which run as int8/static here.
TrainingPrograms integer_programs(Graph simplified, const std::vector<int>& full, const TrainingOptions& training,
                                  const CompileOptions& compiling) {
  TrainingPrograms made;
  made.target = compiling.target;
  made.infer = int8_network(simplified, training.train, compiling);
  IntegerTraining steps = train_in_integers(made.infer, full, training);
  made.gradients = std::move(steps.gradients);
  made.update = std::move(steps.update);
  Graph* const readers[] = {&made.infer, &made.gradients};
  for (Graph* reader : readers) {
    for (const int layer : full) reader->layers[size_t(layer)].policy.quantization = Quantization::kInt8Full;
    check(*reader);
  }
  check(made.update);
  derive(readers, &made.derive);
  for (Graph* reader : readers) pack_weights(*reader, compiling.target);
  derive(readers, &made.derive);  // adds the steps that pack weights
  for (Graph* reader : readers) schedule(*reader, compiling.target);
  for (Graph* graph : {&made.infer, &made.gradients, &made.update, &made.derive}) {
    plan_memory(*graph, compiling.target);
    check(*graph);
  }
  return made;
}

// Returns `asked`. If ranges freeze after a number of steps, adds to it the steps that the source's training made.
TrainingOptions counted_from(const Graph& graph, const TrainingOptions& asked) {
  TrainingOptions options = asked;
  uint32_t& steps = options.quantizers.freeze_steps;
  const uint32_t before = resumed_steps(graph, asked.optimizer.kind);
  if (steps > 0) steps = before > UINT32_MAX - steps ? UINT32_MAX : steps + before;
  return options;
}

// Compiles the programs of a training from the simplified graph with its policies resolved.
TrainingPrograms training_programs(Graph simplified, const TrainingOptions& asked, const CompileOptions& compiling) {
  const TrainingOptions training = counted_from(simplified, asked);
  if (const std::vector<int> full = run_full_as_static(simplified); !full.empty()) {
    const QuantizerTraining usual;
    const QuantizerTraining& q = training.quantizers;
    if (q.range_momentum != usual.range_momentum || q.freeze_steps != usual.freeze_steps)
      throw Error(kUsage, q.freeze_steps > 0 ? option("freeze-ranges") : option("range-momentum"),
                  "is about running ranges, and those of int8/full stay", "leave it out");
    return integer_programs(std::move(simplified), full, training, compiling);
  }
  if (training.share > 0)
    throw Error(kUsage, option("train-share"), "is about layers under int8/full, and no layer has that policy",
                "add " + option("policy", "int8/full_from_float32") + " " + option("calibrate", "FILE") + " " +
                    option("optimizer", "sgd") + ", or leave it out");
  TrainingPrograms made;
  made.target = compiling.target;
  if (training.codes) make_codes_trainable(simplified, made.infer, training, compiling);
  else make_reals_trainable(simplified, made.infer, training, compiling);
  const Commit commit = commit_quantizers(simplified, training.quantizers);
  Differentiated differentiated = differentiate(simplified, training, commit);
  leave_bias_gradients_unrounded(differentiated.graph);
  check(differentiated.graph);
  if (!training.immediate) made.update = update_program(differentiated, training, commit);
  if (!training.codes) apply_types(made.infer, compiling);
  apply_types(differentiated.graph, compiling);
  if (multiplies_float8(compiling.target.name)) {
    multiply_float8_codes(differentiated.graph);
    check(differentiated.graph);
  }
  Graph& backward = training.immediate ? made.update : made.gradients;
  backward = std::move(differentiated.graph);
  check(made.update);
  Graph* const readers[] = {&made.infer, &backward};
  derive(readers, &made.derive);
  for (Graph* reader : readers) pack_weights(*reader, compiling.target);
  derive(readers, &made.derive);  // adds the steps that pack weights
  for (Graph* graph : {&made.infer, &made.gradients, &made.update, &made.derive}) {
    if (graph->nodes.empty()) continue;
    const bool whole = graph == &backward;
    if (graph == &made.infer || whole) schedule(*graph, compiling.target);
    if (whole && training.arena_limit > 0) {
      made.rematerialized = plan_within(*graph, training.arena_limit, compiling.target);
    } else {
      plan_memory(*graph, compiling.target);
    }
    check(*graph);
  }
  return made;
}

void add_sources(const TrainingPrograms& made, std::vector<ProgramSource>* sources) {
  const std::pair<const Graph*, Entry> all[] = {{&made.infer, Entry::kInfer},
                                                {&made.gradients, Entry::kGradients},
                                                {&made.update, Entry::kUpdate},
                                                {&made.derive, Entry::kDerive}};
  for (const auto& [graph, entry] : all)
    if (!graph->nodes.empty())
      sources->push_back(
          {.graph = graph, .entry = entry, .target = made.target.name, .kernels = kernels_of(made.target)});
}

}  // namespace

TrainingModel compile_training_graphs(Graph simplified, const TrainingOptions& training,
                                      const CompileOptions& compiling, bool names, std::span<const Target> others) {
  resolve_policies(simplified, compiling.policies);
  separate_statistics(simplified);
  require_classes_last(simplified, loss_output(simplified, training.loss.output), training.loss.kind);
  tell_rows(simplified, training.loss);
  TrainingModel model;
  if (training.adapters.rank == 0) model.not_trained = untrained_constants(simplified, training.train);
  model.frozen = frozen_layers(simplified);
  if (!model.not_trained.empty() && names)
    simplified.metadata.emplace_back(kNotTrained, fmt::format("{}\n", fmt::join(model.not_trained, "\n")));
  if (const FrozenLayers& f = model.frozen; !f.names.empty() && names)
    simplified.metadata.emplace_back(
        kFrozenMetadata, fmt::format("{} of {}, {} of {} weights\n{}\n", f.names.size(), counted(f.of_layers, "layer"),
                                     f.weights, f.of_weights, fmt::join(f.names, "\n")));
  std::ranges::sort(simplified.metadata);
  static_cast<TrainingPrograms&>(model) = training_programs(simplified, training, compiling);
  for (const Target& target : others) {
    CompileOptions other = compiling;
    other.target = target;
    model.others.push_back(training_programs(simplified, training, other));
  }
  return model;
}

void write_training(TrainingModel& made, const WriteOptions& writing) {
  std::vector<ProgramSource> programs;
  add_sources(made, &programs);
  for (const TrainingPrograms& other : made.others) add_sources(other, &programs);
  made.bytes = write_model(programs, writing);
}

TrainingModel compile_training(Graph simplified, const TrainingOptions& training, const CompileOptions& compiling,
                               const WriteOptions& writing, std::span<const Target> others) {
  TrainingModel made = compile_training_graphs(std::move(simplified), training, compiling, writing.names, others);
  write_training(made, writing);
  return made;
}

}  // namespace nacre::tools
