// Tests which variables of a Keras file are frozen, and that the constants which a written-out recurrence adds are
// not parameters.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/importers/keras_builder.h"
#include "tests/refused_with.h"
#include "tools/graph/graph.h"
#include "tools/importers/keras/files.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using Strings = std::vector<std::string>;

KerasVariable variable_of_ones(const std::string& path, std::vector<hsize_t> dims) {
  size_t elements = 1;
  for (const hsize_t d : dims) elements *= size_t(d);
  return {path, std::move(dims), std::vector<float>(elements, 1)};
}

std::string layer_json(const std::string& class_name, const std::string& name, const std::string& more) {
  return R"({"class_name": ")" + class_name + R"(", "config": {"name": ")" + name + '"' +
         (more.empty() ? "" : ", " + more) + "}}";
}

std::string stack_json(const std::string& name, const std::string& input, const std::string& layers,
                       const std::string& more = "") {
  return R"({"class_name": "Sequential", "config": {"name": ")" + name + R"(", )" + more +
         R"("layers": [{"class_name": "InputLayer", "config": {"batch_shape": )" + input + R"(, "name": ")" + name +
         R"(_x"}}, )" + layers + "]}}";
}

Graph file_to_train(const std::string& config, const std::vector<KerasVariable>& variables,
                    const Strings& unfreeze = {}) {
  return import_keras_archive(keras_archive(config, variables), "m.keras", {.train = true, .unfreeze = unfreeze});
}

Strings frozen_values(const Graph& graph) {
  Strings names;
  for (const Value& v : graph.values)
    if (v.frozen) names.push_back(v.name);
  std::ranges::sort(names);
  return names;
}

const std::vector<KerasVariable> kBaseVariables = {
    variable_of_ones("layers/sequential/layers/dense/vars/0", {2, 3}),
    variable_of_ones("layers/sequential/layers/dense/vars/1", {3}),
    variable_of_ones("layers/sequential/layers/batch_normalization/vars/0", {3}),
    variable_of_ones("layers/sequential/layers/batch_normalization/vars/1", {3}),
    variable_of_ones("layers/sequential/layers/batch_normalization/vars/2", {3}),
    variable_of_ones("layers/sequential/layers/batch_normalization/vars/3", {3}),
    variable_of_ones("layers/dense/vars/0", {3, 1}),
    variable_of_ones("layers/dense/vars/1", {1})};

std::string with_base(const std::string& model, const std::string& dense, const std::string& norm,
                      const std::string& whole = "") {
  const std::string base = stack_json("base", "[null, 2]",
                                      layer_json("Dense", "a", R"("units": 3)" + dense) + ", " +
                                          layer_json("BatchNormalization", "n", R"("momentum": 0.9)" + norm),
                                      model);
  return stack_json("m", "[null, 2]", base + ", " + layer_json("Dense", "head", R"("units": 1)"), whole);
}

constexpr char kFrozen[] = R"(, "trainable": false)", kTrains[] = R"(, "trainable": true)";

// A layer's own flag overrides that of a nested model around it. A frozen outermost model freezes all of its layers.
TEST(keras_frozen, a_layers_own_flag_decides) {
  const Strings dense = {"base/a/bias", "base/a/kernel"},
                norm = {"base/n/beta", "base/n/gamma", "base/n/moving_mean", "base/n/moving_variance"};
  const auto frozen = [&](const std::string& config) { return frozen_values(file_to_train(config, kBaseVariables)); };
  EXPECT_EQ(frozen(with_base("", "", "")), Strings());
  EXPECT_EQ(frozen(with_base("", kFrozen, "")), dense);
  EXPECT_EQ(frozen(with_base("", kTrains, kFrozen)), norm);
  Strings both = dense;
  both.insert(both.end(), norm.begin(), norm.end());
  EXPECT_EQ(frozen(with_base(R"("trainable": false, )", kFrozen, kFrozen)), both);
  EXPECT_EQ(frozen(with_base(R"("trainable": false, )", "", "")), both) << "layers that do not say";
  EXPECT_EQ(frozen(with_base(R"("trainable": false, )", kTrains, kFrozen)), norm) << "one that was unfrozen again";
  EXPECT_EQ(frozen(with_base("", kTrains, kTrains, R"("trainable": false, )")).size(), 8u) << "the model as a whole";
}

// In Keras 2 a layer is frozen if a wrapper or model around it is frozen, whatever its own flag says.
TEST(keras_frozen, a_model_of_keras_2_freezes_all_in_it) {
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 4, 2], "name": "x"}},
    {"class_name": "TimeDistributed", "config": {"name": "t", "trainable": false, "layer":
      {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false, "trainable": true}}}}]}})";
  const auto file = legacy_keras(config, {{"t", {variable_of_ones("t/kernel:0", {2, 1})}}});
  EXPECT_EQ(frozen_values(import_keras_hdf5(file, "m.h5", {.train = true})).size(), 1u);
  EXPECT_EQ(frozen_values(file_to_train(config, {variable_of_ones("layers/time_distributed/layer/vars/0", {2, 1})})),
            Strings());
}

TEST(keras_frozen, sides_and_cells_have_flags_of_their_own) {
  const auto cell = [](const std::string& trainable) {
    return R"({"class_name": "LSTM", "config": {"name": "l", "units": 1, "use_bias": false)" + trainable + "}}";
  };
  const std::string config = stack_json(
      "m", "[null, 3, 1]",
      layer_json("Bidirectional", "b",
                 R"("trainable": true, "layer": )" + cell(kTrains) + R"(, "backward_layer": )" + cell(kFrozen)));
  const std::string at = "layers/bidirectional/";
  const std::vector<KerasVariable> variables = {variable_of_ones(at + "forward_layer/cell/vars/0", {1, 4}),
                                                variable_of_ones(at + "forward_layer/cell/vars/1", {1, 4}),
                                                variable_of_ones(at + "backward_layer/cell/vars/0", {1, 4}),
                                                variable_of_ones(at + "backward_layer/cell/vars/1", {1, 4})};
  EXPECT_EQ(frozen_values(file_to_train(config, variables)),
            (Strings{"b/backward/kernel", "b/backward/recurrent_kernel"}));
  EXPECT_EQ(frozen_values(file_to_train(config, variables, {"b"})), Strings()) << "what is in it too";
}

TEST(keras_frozen, layers_are_unfrozen_by_their_names_or_those_of_models_around_them) {
  const std::string config = with_base(R"("trainable": false, )", kFrozen, kFrozen);
  const auto frozen = [&](const Strings& unfreeze) {
    return frozen_values(file_to_train(config, kBaseVariables, unfreeze)).size();
  };
  EXPECT_EQ(frozen({}), 6u);
  EXPECT_EQ(frozen({"base/a"}), 4u);
  EXPECT_EQ(frozen({"base/.*", "base"}), 0u);
  EXPECT_EQ(frozen({"base"}), 0u);
  EXPECT_EQ(frozen({"all"}), 0u);
  for (const Strings& none : {Strings{"head"}, Strings{"a"}, Strings{"base", "bas"}})
    EXPECT_NE(
        refused_with([&] { static_cast<void>(frozen(none)); }, kUsage).find("matches no layer that the file freezes"),
        std::string::npos);
}

// Returns how many numbers training changes: the elements of float constants that are neither fixed nor frozen, after
// simplify.
int64_t trained_numbers(const std::string& config, const std::vector<KerasVariable>& variables) {
  Graph graph = file_to_train(config, variables);
  simplify(graph, kSimplifyToTrain);
  int64_t numbers = 0;
  for (const Value& v : graph.values)
    if (v.constant() && !v.fixed && is_float_type(v.stored)) numbers += v.elements();
  return numbers;
}

TEST(keras_frozen, written_out_recurrences_have_the_parameters_of_their_files) {
  struct Row {
    const char *class_name, *group;
    hsize_t gates;
    const char* activation;
  };
  for (const Row& row :
       {Row{"SimpleRNN", "simple_rnn", 1, "tanh"}, Row{"LSTM", "lstm", 4, "relu"}, Row{"GRU", "gru", 3, "relu"}})
    for (const bool biased : {false, true})
      for (const bool one_step : {false, true}) {
        const std::string more = std::string(R"("units": 2, "use_bias": )") + (biased ? "true" : "false") +
                                 R"(, "activation": ")" + row.activation + '"';
        const std::string config =
            stack_json("m", one_step ? "[null, 1, 2]" : "[null, 3, 2]", layer_json(row.class_name, "r", more));
        const std::string at = std::string("layers/") + row.group + "/cell/vars/";
        const bool two = row.gates == 3;  // reset_after gives a GRU two biases
        std::vector<KerasVariable> variables = {variable_of_ones(at + "0", {2, 2 * row.gates}),
                                                variable_of_ones(at + "1", {2, 2 * row.gates})};
        if (biased)
          variables.push_back(
              variable_of_ones(at + "2", two ? std::vector<hsize_t>{2, 6} : std::vector<hsize_t>{2 * row.gates}));
        // With one step from a zero state the recurrent kernel is not read.
        const auto kernel = int64_t(4 * row.gates), bias = int64_t((two ? 4 : 2) * row.gates);
        EXPECT_EQ(trained_numbers(config, variables), (one_step ? 1 : 2) * kernel + (biased ? bias : 0))
            << row.class_name << ' ' << biased << ' ' << one_step;
      }
}

// The GRU is called once with a mask and once without. So one call reads the recurrent kernel whole, the other in two
// parts.
TEST(keras_frozen, a_variable_in_forms_that_overlap_is_refused) {
  const auto node = [](const std::string& layer, int from, const std::string& more = "{}") {
    return R"([[")" + layer + R"(", )" + std::to_string(from) + ", 0, " + more + "]]";
  };
  const std::string gru = R"("units": 2, "use_bias": false, "reset_after": false, "return_sequences": true)";
  const std::string config = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 3, 2], "name": "x"},
      "inbound_nodes": []},
    {"class_name": "Masking", "name": "k", "config": {"name": "k"}, "inbound_nodes": [)" +
                             node("x", 0) + R"(]},
    {"class_name": "GRU", "name": "g", "config": {"name": "g", )" +
                             gru + R"(}, "inbound_nodes": [)" + node("x", 0) + ", " + node("k", 0) + R"(]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["g", 0, 0], ["g", 1, 0]]}})";
  const std::vector<KerasVariable> variables = {variable_of_ones("layers/gru/cell/vars/0", {2, 6}),
                                                variable_of_ones("layers/gru/cell/vars/1", {2, 6})};
  EXPECT_NE(refused_with([&] { static_cast<void>(file_to_train(config, variables)); }, kUnsupported)
                .find("g/recurrent_kernel: is read in several forms, which training could not keep equal"),
            std::string::npos);
  EXPECT_EQ(import_keras_archive(keras_archive(config, variables), "m.keras").outputs.size(), 2u);
}

}  // namespace
}  // namespace nacre::tools
