// Tests the training that a Keras file describes. Loss and optimizer become options of nacre tune. The optimizer's
// state belongs to the parameter in the parameter's own layout, however the version of Keras names the state.
#include <gtest/gtest.h>

#include "tests/importers/keras_builder.h"
#include "tools/graph/source_training.h"
#include "tools/importers/keras/files.h"

namespace nacre::tools {
namespace {

constexpr char kTwoLayers[] = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
  {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 2], "dtype": "float32", "name": "x"}},
  {"class_name": "Dense", "config": {"name": "d", "units": 3}},
  {"class_name": "BatchNormalization", "config": {"name": "b", "momentum": 0.9}},
  {"class_name": "Dense", "config": {"name": "e", "units": 1, "use_bias": false, "kernel_regularizer":
    {"class_name": "L2", "config": {"l2": 0.5}}}}]}})";

std::string compiled_with(const std::string& optimizer, const std::string& config,
                          const std::string& loss = R"("mse")") {
  return R"({"loss": )" + loss + R"(, "optimizer_config": {"class_name": ")" + optimizer + R"(", "config": {)" +
         config + "}}}";
}

std::vector<float> counted_from(float first, size_t count) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(first + float(i));
  return numbers;
}

// Returns the training of a file whose layers have variables and whose optimizer keeps `kept`.
SourceTraining training_of_file(const std::string& training, const std::vector<KerasVariable>& kept) {
  const std::map<std::string, std::vector<KerasVariable>> layers = {
      {"d", {{"d/kernel:0", {2, 3}, counted_from(1, 6)}, {"d/bias:0", {3}, counted_from(1, 3)}}},
      {"b",
       {{"b/gamma:0", {3}, counted_from(1, 3)},
        {"b/beta:0", {3}, counted_from(1, 3)},
        {"b/moving_mean:0", {3}, counted_from(1, 3)},
        {"b/moving_variance:0", {3}, counted_from(1, 3)}}},
      {"e", {{"e/kernel:0", {3, 1}, counted_from(1, 3)}}}};
  std::vector<KerasVariable> all;
  for (KerasVariable v : kept) {
    v.path = "optimizer_weights/" + v.path;
    all.push_back(v);
  }
  const std::vector<uint8_t> file = legacy_keras(kTwoLayers, layers, [&](hid_t root) {
    write_text(root, "training_config", {training});
    for (const KerasVariable& v : all) write_variable(root, v);
  });
  const Graph graph = import_keras_hdf5(file, "m.h5", {.train = true});
  EXPECT_EQ(import_keras_hdf5(file, "m.h5").training, nullptr);  // of no use where nothing is trained
  return *graph.training;
}

using Moments = std::map<std::string, std::vector<float>>;
const std::vector<float> kTurned = {10, 13, 11, 14, 12, 15};  // [2, 3] of 10 .. 15 as [3, 2]

TEST(keras_training, moments_are_found_under_the_names_of_three_versions) {
  struct Names {
    const char *steps, *first, *second;
  };
  for (const Names& n : {Names{"Adam/iter:0", "Adam/d/kernel/m:0", "Adam/d/kernel/v:0"},
                         Names{"iteration:0", "Adam/m/d/kernel:0", "Adam/v/d/kernel:0"},
                         Names{"adam/iteration", "adam/d_kernel_momentum", "adam/d_kernel_velocity"}}) {
    const SourceTraining said =
        training_of_file(compiled_with("Custom>Adam", R"("learning_rate": 0.25, "epsilon": 1e-07)"),
                         {{n.steps, {}, {77}, KerasVariable::kInt64},
                          {n.first, {2, 3}, counted_from(10, 6)},
                          {n.second, {2, 3}, counted_from(20, 6)}});
    EXPECT_EQ(said.steps, 77u) << n.steps;
    EXPECT_EQ(said.learning_rate, 0.25f);
    ASSERT_EQ(said.moments.size(), 1u) << n.first;
    EXPECT_EQ(said.moments.at("d/kernel").at("first_moment"), kTurned);
    EXPECT_EQ(said.moments.at("d/kernel").at("second_moment"), (std::vector<float>{20, 23, 21, 24, 22, 25}));
  }
}

// A LossScaleOptimizer wraps another optimizer. The training takes the options and the state of the inner one, and
// the loss scale.
TEST(keras_training, a_loss_scale_is_around_an_optimizer) {
  const std::string inner = R"("inner_optimizer": {"class_name": "Adam", "config": {"beta_1": 0.8}})";
  const SourceTraining listed = training_of_file(compiled_with("LossScaleOptimizer", inner),
                                                 {{"adam/iteration", {}, {7}, KerasVariable::kInt64},
                                                  {"adam/d_kernel_momentum", {2, 3}, counted_from(10, 6)},
                                                  {"adam/d_kernel_velocity", {2, 3}, counted_from(20, 6)},
                                                  {"loss_scale_optimizer/iteration", {}, {0}, KerasVariable::kInt64},
                                                  {"loss_scale_optimizer/step_counter", {}, {5}, KerasVariable::kInt64},
                                                  {"loss_scale_optimizer/dynamic_scale", {}, {256}}});
  EXPECT_EQ(listed.optimizer, "adam,beta1=0.8,beta2=0.999,epsilon=1e-07,epsilon_before=1");
  EXPECT_EQ(listed.steps, 7u);
  EXPECT_EQ(listed.loss_scale, 256);
  EXPECT_EQ(listed.steps_with_scale, 5u);
  EXPECT_EQ(listed.moments.at("d/kernel").at("first_moment"), kTurned);
  const SourceTraining inside =  // as Keras 3 names them on TensorFlow
      training_of_file(compiled_with("LossScaleOptimizer", inner),
                       {{"adam/iteration", {}, {7}, KerasVariable::kInt64},
                        {"loss_scale_optimizer/adam/d_kernel_momentum", {2, 3}, counted_from(10, 6)},
                        {"loss_scale_optimizer/adam/d_kernel_velocity", {2, 3}, counted_from(20, 6)},
                        {"loss_scale_optimizer/iteration", {}, {3}, KerasVariable::kInt64}});
  EXPECT_EQ(inside.moments.at("d/kernel").at("first_moment"), kTurned);
  EXPECT_EQ(inside.steps, 7u);

  const std::string config = R"({"class_name": "Sequential", "compile_config": {"loss": "mse", "optimizer":
    {"class_name": "Adam", "config": {}}}, "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false}}]}})";
  const std::string own = "optimizer/vars/", of_inner = "optimizer/inner_optimizer/vars/";
  const Graph graph = import_keras_archive(keras_archive(config, {{"layers/dense/vars/0", {2, 1}, {1, 2}},
                                                                  {own + "0", {}, {0}, KerasVariable::kInt64},
                                                                  {own + "1", {}, {0}},
                                                                  {own + "2", {}, {5}, KerasVariable::kInt64},
                                                                  {own + "3", {}, {256}},
                                                                  {of_inner + "0", {}, {7}, KerasVariable::kInt64},
                                                                  {of_inner + "1", {}, {0.5f}},
                                                                  {of_inner + "2", {2, 1}, {3, 4}},
                                                                  {of_inner + "3", {2, 1}, {5, 6}}}),
                                           "m.keras", {.train = true});
  EXPECT_EQ(graph.training->steps, 7u);
  EXPECT_EQ(graph.training->learning_rate, 0.5f);
  EXPECT_EQ(graph.training->loss_scale, 256);
  EXPECT_EQ(graph.training->steps_with_scale, 5u);
  EXPECT_EQ(graph.training->moments.at("d/kernel"), (Moments{{"first_moment", {3, 4}}, {"second_moment", {5, 6}}}));
}

// Keras's velocity is the engine's times the negative learning rate.
TEST(keras_training, velocities_lose_their_rate) {
  const SourceTraining said =
      training_of_file(compiled_with("SGD", R"("learning_rate": 0.5, "momentum": 0.75, "nesterov": true)"),
                       {{"SGD/d/bias/momentum:0", {3}, {1, -2, 3}}});
  EXPECT_EQ(said.optimizer, "nesterov,momentum=0.75");
  EXPECT_EQ(said.moments.at("d/bias"), (Moments{{"velocity", {-2, 4, -6}}}));
}

TEST(keras_training, loss_and_optimizer_are_said_as_tune_takes_them) {
  const auto said = [](const std::string& training) { return training_of_file(training, {}); };
  const SourceTraining adam = said(compiled_with("Adam", R"("beta_1": 0.8, "epsilon": 0.001, "global_clipnorm": 2)"));
  EXPECT_EQ(adam.loss, "squared_error");
  EXPECT_EQ(adam.optimizer, "adam,beta1=0.8,beta2=0.999,epsilon=0.001,epsilon_before=1");
  EXPECT_EQ(adam.decays, (std::map<std::string, float>{{"e/kernel", 1}}));  // of the L2 regularizer
  EXPECT_EQ(adam.clip_norm, 2);
  EXPECT_EQ(adam.momenta, (std::map<std::string, float>{{"b/moving_mean", 0.9f}, {"b/moving_variance", 0.9f}}));
  EXPECT_EQ(said(compiled_with("AdamW", R"("weight_decay": 0.004)")).optimizer,
            "adamw,beta1=0.9,beta2=0.999,epsilon=1e-07,epsilon_before=1,weight_decay=0.004,decay_all=1");
  EXPECT_EQ(said(compiled_with("RMSprop", R"("rho": 0.95)")).optimizer,
            "rmsprop,alpha=0.95,epsilon=1e-07,epsilon_in_root=1");
  EXPECT_EQ(said(compiled_with("Ftrl", "")).optimizer, "");
  for (const auto& [keras, ours] : {std::pair(R"("sparse_categorical_crossentropy")", "softmax_cross_entropy"),
                                    std::pair(R"({"class_name": "CategoricalCrossentropy", "config":
                                                 {"label_smoothing": 0.125}})",
                                              "dense_cross_entropy,label_smoothing=0.125"),
                                    std::pair(R"({"class_name": "Huber", "config": {"delta": 2}})", "huber,delta=2"),
                                    std::pair(R"("my_own_loss")", "")})
    EXPECT_EQ(said(compiled_with("SGD", "", keras)).loss, ours);
}

// A .keras file numbers the optimizer's variables: first the step count and the learning rate, then the states of
// each trained variable, in Keras's order.
TEST(keras_training, an_archive_tells_by_order) {
  const std::string config = R"({"class_name": "Sequential", "compile_config": {"loss": "mse", "optimizer":
    {"class_name": "Adam", "config": {"learning_rate": 0.001}}}, "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "x"}},
    {"class_name": "Dense", "config": {"name": "frozen", "units": 2, "use_bias": false, "trainable": false}},
    {"class_name": "LSTM", "config": {"name": "l", "units": 1, "use_bias": false}},
    {"class_name": "BatchNormalization", "config": {"name": "b", "center": false}},
    {"class_name": "Sequential", "config": {"name": "inner", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1], "name": "y"}},
      {"class_name": "Dense", "config": {"name": "d", "units": 3, "use_bias": false}}]}}]}})";
  std::vector<KerasVariable> variables = {
      {"layers/dense/vars/0", {2, 2}, counted_from(1, 4)},
      {"layers/lstm/cell/vars/0", {2, 4}, counted_from(1, 8)},
      {"layers/lstm/cell/vars/1", {1, 4}, counted_from(1, 4)},
      {"layers/batch_normalization/vars/0", {1}, {1}},
      {"layers/batch_normalization/vars/1", {1}, {1}},
      {"layers/batch_normalization/vars/2", {1}, {1}},
      {"layers/sequential/layers/dense/vars/0", {1, 3}, counted_from(1, 3)},
      {"optimizer/vars/0", {}, {5}, KerasVariable::kInt64},
      {"optimizer/vars/1", {}, {0.125f}},
  };
  size_t place = 2;
  for (const std::vector<hsize_t>& dims : {std::vector<hsize_t>{2, 4}, {1, 4}, {1}, {1, 3}})
    for (const float base : {100.0f, 200.0f}) {
      size_t count = 1;
      for (const hsize_t d : dims) count *= d;
      const std::string path = "optimizer/vars/" + std::to_string(place);
      variables.push_back({path, dims, counted_from(base + 10 * float(place / 2), count)});
      ++place;
    }
  const Graph graph = import_keras_archive(keras_archive(config, variables), "m.keras", {.train = true});
  const SourceTraining& said = *graph.training;
  EXPECT_EQ(said.steps, 5u);
  EXPECT_EQ(said.learning_rate, 0.125f);
  EXPECT_EQ(said.moments.size(), 4u);
  EXPECT_EQ(said.moments.at("l/kernel").at("first_moment"),
            (std::vector<float>{110, 114, 111, 115, 112, 116, 113, 117}));
  EXPECT_EQ(said.moments.at("b/gamma"), (Moments{{"first_moment", {130}}, {"second_moment", {230}}}));
  EXPECT_EQ(said.moments.at("inner/d/kernel").at("second_moment"), (std::vector<float>{240, 241, 242}));

  variables.pop_back();  // one is missing: which parameter a state belongs to is unknown
  const Graph without = import_keras_archive(keras_archive(config, variables), "m.keras", {.train = true});
  EXPECT_TRUE(without.training->moments.empty());
  EXPECT_EQ(without.training->loss, "squared_error");
}

std::string refused_facts(const SourceTraining& said) {
  std::string text;
  for (const RefusedSetting& setting : said.refused) text += setting.fact + "\n";
  return text;
}

// Returns the training of a file with the layers a and b, compiled with this loss and these outputs.
SourceTraining training_of_outputs(const std::string& loss, const std::string& outputs, const std::string& output = "",
                                   const std::string& weights = "null") {
  const auto dense = [](const std::string& name, const std::string& more) {
    return R"({"class_name": "Dense", "name": ")" + name + R"(", "config": {"name": ")" + name +
           R"(", "units": 1, "use_bias": false)" + more + R"(}, "inbound_nodes": [[["x", 0, 0, {}]]]})";
  };
  const std::string config = R"({"class_name": "Functional", "compile_config": {"optimizer": "SGD", "loss": )" + loss +
                             R"(, "loss_weights": )" + weights + R"(}, "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 2], "name": "x"},
      "inbound_nodes": []}, )" +
                             dense("a", "") + ", " + dense("b", R"(, "activation": "sigmoid")") +
                             R"(], "input_layers": [["x", 0, 0]], "output_layers": )" + outputs + "}}";
  const std::vector<uint8_t> file =
      keras_archive(config, {{"layers/dense/vars/0", {2, 1}, {1, 2}}, {"layers/dense_1/vars/0", {2, 1}, {3, 4}}});
  return *import_keras_archive(file, "m.keras", {.train = true, .output = output}).training;
}

TEST(keras_training, a_loss_is_of_the_output_that_its_key_or_its_place_names) {
  const std::string list = R"([["a", 0, 0], ["b", 0, 0]])";
  const std::string turned = R"({"second": ["a", 0, 0], "first": ["b", 0, 0]})";  // Keras sorts: b, a
  for (const auto& [loss, outputs, output] :
       {std::tuple(R"({"b": "mse"})", list, "b"), std::tuple(R"({"a": null, "b": "mse"})", list, "b"),
        std::tuple(R"([null, "mse"])", list, "b"), std::tuple(R"(["mse"])", list, "a"),
        std::tuple(R"({"second": "mse"})", turned, "a"), std::tuple(R"(["mse", null])", turned, "b"),
        std::tuple(R"({"b": "mse"})", std::string(R"([["b", 0, 0]])"), ""),
        std::tuple(R"("mse")", std::string(R"([["b", 0, 0]])"), "")}) {
    const SourceTraining said = training_of_outputs(loss, outputs);
    EXPECT_EQ(said.output, output) << loss;
    EXPECT_EQ(said.loss, "squared_error") << loss;
    EXPECT_EQ(refused_facts(said), "") << loss;
  }
  EXPECT_EQ(refused_facts(training_of_outputs(R"([null, "mse"])", list, "", "[null, 1.0]")), "");
  const std::string cross = R"({"class_name": "BinaryCrossentropy", "config": {"from_logits": false}})";
  EXPECT_EQ(refused_facts(training_of_outputs(R"({"b": )" + cross + "}", list)), "") << "of a sigmoid";
  EXPECT_NE(refused_facts(training_of_outputs(R"({"a": )" + cross + "}", list)).find("loss.from_logits"),
            std::string::npos);
}

TEST(keras_training, one_loss_of_several_outputs_is_refused_unless_one_is_named) {
  const std::string list = R"([["a", 0, 0], ["b", 0, 0]])";
  const std::string said = refused_facts(training_of_outputs(R"("mse")", list));
  EXPECT_NE(said.find("is of each of its outputs"), said.npos) << said;
  EXPECT_NE(said.find("name the output to train with --train-output: a, b"), said.npos) << said;
  for (const char* name : {"a", "b"}) {
    const SourceTraining of_one = training_of_outputs(R"("mse")", list, name);
    EXPECT_EQ(refused_facts(of_one), "");
    EXPECT_EQ(of_one.loss, "squared_error");
  }
  EXPECT_NE(
      refused_facts(training_of_outputs(R"({"c": "mse"})", list)).find("is of an output c, which it does not have"),
      std::string::npos);
  const std::string several = refused_facts(training_of_outputs(R"(["mse", "mae"])", list));
  EXPECT_NE(several.find("several losses"), several.npos) << several;
  EXPECT_NE(several.find("--train-output"), several.npos) << several;
  EXPECT_EQ(training_of_outputs(R"([null, null])", list).loss, "");
}

}  // namespace
}  // namespace nacre::tools
