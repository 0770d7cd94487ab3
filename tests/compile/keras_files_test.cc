// Tests Keras files through the whole converter: codes, and the optimizer's state.
//
// The trained networks of MLPerf Tiny exist as Keras files and as int8 TFLite files that others made from them.
// Imported, with batch norms folded and rounded by the TFLite files' scales, the Keras files must give the TFLite
// codes. A weight w has the code round(w / scale), to nearest with halves away from 0, within 127.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tests/differentiate/small_trainer.h"
#include "tests/importers/keras_builder.h"
#include "tests/project_path.h"
#include "tools/compile/compile.h"
#include "tools/compile/training.h"
#include "tools/importers/keras/files.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

std::vector<const Value*> matmul_weights_of(const Graph& graph) {
  std::vector<const Value*> all;
  for (const Node& node : graph.nodes)
    if (is_matmul(node.op)) all.push_back(&graph.values[size_t(node.inputs[1])]);
  return all;
}

// Returns how many codes of the reals w differ from those of `coded`.
size_t other_codes(const Value& w, const Value& coded) {
  const std::vector<float> numbers = reals(w);
  const Quantizer& q = *coded.quantizer;
  size_t inner = 1, other = 0;
  for (size_t i = size_t(q.axis) + 1; i < w.dims.size(); ++i) inner *= size_t(w.dims[i]);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t channel = q.scale.size() == 1 ? 0 : i / inner % q.scale.size();
    const float code = std::clamp(std::round(numbers[i] / q.scale[channel]), -127.0f, 127.0f);
    int8_t stored = 0;
    std::memcpy(&stored, coded.data->data() + i, 1);
    other += code != float(stored);
  }
  return other;
}

TEST(keras_files, a_trained_file_rounds_to_the_codes_of_its_int8_twin) {
  const std::string models = shared_path("models/mlperf_tiny/");
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "no " << models << ": NACRE_SHARED names the folder";
  struct Pair {
    const char *keras, *tflite;
    size_t weights;
  };
  size_t all = 0, differ = 0;
  for (const Pair& pair :
       {Pair{"pretrainedResnet.h5", "pretrainedResnet_quant.tflite", 77'360},
        Pair{"vww_96.h5", "vww_96_int8.tflite", 208'112},
        Pair{"str_ww_ref_model.h5", "str_ww_ref_model.tflite", 46'040}, Pair{"ad01.h5", "ad01_int8.tflite", 264'192}}) {
    const Graph keras = load_network(models + pair.keras), tflite = load_network(models + pair.tflite);
    std::vector<const Value*> reals_of = matmul_weights_of(keras);
    const std::vector<const Value*> codes_of = matmul_weights_of(tflite);
    ASSERT_EQ(reals_of.size(), codes_of.size()) << pair.keras;
    size_t weights = 0, other = 0;
    for (const Value* coded : codes_of) {  // branches may have another order: takes the nearest of the same shape
      ASSERT_TRUE(coded->quantizer && coded->stored == ElementType::kInt8) << coded->name;
      const Value** nearest = nullptr;
      size_t least = SIZE_MAX;
      for (const Value*& w : reals_of) {
        if (w == nullptr || w->dims != coded->dims) continue;
        const size_t found = other_codes(*w, *coded);
        if (found < least) least = found, nearest = &w;
      }
      ASSERT_NE(nearest, nullptr) << coded->name;
      *nearest = nullptr;
      weights += size_t(coded->elements());
      other += least;
    }
    EXPECT_EQ(weights, pair.weights) << pair.keras;
    all += weights;
    differ += other;
  }
  std::printf("keras_files: %zu of %zu weights of the .h5 files differ from those of their int8 twins\n", differ, all);
  EXPECT_EQ(all, 595'704u);
  EXPECT_LE(differ, 4u);
}

constexpr char kQuantizedDense[] = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
  {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
  {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false, "dtype":
    {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}}}}]}})";

// None of the codes is 127, so the policy's own rule would make other codes of these numbers.
TEST(keras_files, codes_are_stored_as_they_came_while_their_policy_stays) {
  const std::vector<uint8_t> file = legacy_keras(
      kQuantizedDense,
      {{"d",
        {{"d/kernel", {2, 2}, {100, -64, 10, 120}, KerasVariable::kInt8}, {"d/kernel_scale", {2}, {63.5f, 254}}}}});
  Graph graph = import_keras_hdf5(file, "m.h5");
  simplify(graph);
  const auto compiled_under = [&](const PolicyRequest& policies) {
    CompileOptions options;
    options.policies = policies;
    return compile(graph, options).graph;
  };
  const auto weights_of = [](const Graph& made) {
    const auto product = std::ranges::find(made.nodes, Op::kDense, &Node::op);
    EXPECT_NE(product, made.nodes.end());
    const Value& w = made.values[size_t(product->inputs[1])];
    return std::pair(w.stored, *w.data);
  };
  const Graph kept = compiled_under({});
  EXPECT_EQ(weights_of(kept), std::pair(ElementType::kInt8, std::vector<uint8_t>{100, 10, 192, 120}));
  const auto scale = std::ranges::find_if(kept.values, [](const Value& v) { return v.name.ends_with("/w_scale"); });
  ASSERT_NE(scale, kept.values.end());
  EXPECT_EQ(reals(*scale), (std::vector<float>{63.5f, 254}));
  EXPECT_EQ(weights_of(compiled_under(parse_policy_options({.policy = "float32"}))).first, ElementType::kFloat32);
}

// Moments and step count are the first state of a training with the file's optimizer, and of no other.
TEST(keras_files, a_training_begins_where_the_optimizer_stopped) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 3, "use_bias": false}}]}})";
  const std::string training = R"({"loss": "mse", "optimizer_config": {"class_name": "Adam", "config": {}}})";
  const std::vector<uint8_t> file =
      legacy_keras(config, {{"d", {{"d/kernel:0", {2, 3}, {1, 2, 3, 4, 5, 6}}}}}, [&](hid_t root) {
        write_text(root, "training_config", {training});
        write_variable(root, {"optimizer_weights/Adam/iter:0", {}, {9}, KerasVariable::kInt64});
        write_variable(root, {"optimizer_weights/Adam/d/kernel/m:0", {2, 3}, {10, 11, 12, 13, 14, 15}});
        write_variable(root, {"optimizer_weights/Adam/d/kernel/v:0", {2, 3}, {20, 21, 22, 23, 24, 25}});
        write_variable(root, {"optimizer_weights/loss_scale_optimizer/dynamic_scale", {}, {256}});
        write_variable(root, {"optimizer_weights/loss_scale_optimizer/step_counter", {}, {5}});
      });
  Graph graph = import_keras_hdf5(file, "m.h5", {.batch = 4, .train = true});
  simplify(graph, kSimplifyToTrain);
  for (const Optimizer kind : {Optimizer::kAdam, Optimizer::kAdamW, Optimizer::kMomentum}) {
    TrainingOptions options;
    options.loss.kind = Loss::kSquaredError;
    options.optimizer.kind = kind;
    options.loss_scale.kind = LossScale::kDynamic;
    const test::SmallTrainer trainer(compile_training(graph, options, {}).bytes);
    EXPECT_EQ(trainer.state<float>("loss_scale"), std::vector<float>{256});
    EXPECT_EQ(trainer.state<uint32_t>("loss_scale_counters"), (std::vector<uint32_t>{5, 0, 0}));
    if (kind == Optimizer::kMomentum) {
      EXPECT_EQ(trainer.state<uint32_t>("step_count"), std::vector<uint32_t>{0});
      EXPECT_EQ(trainer.state<float>("d/kernel/velocity"), std::vector<float>(6, 0));
      continue;
    }
    EXPECT_EQ(trainer.state<uint32_t>("step_count"), std::vector<uint32_t>{9});
    EXPECT_EQ(trainer.state<float>("d/kernel/first_moment"), (std::vector<float>{10, 13, 11, 14, 12, 15}));
    EXPECT_EQ(trainer.state<float>("d/kernel/second_moment"), (std::vector<float>{20, 23, 21, 24, 22, 25}));
  }
}

// Keras's AdamW decays biases too. Here they decay only on request.
TEST(keras_files, a_bias_decays_where_all_do) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 1}}]}})";
  Graph graph = import_keras_hdf5(
      legacy_keras(config, {{"d", {{"d/kernel:0", {2, 1}, {1, 2}}, {"d/bias:0", {1}, {3}}}}}), "m.h5", {.train = true});
  simplify(graph, kSimplifyToTrain);
  for (const float all : {0.0f, 1.0f}) {
    TrainingOptions options;
    options.loss.kind = Loss::kSquaredError;
    options.optimizer.kind = Optimizer::kAdamW;
    options.optimizer.weight_decay = 0.25f;
    options.optimizer.decay_all = all;
    const TrainingModel made = compile_training(graph, options, {});
    for (const Node& node : made.update.nodes)
      if (node.op == Op::kAdamW) {
        const bool bias = made.update.values[size_t(node.inputs[4])].name == "d/bias";
        EXPECT_EQ(get_real(node, "weight_decay"), bias && all == 0 ? 0 : 0.25f);
      }
  }
}

// A float8 layer's scales are used in inference and are the first state of a training under its policy.
TEST(keras_files, float8_scales_and_histories_come_in) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": false, "dtype": {"class_name":
      "QuantizedFloat8DTypePolicy", "config": {"mode": "float8", "source_name": "float32", "amax_history_length": 2}}}}
    ]}})";
  const std::string at = "layers/dense/vars/";
  const std::vector<uint8_t> file = keras_archive(config, {{at + "0", {2, 2}, {1, -2, 3, 4}},
                                                           {at + "1", {}, {0.5f}},
                                                           {at + "2", {2}, {5, 6}},
                                                           {at + "3", {}, {0.25f}},
                                                           {at + "4", {2}, {7, 8}},
                                                           {at + "5", {}, {0.125f}},
                                                           {at + "6", {2}, {9, 10}}});
  Graph graph = import_keras_archive(file, "m.keras", {.batch = 4, .train = true});
  simplify(graph, kSimplifyToTrain);
  TrainingOptions options;
  options.loss.kind = Loss::kSquaredError;
  const test::SmallTrainer trainer(compile_training(graph, options, {}).bytes);
  for (const auto& [name, scale, history] :
       {std::tuple("d/x", 0.5f, std::vector<float>{5, 6}), std::tuple("d/w", 0.25f, std::vector<float>{7, 8}),
        std::tuple("d/y", 0.125f, std::vector<float>{9, 10})}) {
    EXPECT_EQ(trainer.state<float>(std::string(name) + "/float8_scale"), std::vector<float>{scale}) << name;
    EXPECT_EQ(trainer.state<float>(std::string(name) + "/amax_history"), history) << name;
  }
  Graph inferring = import_keras_archive(file, "m.keras");
  simplify(inferring);
  const Graph made = compile(inferring, {}).graph;
  for (const auto& [suffix, step] : {std::pair("/w_scale", 0.25f), std::pair("/x_scale", 0.5f)}) {
    const auto found = std::ranges::find_if(made.values, [&](const Value& v) { return v.name.ends_with(suffix); });
    ASSERT_NE(found, made.values.end()) << suffix;
    EXPECT_EQ(reals(*found), std::vector<float>{step}) << suffix;
  }
}

}  // namespace
}  // namespace nacre::tools
