// Tests parameters that layers share, and statistics that equal parameters: they are trained once and written back.
// Claim tied_parameters compares the numbers with torch's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/differentiate/small_trainer.h"
#include "tests/importers/onnx_builder.h"
#include "tools/base/error.h"
#include "tools/compile/deployed.h"
#include "tools/compile/training.h"
#include "tools/differentiate/adapters.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using test::SmallTrainer;

constexpr int kSamples = 8;

Graph network(const OnnxBuilder& b, int batch = kSamples) {
  Graph graph = import_onnx(b.finish(), "test.onnx", {.batch = batch, .train = true});
  simplify(graph, kSimplifyToTrain);
  check(graph);
  return graph;
}

CompileOptions under(const char* policy) {
  CompileOptions compiling;
  if (*policy != 0) compiling.policies = parse_policy_options({.policy = policy});
  return compiling;
}

TrainingModel compiled(const Graph& graph, const TrainingOptions& options = {}, const char* policy = "") {
  return compile_training(graph, options, under(policy));
}

std::vector<std::string> kept(const TrainingModel& made, Kept what) {
  const Graph& all = made.gradients.nodes.empty() ? made.update : made.gradients;
  std::vector<std::string> names;
  for (const Graph* graph : {&made.infer, &all})
    for (const Value& v : graph->values)
      if (v.region == Region::kState && v.kept == what && std::ranges::count(names, v.name) == 0)
        names.push_back(v.name);
  std::ranges::sort(names);
  return names;
}
using Names = std::vector<std::string>;

int count(const Graph& graph, Op op) { return int(std::ranges::count(graph.nodes, op, &Node::op)); }

std::string refusal(const Graph& graph, const TrainingOptions& options, const char* policy = "") {
  try {
    compiled(graph, options, policy);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<float> numbers(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(count);
  for (float& v : x) v = uniform(random);
  return x;
}

void norm(OnnxBuilder& b, const std::string& x, const std::string& y, const std::vector<std::string>& of) {
  b.node("BatchNormalization", {x, of[0], of[1], of[2], of[3]}, {y});
}

OnnxBuilder norms() {
  OnnxBuilder b;
  b.input("x", {1, 3, 2, 2}, {"batch", "", "", ""});
  b.filled("ones", {3}, 1);
  b.filled("zeros", {3}, 0);
  return b;
}

// A tool that merges equal constants leaves such a norm: one constant is scale and variance, another is bias and
// mean.
TEST(shared_parameters, statistics_are_no_parameters) {
  OnnxBuilder b = norms();
  norm(b, "x", "y", {"ones", "zeros", "zeros", "ones"});
  b.output("y");
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  const TrainingModel made = compiled(network(b), options);
  EXPECT_EQ(kept(made, Kept::kParameter), (Names{"ones", "zeros"}));
  EXPECT_EQ(kept(made, Kept::kStatistic), (Names{"ones/variance", "zeros/mean"}));
  EXPECT_EQ(count(made.update, Op::kUpdateStatistics), 2);
  options.train.frozen_batch_norm = true;
  const TrainingModel frozen = compiled(network(b), options);
  EXPECT_EQ(kept(frozen, Kept::kParameter), (Names{"ones", "zeros"}));
  EXPECT_EQ(kept(frozen, Kept::kStatistic), Names{});
  const auto kept_norm = std::ranges::find(frozen.gradients.nodes, Op::kBatchNorm, &Node::op);
  ASSERT_NE(kept_norm, frozen.gradients.nodes.end());
  for (const size_t slot : {3, 4})
    EXPECT_TRUE(frozen.gradients.values[size_t(kept_norm->inputs[slot])].constant()) << slot;
}

TEST(shared_parameters, norms_have_statistics_of_their_own_but_one_that_is_applied_twice) {
  OnnxBuilder b = norms();
  for (const char* name : {"scale1", "scale2", "mean", "variance"}) b.filled(name, {3}, 1);
  norm(b, "x", "h", {"scale1", "zeros", "mean", "variance"});
  norm(b, "h", "i", {"scale2", "zeros", "mean", "variance"});
  norm(b, "i", "y", {"scale1", "zeros", "mean", "variance"});
  b.output("y");
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  const TrainingModel made = compiled(network(b), options);
  EXPECT_EQ(kept(made, Kept::kParameter), (Names{"scale1", "scale2", "zeros"}));
  EXPECT_EQ(kept(made, Kept::kStatistic), (Names{"mean", "mean/mean", "variance", "variance/variance"}));
  EXPECT_EQ(count(made.update, Op::kUpdateStatistics), 6);
}

// Builds h = tanh(x w^T), i = h w, y = i v^T: w is read as it is and transposed.
OnnxBuilder both_ways() {
  OnnxBuilder b;
  b.input("x", {1, 3}, {"batch", ""});
  b.floats("w", {2, 3}, numbers(1, 6));
  b.floats("v", {3, 3}, numbers(2, 9));
  b.node("Gemm", {"x", "w"}, {"h"}).integer("transB", 1);
  b.node("Tanh", {"h"}, {"t"});
  b.node("MatMul", {"t", "w"}, {"i"});
  b.node("Gemm", {"i", "v"}, {"y"}).integer("transB", 1);
  b.output("y");
  return b;
}

// A norm whose scale and bias are computed from parameters learns its statistics as any other norm does.
TEST(shared_parameters, norms_of_computed_scales_learn_their_statistics) {
  OnnxBuilder b;
  b.input("x", {1, 3}, {"batch", ""});
  b.floats("w", {3, 3}, numbers(1, 9));
  for (const char* name : {"g", "c"}) b.floats(name, {3}, numbers(2, 3));
  b.floats("two", {}, {2});
  b.floats("mean", {3}, {0, 0, 0});
  b.floats("variance", {3}, {1, 1, 1});
  b.node("Mul", {"g", "two"}, {"scale"});
  b.node("Mul", {"c", "two"}, {"bias"});
  b.node("Gemm", {"x", "w"}, {"h"});
  b.node("BatchNormalization", {"h", "scale", "bias", "mean", "variance"}, {"y"});
  b.output("y");
  const Graph graph = network(b);
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  const TrainingModel made = compiled(graph, options);
  EXPECT_EQ(kept(made, Kept::kParameter), (Names{"c", "g", "w"}));
  EXPECT_EQ(kept(made, Kept::kStatistic), (Names{"mean", "variance"}));
  EXPECT_EQ(count(made.gradients, Op::kBatchNormTraining), 1);
  options.train.frozen_batch_norm = true;
  EXPECT_EQ(kept(compiled(graph, options), Kept::kStatistic), Names{});
}

TEST(shared_parameters, have_one_gradient_and_one_moment) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kMomentum;
  const TrainingModel made = compiled(network(both_ways()), options);
  EXPECT_EQ(kept(made, Kept::kParameter), (Names{"v", "w"}));
  EXPECT_EQ(count(made.update, Op::kMomentum), 2);
  EXPECT_EQ(count(made.derive, Op::kTranspose), 1);
  EXPECT_EQ(count(made.infer, Op::kTranspose), 0);
}

TEST(shared_parameters, are_updated_at_once_as_in_steps) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kMomentum;
  SmallTrainer steps(compiled(network(both_ways()), options).bytes);
  options.immediate = true;
  SmallTrainer at_once(compiled(network(both_ways()), options).bytes);
  for (uint64_t i = 0; i < 10; ++i) {
    const std::vector<float> x = numbers(i, 3 * kSamples);
    const std::vector<int32_t> labels = {0, 1, 2, 0, 1, 2, 0, 1};
    EXPECT_TRUE(steps.train(x, labels, 0.05f).applied);
    EXPECT_TRUE(at_once.train(x, labels, 0.05f).applied);
    // The sums of two gradients have another order, over ten steps of weights below 2.
    for (const char* name : {"w", "v"}) {
      const std::vector<float> a = steps.state<float>(name), c = at_once.state<float>(name);
      ASSERT_EQ(a.size(), c.size());
      for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], c[k], 10 * 8 * 0x1p-23f) << name;
    }
  }
}

TEST(shared_parameters, are_written_back_into_every_layer) {
  SmallTrainer trainer(compiled(network(both_ways())).bytes);
  for (uint64_t i = 0; i < 10; ++i) trainer.train(numbers(i, 3 * kSamples), {0, 1, 2, 0, 1, 2, 0, 1}, 0.05f);
  const Deployed made = deploy(network(both_ways(), 1), {}, trainer.model(), trainer.trainer().state());
  EXPECT_EQ(made.parameters, 2);
  const LoadedModel model(made.bytes, "deployed", "");
  BoundProgram bound(model, model.infer_program());
  const std::vector<float> x = numbers(77, 3 * kSamples), want = trainer.infer(x);
  for (size_t row = 0; row < kSamples; ++row) {
    const std::vector<uint8_t> y = bound.run({reinterpret_cast<const uint8_t*>(&x[3 * row]), 12});
    EXPECT_EQ(std::memcmp(y.data(), &want[3 * row], y.size()), 0) << row;
  }
}

// Builds two layers with one matrix, and one with an equal matrix that the file merged into the first.
OnnxBuilder three_layers() {
  OnnxBuilder b;
  b.input("x", {1, 3}, {"batch", ""});
  b.floats("w", {3, 3}, numbers(3, 9));
  b.node("Identity", {"w"}, {"own"});
  for (const auto& [name, x, w, y] :
       {std::array{"first", "x", "w", "h"}, {"second", "h", "own", "i"}, {"third", "i", "w", "y"}}) {
    b.node("Gemm", {x, w}, {y}).integer("transB", 1);
    b.model().mutable_graph()->mutable_node(b.model().graph().node_size() - 1)->set_name(name);
  }
  b.output("y");
  return b;
}

TEST(shared_parameters, are_one_tensor_of_the_model_that_is_written_and_separate_ones_two) {
  SmallTrainer trainer(compiled(network(three_layers())).bytes);
  for (uint64_t i = 0; i < 3; ++i) trainer.train(numbers(i, 3 * kSamples), {0, 1, 2, 0, 1, 2, 0, 1}, 0.05f);
  const Deployed made = deploy(network(three_layers(), 1), {}, trainer.model(), trainer.trainer().state());
  const LoadedModel model(made.bytes, "deployed", "");
  int weights = 0;
  for (const TensorRecord& r : model.model().tensors()) weights += r.region == Region::kWeights ? 1 : 0;
  EXPECT_EQ(weights, 2);
}

TEST(shared_parameters, train_in_all_layers_or_in_none) {
  TrainingOptions options;
  for (const char* layer : {"first", "third"}) {
    options.train.layers = {layer};
    EXPECT_NE(
        refusal(network(three_layers()), options).find("w belongs to a layer that trains and to one that does not"),
        std::string::npos)
        << layer;
  }
  options.train.layers = {"second"};
  EXPECT_EQ(kept(compiled(network(three_layers()), options), Kept::kParameter), (Names{"own"}));
  options.train.layers = {"first", "third"};
  EXPECT_EQ(kept(compiled(network(three_layers()), options), Kept::kParameter), (Names{"w"}));
}

TEST(shared_parameters, decay_in_no_layer_if_one_of_theirs_is_named) {
  for (const char* layer : {"first", "third", "second"}) {
    TrainingOptions options;
    options.optimizer.kind = Optimizer::kAdamW;
    options.optimizer.weight_decay = 0.25f;
    options.optimizer.no_decay = {layer};
    const TrainingModel made = compiled(network(three_layers()), options);
    for (const Node& node : made.update.nodes)
      if (node.op == Op::kAdamW) {
        const bool own = made.update.values[size_t(node.inputs[4])].name == "own";
        EXPECT_EQ(get_real(node, "weight_decay"), own == (layer == std::string("second")) ? 0 : 0.25f) << layer;
      }
  }
}

TEST(shared_parameters, get_adapters_where_they_were_asked_for) {
  for (const char* layer : {"third", ".*"}) {
    TrainingOptions options;
    options.adapters = {.rank = 2, .alpha = 4};
    options.optimizer.kind = Optimizer::kAdam;
    options.train.layers = {layer};
    for (OnnxBuilder b : {three_layers(), both_ways()}) {
      if (*layer == 't' && b.model().graph().node(0).op_type() != "Identity") continue;
      SmallTrainer trainer(compiled(network(b), options, "float32").bytes);
      for (uint64_t i = 0; i < 20; ++i) trainer.train(numbers(i, 3 * kSamples), {0, 1, 2, 0, 1, 2, 0, 1}, 0.05f);
      const Deployed made = deploy(network(b, 1), {}, trainer.model(), trainer.trainer().state());
      const LoadedModel model(made.bytes, "deployed", "");
      BoundProgram bound(model, model.infer_program());
      const std::vector<float> x = numbers(77, 3 * kSamples), want = trainer.infer(x);
      float largest = 1;
      for (const float v : want) largest = std::max(largest, std::abs(v));
      for (size_t row = 0; row < kSamples; ++row) {
        const std::vector<uint8_t> bytes = bound.run({reinterpret_cast<const uint8_t*>(&x[3 * row]), 12});
        float y[3];
        std::memcpy(y, bytes.data(), sizeof y);
        // W + B A rounds once more than W x + B (A x), in three layers of sums of at most 5 terms.
        for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], want[3 * row + i], 3 * 2 * 5 * 0x1p-22f * largest) << layer;
      }
    }
  }
}

TEST(shared_parameters, that_stay_frozen_cost_no_step) {
  TrainingOptions options;
  options.adapters = {.rank = 2, .alpha = 4};
  const TrainingModel made = compiled(network(both_ways()), options);
  EXPECT_EQ(
      count(made.infer, Op::kTranspose) + count(made.gradients, Op::kTranspose) + count(made.derive, Op::kTranspose),
      0);
}

TEST(shared_parameters, are_not_cut_into_channels_or_codes) {
  OnnxBuilder b = three_layers();
  b.floats("bias", {3}, {1, 2, 3});
  for (const int node : {1, 2}) b.model().mutable_graph()->mutable_node(node)->add_input("bias");
  TrainingOptions channels;
  channels.train.channels = {{.pattern = "second", .share = 0.5}};
  EXPECT_NE(refusal(network(b), channels).find("shares its weights or its bias"), std::string::npos);
  TrainingOptions codes;
  codes.codes = true;
  EXPECT_NE(refusal(network(three_layers()), codes).find("w is shared by layers"), std::string::npos);
  for (const char* policy : {"int8/weights_from_float32", "float8/8_from_float32"})
    EXPECT_NE(refusal(network(both_ways()), {}, policy).find("in another form"), std::string::npos) << policy;
  EXPECT_EQ(refusal(network(three_layers()), {}, "int8/weights_from_float32"), "");
}

}  // namespace
}  // namespace nacre::tools
