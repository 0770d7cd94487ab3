// Tests the programs that compile_training makes: their steps, the steps that they leave out, and that the engine
// accepts them.
#include "tools/compile/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/training_run.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/evaluate/training_memory.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

using test::convolutional;
using test::perceptron;
using test::TrainingRun;

TrainingModel compiled(const Graph& graph, const TrainingOptions& training = {}, const char* policy = "") {
  CompileOptions compiling;
  if (*policy != 0) compiling.policies = parse_policy_options({.policy = policy});
  TrainingModel made = compile_training(graph, training, compiling);
  const LoadedModel model(made.bytes, "test", "");
  for (uint32_t i = 0; i < model.model().program_count(); ++i) measure(model, i);  // throws what the engine refuses
  return made;
}

int count(const Graph& graph, Op op) { return int(std::ranges::count(graph.nodes, op, &Node::op)); }

const Value& named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &Value::name);
  if (found == graph.values.end()) throw Error(kFailed, name, "no such value");
  return *found;
}

TEST(training, a_perceptron_has_the_steps_of_its_chain_rule) {
  const TrainingModel made = compiled(perceptron());
  EXPECT_EQ(count(made.gradients, Op::kDense), 2);
  EXPECT_EQ(count(made.gradients, Op::kDenseGradientW), 2);
  EXPECT_EQ(count(made.gradients, Op::kBiasGradient), 2);
  EXPECT_EQ(count(made.gradients, Op::kDenseGradientX), 1);  // nothing before the first layer needs one
  EXPECT_EQ(count(made.gradients, Op::kClampGradient), 1);
  EXPECT_EQ(count(made.gradients, Op::kSoftmaxCrossEntropy), 1);
  EXPECT_EQ(count(made.update, Op::kSgd), 4);
  EXPECT_EQ(made.update.nodes.front().op, Op::kVerdict);
  EXPECT_EQ(made.update.nodes.back().op, Op::kAdjustLossScale);
  EXPECT_EQ(made.update.nodes.back().guard, kNone);
  EXPECT_TRUE(made.derive.nodes.empty());
  for (size_t i = 1; i + 1 < made.update.nodes.size(); ++i) EXPECT_NE(made.update.nodes[i].guard, kNone) << i;
}

TEST(training, gradients_lie_in_one_block_in_order) {
  const TrainingModel made = compiled(perceptron());
  const Value& block = named(made.gradients, kGradientsName);
  uint64_t end = 0;
  for (const Value& v : made.gradients.values) {
    if (v.region != Region::kStep || v.alias_of == kNone) continue;
    EXPECT_EQ(v.offset, end) << v.name;
    end = (v.offset + uint64_t(v.elements()) * 4 + 15) / 16 * 16;
  }
  EXPECT_EQ(uint64_t(block.elements()) * 4, end);
}

TEST(training, only_the_layers_that_are_named_are_trained) {
  TrainingOptions options;
  options.train.last_layers = 1;
  const TrainingModel made = compiled(perceptron(), options);
  EXPECT_EQ(count(made.gradients, Op::kDenseGradientW), 1);
  EXPECT_EQ(count(made.gradients, Op::kDenseGradientX), 0);
  EXPECT_EQ(count(made.gradients, Op::kClampGradient), 0);
  options.train = {.layers = {"fc1"}, .last_layers = 0, .biases_only = true, .frozen_batch_norm = false};
  const TrainingModel biases = compiled(perceptron(), options);
  EXPECT_EQ(count(biases.gradients, Op::kDenseGradientW), 0);
  EXPECT_EQ(count(biases.gradients, Op::kBiasGradient), 1);
  EXPECT_EQ(count(biases.gradients, Op::kDenseGradientX), 1);
  options.train = {.layers = {"conv.*"}, .last_layers = 0, .biases_only = false, .frozen_batch_norm = false};
  EXPECT_THROW(compiled(perceptron(), options), Error);
}

TEST(training, weights_decay_where_they_are_asked_to) {
  for (const bool immediate : {false, true}) {
    TrainingOptions options;
    options.immediate = immediate;
    options.optimizer.kind = Optimizer::kAdamW;
    options.optimizer.weight_decay = 0.25f;
    options.optimizer.no_decay = {"fc1|softmax"};
    const TrainingModel made = compiled(perceptron(), options);
    std::map<std::string, float> decays;
    for (const Node& node : made.update.nodes)
      if (node.op == Op::kAdamW)
        decays[made.update.values[size_t(node.inputs[4])].name] = get_real(node, "weight_decay");
    EXPECT_EQ(decays, (std::map<std::string, float>{{"w1", 0}, {"b1", 0}, {"w2", 0.25f}, {"b2", 0}}));
    for (const char* pattern : {"fc", "(["}) {
      options.optimizer.no_decay = {"fc1", pattern};
      EXPECT_THROW(compiled(perceptron(), options), Error) << pattern;
    }
  }
}

TEST(training, sixteen_bits_compute_and_float32_masters_learn) {
  const TrainingModel made = compiled(perceptron(), {}, "mixed_bfloat16");
  EXPECT_EQ(named(made.gradients, "w1").type, ElementType::kFloat32);
  EXPECT_EQ(named(made.gradients, kGradientsName).type, ElementType::kFloat32);
  EXPECT_EQ(count(made.derive, Op::kCast), 4);  // of the masters, once for both programs
  for (const Graph* graph : {&made.infer, &made.gradients})
    for (const Node& node : graph->nodes) {
      if (node.op != Op::kDense && node.op != Op::kDenseGradientW && node.op != Op::kDenseGradientX) continue;
      EXPECT_EQ(graph->values[size_t(node.inputs[0])].type, ElementType::kBfloat16) << node.name;
    }
}

TEST(training, float64_sums_are_float64) {
  const TrainingModel made = compiled(perceptron(), {}, "float64");
  EXPECT_EQ(named(made.gradients, kGradientsName).type, ElementType::kFloat64);
  EXPECT_EQ(named(made.gradients, kLossName).type, ElementType::kFloat64);
  EXPECT_EQ(named(made.gradients, "w1").type, ElementType::kFloat64);
}

TEST(training, batch_norm_learns_its_statistics_unless_it_is_frozen) {
  const TrainingModel made = compiled(convolutional());
  EXPECT_EQ(count(made.gradients, Op::kBatchNormTraining), 1);
  EXPECT_EQ(count(made.infer, Op::kBatchNorm), 1);
  EXPECT_EQ(count(made.update, Op::kUpdateStatistics), 2);
  TrainingOptions frozen;
  frozen.train.frozen_batch_norm = true;
  const TrainingModel kept = compiled(convolutional(), frozen);
  EXPECT_EQ(count(kept.gradients, Op::kBatchNormTraining), 0);
  EXPECT_EQ(count(kept.update, Op::kUpdateStatistics), 0);
}

TEST(training, an_immediate_update_needs_no_block_of_gradients) {
  TrainingOptions options;
  options.immediate = true;
  const TrainingModel at_once = compiled(convolutional(), options), in_steps = compiled(convolutional());
  EXPECT_TRUE(at_once.gradients.nodes.empty());
  EXPECT_EQ(at_once.update.inputs.back().name, "learning_rate");
  EXPECT_EQ(at_once.update.outputs.front().name, "apply");  // the network's own outputs are not computed
  EXPECT_EQ(at_once.update.outputs.size(), 3u);
  const TrainingMemory a = training_memory(LoadedModel(at_once.bytes, "test", ""), *find_machine("host")),
                       b = training_memory(LoadedModel(in_steps.bytes, "test", ""), *find_machine("host"));
  EXPECT_EQ(a.gradients, 0u);
  EXPECT_GT(b.gradients, 0u);
  // The last read of each parameter comes before its change.
  std::vector<ValueId> changed;
  for (const Node& node : at_once.update.nodes) {
    const bool optimizer = node.op == Op::kSgd;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      EXPECT_EQ(std::ranges::count(changed, node.inputs[i]), 0) << node.name;
    if (optimizer) changed.push_back(node.inputs.back());
  }
}

// The gradient of one micro-batch is the sum, so both ways give the same numbers to the bit, the norm's statistics
// too.
TEST(training, float64_updates_at_once_are_those_in_steps) {
  for (const Optimizer kind :
       {Optimizer::kSgd, Optimizer::kNesterov, Optimizer::kAdamW, Optimizer::kRmsprop, Optimizer::kAdagrad})
    for (const Loss loss : {Loss::kSoftmaxCrossEntropy, Loss::kSquaredError}) {
      if (test::sanitized() && kind != Optimizer::kAdamW) continue;
      TrainingOptions options;
      options.optimizer.kind = kind;
      options.loss.kind = loss;
      TrainingRun in_steps(compiled(convolutional(), options, "float64").bytes);
      options.immediate = true;
      const TrainingModel made = compiled(convolutional(), options, "float64");
      TrainingRun at_once(made.bytes);
      EXPECT_TRUE(made.update.fallbacks.empty());
      const test::LabelledRows data = test::three_classes(3, 2, 72);
      for (int step = 0; step < 3; ++step)
        for (TrainingRun* run : {&in_steps, &at_once}) {
          run->write(0, data.x);
          if (loss == Loss::kSoftmaxCrossEntropy) run->write(1, data.labels);
          else run->write(1, std::vector<float>{0.5f, -1, 0.25f, 2, 0, -0.125f});
          run->accumulate();
          EXPECT_TRUE(run->commit(0.125f).applied);
        }
      int parameters = 0, moved = 0;
      const TrainingRun fresh(made.bytes);
      for (const uint32_t id : std::views::iota(0u, uint32_t(at_once.model().model().tensors().size()))) {
        const TensorRecord& r = at_once.model().model().tensors()[id];
        if (r.region != Region::kState || r.element != ElementType::kFloat64) continue;
        const std::string name = at_once.model().tensor_name(id);
        EXPECT_EQ(at_once.bytes(name), in_steps.bytes(name)) << name;
        moved += at_once.bytes(name) != fresh.bytes(name) ? 1 : 0;
        parameters += (r.flags & kTrainable) != 0 ? 1 : 0;
      }
      EXPECT_EQ(parameters, 8);  // two convolutions, a norm, a dense layer
      EXPECT_GE(moved, 9);       // with the norm's state; a bias before a norm has no gradient
    }
}

TEST(training, memory_by_class_needs_no_names) {
  TrainingOptions adam;
  adam.optimizer.kind = Optimizer::kAdam;
  const TrainingModel named = compiled(convolutional(), adam),
                      bare = compile_training(convolutional(), adam, {}, {.names = false, .golden = {}});
  const TrainingMemory a = training_memory(LoadedModel(named.bytes, "test", ""), *find_machine("host")),
                       b = training_memory(LoadedModel(bare.bytes, "test", ""), *find_machine("host"));
  EXPECT_EQ(a.moments, 2 * a.parameters);
  EXPECT_EQ(b.moments, a.moments);
  EXPECT_GT(b.gradients, 0u);
  EXPECT_EQ(b.gradients, a.gradients);
}

TEST(training, activations_are_computed_again_to_save_memory) {
  TrainingOptions options;
  const TrainingModel plain = compiled(convolutional(), options);
  options.arena_limit = 1;
  const TrainingModel again = compiled(convolutional(), options);
  EXPECT_GT(again.rematerialized.steps, 0);
  EXPECT_LT(again.gradients.liveness_bound, plain.gradients.liveness_bound);
  EXPECT_EQ(count(again.gradients, Op::kSoftmaxCrossEntropy), 1);  // what observes runs once
  EXPECT_EQ(count(again.gradients, Op::kBatchNormTraining), 1);
}

// The refusal names the least arena that was found. A limit of that size must succeed.
TEST(training, an_arena_limit_out_of_reach_is_refused) {
  if (test::sanitized()) GTEST_SKIP() << "every order is tried: the plain build's";
  TrainingOptions options;
  for (const bool immediate : {false, true}) {
    options.immediate = immediate;
    options.arena_limit = 1;
    const TrainingModel least = compiled(convolutional(), options);
    EXPECT_THROW(require_arena_limit(least, options), Error);
    const LoadedModel model(least.bytes, "test", "");
    options.arena_limit = training_memory(model, *find_machine("host")).arena;
    EXPECT_NO_THROW(require_arena_limit(compiled(convolutional(), options), options));
    options.arena_limit -= 1;
    try {
      require_arena_limit(compiled(convolutional(), options), options);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the least that was found is"), std::string::npos) << error.what();
    }
  }
  options.arena_limit = 0;
  EXPECT_NO_THROW(require_arena_limit(compiled(convolutional(), options), options));
}

TEST(training, what_cannot_be_trained_is_named) {
  Graph graph = perceptron();
  for (Node& node : graph.nodes)
    if (node.op == Op::kClamp) node.op = Op::kCopy;
  graph.layers.push_back({.name = "loss", .source_op = "", .policy = {}});
  try {
    compiled(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("loss"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nacre::tools
