// Tests that a network deployed in int8 trains its own codes, against the network that was deployed.
#include "tools/differentiate/trained_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <tuple>

#include "tests/differentiate/code_trainer.h"
#include "tests/differentiate/small_networks.h"
#include "tests/project_path.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/compile/export.h"
#include "tools/compile/training.h"

namespace nacre::tools {
namespace {

using namespace code_trainer;

using test::convolutional;
using test::perceptron;

struct Subject {
  const char* name;
  Graph (*make)(int);
  int width;
};
constexpr Subject kSubjects[] = {{"dense", &perceptron, 6}, {"conv", &convolutional, 72}};

TEST(trained_codes, inference_is_the_deployed_network_at_first) {
  for (const Subject& subject : kSubjects) {
    const Graph graph = subject.make(kRows);
    CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
    const std::vector<uint8_t> before = deployed(graph);
    const std::vector<float> x = batch(99, subject.width).x;
    EXPECT_EQ(trainer.infer(x), run(before, x)) << subject.name;
    const Anatomy a = anatomy(before), b = anatomy(trainer.exported());
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(differing(a, b), std::vector<std::string>());
  }
}

// Training changes only the codes of weights and biases; steps, offsets, sizes and other constants stay. The exported
// network computes the same as the inference program of training.
TEST(trained_codes, learns_and_exports_the_same_network_with_other_codes) {
  for (const Subject& subject : kSubjects) {
    const Graph graph = subject.make(kRows);
    CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
    const Anatomy before = anatomy(deployed(graph));
    const auto [first, last] = trainer.train(120, subject.width, 0.05f);
    EXPECT_LT(last, 0.5f * first) << subject.name;
    const std::vector<uint8_t> bytes = trainer.exported();
    const Anatomy after = anatomy(bytes);
    EXPECT_EQ(after.steps, before.steps);
    EXPECT_TRUE(std::ranges::equal(after.sizes.bytes, before.sizes.bytes));
    EXPECT_EQ(after.weights, before.weights);
    std::vector<std::string> trained =
        subject.width == 6 ? std::vector<std::string>{"b1", "b2", "w1", "w2"}
                           : std::vector<std::string>{"conv1.b", "conv1.w", "conv2.b", "conv2.w", "fc.b", "fc.w"};
    std::vector<std::string> changed = differing(before, after);
    for (std::string& name : changed) name = name.substr(0, name.find('/'));  // the name of a folded batch norm
    EXPECT_EQ(changed, trained) << subject.name;
    for (uint64_t seed = 1000; seed < 1005; ++seed) {
      const std::vector<float> x = batch(seed, subject.width).x;
      EXPECT_EQ(run(bytes, x), trainer.infer(x));
    }
    std::printf("%-6s loss %.3f -> %.3f\n", subject.name, double(first), double(last));
  }
}

TEST(trained_codes, with_every_optimizer_and_update_at_once) {
  for (const Optimizer optimizer : {Optimizer::kMomentum, Optimizer::kAdam}) {
    CodeTrainer trainer(compile_training(perceptron(kRows), codes(optimizer), in_int8()));
    // Adam's rate is measured in codes.
    const auto [first, last] = trainer.train(120, 6, optimizer == Optimizer::kAdam ? 0.5f : 0.02f);
    EXPECT_LT(last, 0.5f * first);
  }
  TrainingOptions at_once = codes();
  at_once.immediate = true;
  CodeTrainer immediate(compile_training(perceptron(kRows), at_once, in_int8())),
      whole(compile_training(perceptron(kRows), codes(), in_int8()));
  immediate.train(batch(1, 6), 0.05f);
  whole.train(batch(1, 6), 0.05f);
  for (const char* name : {"w1/master", "b1/master", "w2/master", "b2/master"})
    EXPECT_EQ(immediate.state(name), whole.state(name)) << name;
}

// Codes reach the ends of their range. The export saturates as training did.
TEST(trained_codes, saturate) {
  const Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  trainer.train(60, 6, 2.0f);
  const std::vector<float> w = trainer.state("w2/master");
  EXPECT_GT(*std::ranges::max_element(w, {}, [](float v) { return std::abs(v); }), 128.5f);
  const std::vector<float> x = batch(7, 6).x;
  EXPECT_EQ(run(trainer.exported(), x), trainer.infer(x));
}

TEST(trained_codes, into_the_network_s_own_graph) {
  Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  trainer.train(30, 6, 0.05f);
  Graph coded = graph;  // as an int8 file is imported
  simplify(coded);
  resolve_policies(coded, in_int8().policies);
  quantize_static(coded, &calibration());
  EXPECT_EQ(with_parameters(coded, trainer.model(), trainer.trainer().state()), 4);
  Graph plain = graph;  // which has no codes
  EXPECT_THROW(with_parameters(plain, trainer.model(), trainer.trainer().state()), Error);
  const Anatomy a = anatomy(trainer.exported());
  for (const Value& v : coded.values) {
    if (a.constants.contains(v.name) && v.constant()) {
      EXPECT_EQ(*v.data, a.constants.at(v.name)) << v.name;
    }
  }
}

// Trains, on random bytes, files that other tools quantized. The first sample is repeated, so its loss falls.
TEST(trained_codes, of_networks_from_files) {
  const std::string models = tools::shared_path("models/mlperf_tiny/");
  int networks = 0;
  for (const auto& [file, loss, rate] :
       {std::tuple("kws_ref_model.tflite", Loss::kSoftmaxCrossEntropy, 0.01f),
        std::tuple("ad01_int8.tflite", Loss::kSquaredError, 0.001f),
        std::tuple("pretrainedResnet_quant.tflite", Loss::kSoftmaxCrossEntropy, 0.001f)}) {
    if (!std::filesystem::exists(models + file) || (networks > 0 && nacre::test::sanitized())) continue;
    TrainingOptions options = codes();
    options.loss.kind = loss;
    const std::vector<uint8_t> bytes = compile(load_network(models + file), {}).bytes;
    CodeTrainer trainer(compile_training(load_network(models + file, {}, {.fold_batch_norm = false}), options, {}));
    const LoadedModel model(bytes, "test", "");
    BoundProgram program(model, model.infer_program());
    std::mt19937_64 random(3);
    std::vector<uint8_t> x(program.program().input(0).size());
    for (uint8_t& v : x) v = uint8_t(random());
    EXPECT_EQ(trainer.infer(x), program.run(x)) << file;
    std::vector<float> losses;
    for (int i = 0; i < 4; ++i)
      losses.push_back(
          trainer
              .train(x, loss == Loss::kSquaredError ? std::vector<uint8_t>(640 * 4) : std::vector<uint8_t>{3, 0, 0, 0},
                     rate)
              .loss);
    EXPECT_LT(losses.back(), losses.front()) << file;
    const std::vector<uint8_t> exported = trainer.exported();
    const Anatomy a = anatomy(bytes), b = anatomy(exported);
    EXPECT_EQ(a.steps, b.steps) << file;
    EXPECT_EQ(a.weights, b.weights) << file;
    EXPECT_TRUE(std::ranges::equal(a.sizes.bytes, b.sizes.bytes)) << file;
    const std::vector<std::string> changed = differing(a, b);
    EXPECT_GT(changed.size(), 2u);
    for (const std::string& name : changed) EXPECT_EQ(name.find("requant"), name.npos) << name;
    std::printf("%-30s loss %g -> %g, %zu of %zu constants changed\n", file, double(losses.front()),
                double(losses.back()), changed.size(), a.constants.size());
    ++networks;
  }
  if (networks == 0) GTEST_SKIP() << models << " is not there";
}

TEST(trained_codes, refuse_what_has_none) {
  CompileOptions real;
  real.policies = parse_policy_options({.policy = "float32"});
  EXPECT_THROW(compile_training(perceptron(), codes(), real), Error);
  TrainingOptions named = codes();
  named.train.layers = {"softmax"};
  EXPECT_THROW(compile_training(perceptron(), named, in_int8()), Error);
}

}  // namespace
}  // namespace nacre::tools
