// Tests LoRA adapters: they leave the network's outputs as they were, only they are trained, and merged weights
// compute the same as the trained adapters.
#include "tools/differentiate/adapters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/small_trainer.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"

namespace nacre::tools {
namespace {

using test::convolutional;
using test::perceptron;
using test::SmallTrainer;

CompileOptions under_policy(const std::string& policy) {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = policy});
  return compiling;
}

TrainingOptions adapters(int rank, std::vector<std::string> layers = {}) {
  TrainingOptions options;
  options.adapters = {.rank = rank, .alpha = 4};
  options.train.layers = std::move(layers);
  options.optimizer.kind = Optimizer::kAdam;
  return options;
}

void fill(uint64_t seed, int rows, int width, std::vector<float>& x, std::vector<int32_t>& labels) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  x.clear();
  labels.clear();
  for (int r = 0; r < rows; ++r) {
    labels.push_back(int32_t(random() % 3));
    for (int i = 0; i < width; ++i) x.push_back(noise(random) + (i % 3 == labels.back() ? 1.5f : -0.5f));
  }
}

std::vector<float> run(const Graph& graph, const std::vector<float>& x) {
  const LoadedModel model(compile(graph, under_policy("float32")).bytes, "test", "");
  BoundProgram bound(model, model.infer_program());
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  const std::vector<uint8_t> bytes = bound.run({first, x.size() * sizeof(float)});
  std::vector<float> y(bytes.size() / sizeof(float));
  std::memcpy(y.data(), bytes.data(), bytes.size());
  return y;
}

TEST(adapters, stand_beside_frozen_layers) {
  const TrainingModel made = compile_training(perceptron(), adapters(2, {"fc2"}), under_policy("float32"));
  std::vector<std::string> trained;
  for (const Value& v : made.gradients.values)
    if (v.trainable) trained.push_back(v.name);
  EXPECT_EQ(trained, (std::vector<std::string>{"w2/lora_a", "w2/lora_b"}));
  EXPECT_EQ(std::ranges::count(made.gradients.nodes, Op::kDenseGradientW, &Node::op), 2);
  EXPECT_EQ(std::ranges::count(made.gradients.nodes, Op::kDenseGradientX, &Node::op), 1);  // from B to A
}

TEST(adapters, change_nothing_at_first_learn_and_merge) {
  for (const bool conv : {false, true})
    for (const char* policy : {"float32", "int8/weights_from_float32", "int4_from_float32", "float8/8_from_float32"}) {
      const Graph graph = conv ? convolutional(16) : perceptron(16);
      const int width = conv ? 72 : 6;
      const TrainingOptions options = adapters(2);
      SmallTrainer trainer(compile_training(graph, options, under_policy(policy)).bytes);
      std::vector<float> x;
      std::vector<int32_t> labels;
      fill(1, 16, width, x, labels);
      TrainingOptions without;
      SmallTrainer plain(compile_training(graph, without, under_policy(policy)).bytes);
      const std::vector<float> before = plain.infer(x), at_first = trainer.infer(x);
      EXPECT_EQ(at_first, before) << policy;  // B is 0, so nothing is added
      float first = 0, last = 0;
      for (int i = 0; i < 60; ++i) {
        fill(uint64_t(i), 16, width, x, labels);
        const Trainer::Report report = trainer.train(x, labels, 0.03f);
        ASSERT_TRUE(report.applied);
        (i < 3 ? first : last) += i < 3 ? report.loss / 3 : i >= 50 ? report.loss / 10 : 0;
      }
      EXPECT_LT(last, 0.6f * first) << policy << (conv ? " conv" : " dense");
      if (std::string(policy) != "float32") continue;
      Graph merged = graph;
      EXPECT_EQ(merge_adapters(merged, trainer.model(), trainer.trainer().state()), conv ? 3 : 2);
      const std::vector<float> want = trainer.infer(x), y = run(merged, x);
      ASSERT_EQ(y.size(), want.size());
      // W + B A rounds once more than W x + B (A x). Each sum has at most 36 terms, each of at most 2^-24 of the
      // largest value.
      float largest = 1;
      for (const float v : want) largest = std::max(largest, std::abs(v));
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 3 * 2 * 36 * 0x1p-24f * largest);
    }
}

TEST(adapters, refuse_what_they_cannot_do) {
  EXPECT_THROW(compile_training(perceptron(), adapters(2, {"softmax"}), under_policy("float32")), Error);
  TrainingOptions endless = adapters(2);
  endless.adapters.alpha = INFINITY;
  EXPECT_THROW(compile_training(perceptron(), endless, under_policy("float32")), Error);
}

}  // namespace
}  // namespace nacre::tools
