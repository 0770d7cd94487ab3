// Masks of Keras files: who reads the mask that a tensor carries, and who takes it away, as Keras 3.15 does it.
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

// x [batch, 3, 1], layers behind it, and the outputs' names.
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

// The first output of the network for x = 1, 0, 2, whose second step Masking hides.
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

// h' = x + 2 h, from the last step of x.
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

// Projections by 1, and the output's by `out`.
Variables projections(const std::string& group, float out = 1) {
  return {{"layers/" + group + "/query_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/key_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/value_dense/vars/0", {1, 1, 1}, {1}},
          {"layers/" + group + "/output_dense/vars/0", {1, 1, 1}, {out}}};
}

// Keras puts the mask that the query carries, or none, in its place. Layers of grouped heads read it.
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

}  // namespace
}  // namespace nacre::tools
