// Tests which layers of a Keras file read a tensor's mask, and which drop the mask, as in Keras 2 and 3.15.
#include <gtest/gtest.h>

#include "tests/importers/keras_graphs.h"
#include "tests/refused_with.h"

namespace nacre::tools {
namespace {

using Variables = std::vector<KerasVariable>;

std::string tensor_of(const std::string& layer) {
  return R"({"class_name": "__keras_tensor__", "config": {"dtype": "float32", "keras_history": [")" + layer +
         R"(", 0, 0]}})";
}

struct CalledLayer {
  std::string class_name, name, config, arguments, keywords = "";
};

// Returns the configuration of a network with the input x [batch, 3, 1], these layers and these outputs.
std::string network_of(const std::vector<CalledLayer>& layers, const std::vector<std::string>& outputs) {
  std::string text = R"({"class_name": "Functional", "config": {"name": "m", "layers": [
    {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": [null, 3, 1], "name": "x"},
     "inbound_nodes": []})";
  for (const CalledLayer& l : layers)
    text += R"(, {"class_name": ")" + l.class_name + R"(", "name": ")" + l.name + R"(", "config": {"name": ")" +
            l.name + '"' + l.config + R"(}, "inbound_nodes": [{"args": [)" + l.arguments + R"(], "kwargs": {)" +
            l.keywords + "}}]}";
  std::string given;
  for (const std::string& name : outputs) given += (given.empty() ? "[\"" : ", [\"") + name + R"(", 0, 0])";
  return text + R"(], "input_layers": [["x", 0, 0]], "output_layers": [)" + given + "]}}";
}

// Returns the network's first output for x = 1, 0, 2, whose second step is hidden if the network has kMasking.
Floats masked_run(const std::vector<CalledLayer>& layers, const std::vector<std::string>& outputs,
                  const Variables& variables) {
  const Graph graph = import_keras_archive(keras_archive(network_of(layers, outputs), variables), "m.keras");
  check(graph);
  return outputs_of(graph, Floats{1, 0, 2});
}

const CalledLayer kMasking = {"Masking", "k", R"(, "mask_value": 0)", tensor_of("x")};

CalledLayer mean_of(const std::string& name, const std::string& of) {
  return {"GlobalAveragePooling1D", name, "", tensor_of(of)};
}

// The recurrence h' = x + 2 h starts from the last step of x.
TEST(keras_masks, a_recurrence_with_a_state_to_begin_with_reads_a_given_mask_alone) {
  const std::string linear = R"(, "units": 1, "activation": "linear", "use_bias": false)";
  const Variables variables = {{"layers/simple_rnn/cell/vars/0", {1, 1}, {1}},
                               {"layers/simple_rnn/cell/vars/1", {1, 1}, {0}},
                               {"layers/simple_rnn_1/cell/vars/0", {1, 1}, {1}},
                               {"layers/simple_rnn_1/cell/vars/1", {1, 1}, {2}}};
  const auto run = [&](const std::string& keywords, const std::string& output) {
    return masked_run({kMasking,
                       {"Reshape", "r", R"(, "target_shape": [3])", tensor_of("x")},
                       {"SimpleRNN", "a", linear, tensor_of("x")},
                       {"SimpleRNN", "d", linear + R"(, "return_sequences": true)", tensor_of("k"), keywords},
                       mean_of("p", "d")},
                      {output}, variables);
  };
  const std::string state = R"("initial_state": [)" + tensor_of("a") + "]";
  EXPECT_EQ(run("", "d"), (Floats{1, 1, 4}));
  EXPECT_EQ(run(state, "d"), (Floats{5, 10, 22}));
  EXPECT_EQ(run(state, "p"), Floats{13.5f}) << "the mask is handed on";
  EXPECT_EQ(run(state + R"(, "mask": )" + tensor_of("r"), "d"), (Floats{5, 5, 12}));

  const std::string cell = R"({"class_name": "SimpleRNN", "config": {"name": "l")" + linear + "}}";
  const Variables sides = {variables[0],
                           variables[1],
                           {"layers/bidirectional/forward_layer/cell/vars/0", {1, 1}, {1}},
                           {"layers/bidirectional/forward_layer/cell/vars/1", {1, 1}, {2}},
                           {"layers/bidirectional/backward_layer/cell/vars/0", {1, 1}, {1}},
                           {"layers/bidirectional/backward_layer/cell/vars/1", {1, 1}, {2}}};
  EXPECT_EQ(masked_run({kMasking,
                        {"SimpleRNN", "a", linear, tensor_of("x")},
                        {"Bidirectional", "d", R"(, "layer": )" + cell, tensor_of("k"),
                         R"("initial_state": [)" + tensor_of("a") + ", " + tensor_of("a") + "]"}},
                       {"d"}, sides),
            (Floats{22, 25}));
}

CalledLayer heads(const std::string& name, const std::string& query, const std::string& value,
                  const std::string& keywords = "", const std::string& config = "") {
  return {"MultiHeadAttention", name, R"(, "num_heads": 1, "key_dim": 1, "use_bias": false)" + config,
          tensor_of(query) + ", " + tensor_of(value), keywords};
}

// Returns the variables of an attention layer whose kernels are all 1, except that the output's is `out`.
Variables projections(const std::string& group, float out = 1) {
  return {{"layers/" + group + "/query_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/key_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/value_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/output_dense/vars/0", {1, 1, 1}, {out}}};
}

// Keras ignores a query_mask argument and uses the mask that the query carries, if any. Grouped-query attention does
// read that argument.
TEST(keras_masks, heads_do_not_read_a_query_mask_that_is_given) {
  const CalledLayer less = {"Rescaling", "o", R"(, "scale": 1, "offset": -1)", tensor_of("x")},
                    numbers = {"Reshape", "r", R"(, "target_shape": [3])", tensor_of("o")};
  const std::string given = R"("query_mask": )" + tensor_of("r");
  const auto run = [&](CalledLayer layer, const std::string& group, const std::string& keywords) {
    layer.keywords = keywords;
    return masked_run({less, numbers, kMasking, layer}, {"d"}, projections(group));
  };
  for (const char* query : {"x", "k"})
    EXPECT_EQ(run(heads("d", query, "x"), "multi_head_attention", given),
              run(heads("d", query, "x"), "multi_head_attention", ""))
        << query;
  CalledLayer grouped = heads("d", "x", "x");
  grouped.class_name = "GroupedQueryAttention";
  grouped.config = R"(, "head_dim": 1, "num_query_heads": 1, "num_key_value_heads": 1, "use_bias": false)";
  const Floats masked = run(grouped, "grouped_query_attention", given);
  EXPECT_NEAR(masked[0], 1, 1e-6) << "a query that sees nothing has the mean";
}

// Keras runs the calls one after another, and attention deletes the masks of its query and of its values in place.
TEST(keras_masks, heads_take_the_masks_of_what_they_read) {
  Variables variables = projections("multi_head_attention");
  for (const KerasVariable& v : projections("multi_head_attention_1")) variables.push_back(v);
  const Variables one = projections("multi_head_attention");
  const Floats plain = masked_run({heads("d", "x", "x")}, {"d"}, one);
  const Floats hidden = masked_run({kMasking, heads("d", "x", "k")}, {"d"}, one);
  ASSERT_NE(plain, hidden);

  const auto twice = [&](const std::string& value, const std::string& config = "") {
    return masked_run({kMasking, heads("h", "x", "k", "", config), heads("d", "h", value)}, {"d"}, variables);
  };
  EXPECT_EQ(twice("k"), twice("x"));
  EXPECT_NEAR(twice("k")[0], 1.8015f, 1e-4) << "Keras 3.15";
  EXPECT_NE(twice("k", R"(, "dtype": "mixed_float16")"), twice("x", R"(, "dtype": "mixed_float16")"))
      << "an operand that is cast keeps its mask";

  // If two outputs have one depth, Keras runs the call of the last output first, however the file orders the layers.
  const CalledLayer d = heads("d", "x", "k"), e = heads("e", "x", "k");
  for (const std::vector<CalledLayer>& layers :
       {std::vector<CalledLayer>{kMasking, d, e}, std::vector<CalledLayer>{kMasking, e, d}})
    for (const std::vector<std::string>& outputs : {std::vector<std::string>{"d", "e"}, {"e", "d"}}) {
      const std::vector<uint8_t> file = keras_archive(network_of(layers, outputs), variables);
      const Graph graph = run_graph(import_keras_archive(file, "m.keras"), {bytes_of(Floats{1, 0, 2})});
      EXPECT_EQ(reals(graph.values[size_t(graph.outputs[0].value)]), plain);
      EXPECT_EQ(reals(graph.values[size_t(graph.outputs[1].value)]), hidden);
    }
}

TEST(keras_masks, what_is_made_of_a_mask_that_was_taken_has_none) {
  Variables variables = projections("multi_head_attention", 0);  // h is 0
  for (const KerasVariable& v : projections("multi_head_attention_1")) variables.push_back(v);
  const Floats plain = masked_run({heads("d", "x", "x")}, {"d"}, projections("multi_head_attention"));
  const CalledLayer h = heads("h", "k", "k"),
                    sum = {"Add", "s", "", "[" + tensor_of("k") + ", " + tensor_of("h") + "]"};
  EXPECT_EQ(masked_run({kMasking, h, sum, heads("d", "x", "s")}, {"d"}, variables), plain);
  // If a layer has only one operand, Keras fixes its mask when it builds the model, before attention deletes it.
  EXPECT_EQ(masked_run({kMasking, h, mean_of("p", "k")}, {"p", "h"}, projections("multi_head_attention")),
            Floats{1.5f});
}

// Returns the configuration of a nested model with the input i [batch, 3, 1] and this output.
std::string model_of(const std::string& layers, const std::string& output) {
  return R"(, "layers": [{"class_name": "InputLayer", "name": "i", "config": {"batch_shape": [null, 3, 1], "name": "i"},
    "inbound_nodes": []})" +
         layers + R"(], "input_layers": [["i", 0, 0]], "output_layers": [[")" + output + R"(", 0, 0]])";
}

std::string layer_in(const CalledLayer& l) {
  return R"(, {"class_name": ")" + l.class_name + R"(", "name": ")" + l.name + R"(", "config": {"name": ")" + l.name +
         '"' + l.config + R"(}, "inbound_nodes": [{"args": [)" + l.arguments + R"(], "kwargs": {)" + l.keywords +
         "}}]}";
}

// The numbers with several decimals come from Keras.
TEST(keras_masks, a_nested_model_takes_and_gives_masks_as_it_runs) {
  const CalledLayer sum = {"Add", "s", "", "[" + tensor_of("i") + ", " + tensor_of("h") + "]"},
                    block = {"Functional", "b", model_of(layer_in(heads("h", "i", "i")) + layer_in(sum), "s"),
                             tensor_of("k")};
  CalledLayer mean = mean_of("p", "b");
  mean.keywords = R"("mask": null)";
  const Variables inner = projections("functional/layers/multi_head_attention");
  EXPECT_NEAR(masked_run({kMasking, block, mean}, {"p"}, inner)[0], 2.5372851f, 1e-5) << "heads took the mask";

  CalledLayer inside = mean_of("q", "i");
  inside.keywords = R"("mask": null)";
  const CalledLayer steps = {"Reshape", "r", R"(, "target_shape": [3])", tensor_of("x")};
  const auto pooled = [&](const std::string& keywords, const std::string& of) {
    return masked_run({kMasking, steps, {"Functional", "b", model_of(layer_in(inside), "q"), tensor_of(of), keywords}},
                      {"b"}, {});
  };
  EXPECT_EQ(pooled(R"("mask": )" + tensor_of("r"), "x"), Floats{1.5f});
  EXPECT_EQ(pooled(R"("mask": [)" + tensor_of("r") + "]", "x"), Floats{1.5f});
  EXPECT_EQ(pooled("", "x"), Floats{1});
  EXPECT_EQ(pooled(R"("mask": null)", "k"), Floats{1.5f});
}

TEST(keras_masks, masks_that_a_call_gives_count) {
  const CalledLayer steps = {"Reshape", "r", R"(, "target_shape": [3])", tensor_of("x")};
  EXPECT_EQ(masked_run({steps, {"GlobalAveragePooling1D", "p", "", tensor_of("x") + ", " + tensor_of("r")}}, {"p"}, {}),
            Floats{1.5f})
      << "by its place";
  EXPECT_NE(
      refused_with(
          [&] { masked_run({{"GlobalAveragePooling1D", "p", "", tensor_of("x") + ", " + tensor_of("x")}}, {"p"}, {}); },
          kBadInput)
          .find("a mask of shape [1, 3, 1]"),
      std::string::npos);
  const Floats seen = masked_run({steps, heads("h", "x", "x", R"("key_mask": )" + tensor_of("r"))}, {"h"},
                                 projections("multi_head_attention"));
  EXPECT_NEAR(seen[1], 1.5f, 1e-6) << "of the value, which is the key";

  // The recurrence h' = x + h starts from the sum of all steps of x. Its output is 0 before the first step that the
  // mask keeps.
  const std::string linear = R"(, "units": 1, "activation": "linear", "use_bias": false)";
  Variables variables;
  for (const char* cell : {"simple_rnn", "simple_rnn_1"})
    for (const char* v : {"0", "1"})
      variables.push_back({std::string("layers/") + cell + "/cell/vars/" + v, {1, 1}, {1}});
  EXPECT_EQ(masked_run({{"Rescaling", "o", R"(, "scale": 1, "offset": -1)", tensor_of("x")},
                        {"Reshape", "m", R"(, "target_shape": [3])", tensor_of("o")},
                        {"SimpleRNN", "a", linear, tensor_of("x")},
                        {"SimpleRNN", "d", linear + R"(, "return_sequences": true)", tensor_of("x"),
                         R"("initial_state": )" + tensor_of("a") + R"(, "mask": )" + tensor_of("m")}},
                       {"d"}, variables),
            (Floats{0, 3, 5}));
}

TEST(keras_masks, layers_within_time_distributed_read_the_mask_of_their_step) {
  const CalledLayer mean = {"TimeDistributed", "t",
                            R"(, "layer": {"class_name": "GlobalAveragePooling1D", "config": {"name": "g"}})",
                            tensor_of("r"), R"("mask": )" + tensor_of("m")};
  EXPECT_EQ(masked_run({{"Reshape", "r", R"(, "target_shape": [1, 3, 1])", tensor_of("x")},
                        {"Reshape", "m", R"(, "target_shape": [1, 3])", tensor_of("x")},
                        mean},
                       {"t"}, {}),
            Floats{1.5f});
}

TEST(keras_masks, steps_of_an_operand_without_a_mask_count_in_a_sequence) {
  const std::vector<CalledLayer> layers = {
      kMasking,
      {"Concatenate", "c", R"(, "axis": 1)", "[" + tensor_of("k") + ", " + tensor_of("x") + "]"},
      mean_of("p", "c")};
  EXPECT_NEAR(masked_run(layers, {"p"}, {})[0], 1.2f, 1e-6);
}

// Keras 3 numbers the call of a nested model from 1 in the outputs, but from 0 in the operands of a layer.
TEST(keras_masks, an_output_of_a_nested_model_may_be_read_too) {
  const CalledLayer scaled = {"Rescaling", "q", R"(, "scale": 2, "offset": 0)", tensor_of("i")};
  std::string config =
      network_of({{"Functional", "b", model_of(layer_in(scaled), "q"), tensor_of("x")}, mean_of("p", "b")}, {"p", "b"});
  const std::string outputs = R"(["b", 0, 0])";
  const size_t at = config.rfind(outputs);
  config.replace(at, outputs.size(), R"(["b", 1, 0])");
  const Graph graph =
      run_graph(import_keras_archive(keras_archive(config, {}), "m.keras"), {bytes_of(Floats{1, 0, 2})});
  EXPECT_EQ(reals(graph.values[size_t(graph.outputs[0].value)]), Floats{2});
  EXPECT_EQ(reals(graph.values[size_t(graph.outputs[1].value)]), (Floats{2, 0, 4}));
}

// Merges operands made of x = [1, 0, 2]: n = [-2, -3, -1] with its second step masked, o = [0, -1, 1] without a mask,
// p = [5, 4, 6] with its first step masked. Returns the merge y or, if `mean`, its mean over the steps.
Floats merged(const std::string& class_name, const std::vector<std::string>& operands, bool mean) {
  std::string list;
  for (const std::string& each : operands) list += (list.empty() ? "" : ", ") + tensor_of(each);
  std::vector<CalledLayer> layers = {kMasking,
                                     {"Rescaling", "n", R"(, "scale": 1, "offset": -3)", tensor_of("k")},
                                     {"Rescaling", "o", R"(, "scale": 1, "offset": -1)", tensor_of("x")},
                                     {"Masking", "q", R"(, "mask_value": 0)", tensor_of("o")},
                                     {"Rescaling", "p", R"(, "scale": 1, "offset": 5)", tensor_of("q")},
                                     {class_name, "y", "", "[" + list + "]"}};
  if (mean) layers.push_back(mean_of("m", "y"));
  return masked_run(layers, {mean ? "m" : "y"}, {});
}

TEST(keras_masks, a_masked_step_of_a_merge_has_the_other_operands_number) {
  struct Case {
    const char* class_name;
    std::vector<std::string> operands;
    Floats numbers;
    float mean;
  };
  const std::vector<Case> cases = {{"Maximum", {"n", "o"}, {0, -1, 1}, 0},
                                   {"Maximum", {"o", "n"}, {0, -1, 1}, 0},
                                   {"Maximum", {"n", "p"}, {-2, 4, 6}, 8.0f / 3},
                                   {"Maximum", {"n", "o", "p"}, {0, 4, 6}, 10.0f / 3},
                                   {"Maximum", {"n", "k"}, {1, -3, 2}, 1.5f},
                                   {"Minimum", {"n", "o"}, {-2, -1, -1}, -4.0f / 3},
                                   {"Minimum", {"n", "p"}, {-2, 4, -1}, 1.0f / 3},
                                   {"Minimum", {"n", "o", "p"}, {-2, -1, -1}, -4.0f / 3},
                                   {"Minimum", {"n", "k"}, {-2, -3, -1}, -1.5f},
                                   {"Multiply", {"n", "o"}, {0, -1, -1}, -2.0f / 3},
                                   {"Multiply", {"n", "p"}, {-2, 4, -6}, -4.0f / 3},
                                   {"Multiply", {"n", "o", "p"}, {0, -4, -6}, -10.0f / 3},
                                   {"Multiply", {"n", "k"}, {-2, 0, -2}, -2},
                                   {"Add", {"n", "p"}, {3, 1, 5}, 3},
                                   {"Add", {"n", "k"}, {-1, -3, 1}, 0}};
  for (const Case& c : cases) {
    EXPECT_EQ(merged(c.class_name, c.operands, false), c.numbers) << c.class_name << c.operands.size();
    EXPECT_NEAR(merged(c.class_name, c.operands, true)[0], c.mean, 1e-6) << c.class_name << c.operands.size();
  }
}

// Keras 2 merges numbers without a look at the masks. A step of the result is kept if every operand that has a mask
// keeps it.
TEST(keras_masks, merges_of_keras_2_read_no_mask_and_hand_on_all_of_them) {
  const auto layer = [](const std::string& class_name, const std::string& name, const std::string& config,
                        const std::string& of) {
    return R"(, {"class_name": ")" + class_name + R"(", "name": ")" + name + R"(", "config": {"name": ")" + name + '"' +
           config + R"(}, "inbound_nodes": [[)" + of + "]]}";
  };
  const auto node = [](const std::string& name) { return "[\"" + name + "\", 0, 0, {}]"; };
  const auto run = [&](const std::string& class_name, const std::string& a, const std::string& b,
                       const std::string& output) {
    const Graph graph = file_graph(
        R"({"class_name": "Functional", "config": {"name": "m", "layers": [{"class_name": "InputLayer", "name": "x",
           "config": {"batch_input_shape": [null, 3, 1], "name": "x"}, "inbound_nodes": []})" +
            layer("Masking", "k", R"(, "mask_value": 0)", node("x")) +
            layer("Rescaling", "o", R"(, "scale": 1, "offset": -1)", node("x")) +
            layer("Masking", "q", R"(, "mask_value": 0)", node("o")) +
            layer(class_name, "y", "", node(a) + ", " + node(b)) + layer("GlobalAveragePooling1D", "m", "", node("y")) +
            R"(], "input_layers": [["x", 0, 0]], "output_layers": [[")" + output + R"(", 0, 0]]}})",
        {});
    return outputs_of(graph, Floats{1, 0, 2});
  };
  EXPECT_EQ(run("Maximum", "k", "q", "y"), (Floats{1, 0, 2}));
  EXPECT_EQ(run("Multiply", "k", "o", "y"), (Floats{0, 0, 2}));
  EXPECT_EQ(run("Multiply", "k", "q", "m"), Floats{2}) << "the last step alone counts in both";
  EXPECT_EQ(run("Multiply", "k", "o", "m"), Floats{1});
}

TEST(keras_masks, heads_whose_operands_are_named_hand_on_the_mask_of_the_query) {
  CalledLayer named = heads("h", "k", "k");
  named.arguments = "";
  named.keywords = R"("query": )" + tensor_of("k") + R"(, "value": )" + tensor_of("k");
  const Floats mean = masked_run({kMasking, named, mean_of("p", "h")}, {"p"}, projections("multi_head_attention"));
  EXPECT_NEAR(mean[0], 1.8059278f, 1e-6) << "Keras 3.15";
}

// Returns the refusal to train a network with the input x [batch, 3, 1], these layers and a Dense, which trains.
std::string refusal_of_training(const std::string& layers, Variables variables, const ImportOptions& options) {
  variables.push_back({"layers/dense/vars/0", {1, 1}, {1}});
  const std::string config = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 3, 1], "name": "x"}}, )" +
                             layers + R"(, {"class_name": "GlobalAveragePooling1D", "config": {"name": "g"}},
    {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": false}}]}})";
  try {
    import_keras_archive(keras_archive(config, variables), "m.keras", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Variables norm_at(const std::string& place) {
  Variables all;
  for (const char* i : {"0", "1", "2", "3"}) all.push_back({place + "/vars/" + i, {1}, {1}});
  return all;
}

std::string norm_of(bool trains) {
  return R"({"class_name": "BatchNormalization", "config": {"name": "n", "trainable": )" +
         std::string(trains ? "true" : "false") + "}}";
}

TEST(keras_masks, moments_of_masked_steps_are_refused_in_training) {
  const auto refusal = [](bool trains, const ImportOptions& options) {
    return refusal_of_training(R"({"class_name": "Masking", "config": {"name": "k"}}, )" + norm_of(trains),
                               norm_at("layers/batch_normalization"), options);
  };
  const std::string said = refusal(true, {.train = true});
  EXPECT_NE(said.find("n (BatchNormalization): its input carries a mask"), said.npos) << said;
  EXPECT_NE(said.find("--ignore-setting BatchNormalization.mask goes on without it"), said.npos) << said;
  EXPECT_EQ(refusal(true, {}), "");
  EXPECT_EQ(refusal(false, {.train = true}), "");
  EXPECT_EQ(refusal(true, {.train = true, .settled = true}), "");
  EXPECT_EQ(refusal(true, {.train = true, .ignored = {"BatchNormalization.mask"}}), "");
  EXPECT_EQ(refusal_of_training(norm_of(true), norm_at("layers/batch_normalization"), {.train = true}), "");
}

TEST(keras_masks, moments_of_each_step_are_refused_in_training) {
  const auto distributed = [](const std::string& layer) {
    return R"({"class_name": "TimeDistributed", "config": {"name": "t", "layer": )" + layer + "}}";
  };
  const auto model = [](const std::string& layer) {
    return R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 1], "name": "y"}}, )" +
           layer + "]}}";
  };
  const std::string at = "layers/time_distributed/layer";
  const auto refusal = [&](bool nested, bool trains, const ImportOptions& options) {
    const std::string norm = norm_of(trains);
    return refusal_of_training(distributed(nested ? model(norm) : norm),
                               norm_at(nested ? at + "/layers/batch_normalization" : at), options);
  };
  for (const bool nested : {false, true}) {
    const std::string said = refusal(nested, true, {.train = true});
    EXPECT_NE(said.find("is in TimeDistributed, where Keras takes its moments of each step"), said.npos) << said;
    EXPECT_NE(said.find("--ignore-setting TimeDistributed.BatchNormalization goes on"), said.npos) << said;
    EXPECT_EQ(refusal(nested, true, {}), "");
    EXPECT_EQ(refusal(nested, false, {.train = true}), "");
    EXPECT_EQ(refusal(nested, true, {.train = true, .ignored = {"TimeDistributed.BatchNormalization"}}), "");
  }
  EXPECT_EQ(refusal_of_training(
                distributed(model(R"({"class_name": "ReLU", "config": {"name": "r"}})")) + ", " + norm_of(true),
                norm_at("layers/batch_normalization"), {.train = true}),
            "")
      << "behind it there is one batch again";
}

}  // namespace
}  // namespace nacre::tools
