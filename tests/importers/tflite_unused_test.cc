// The importer does not judge fields that LiteRT and TensorFlow Lite Micro do not read: their own example
// person_detect has biases whose quantized_dimension lies outside their rank.
#include <gtest/gtest.h>

#include "tests/importers/tflite_builder.h"
#include "tests/importers/tflite_imports.h"
#include "tools/base/error.h"

namespace nacre::tools::tflite {
namespace {

constexpr float kDenormal = 1e-40f;

struct BiasCase {
  const char* what;
  std::vector<int32_t> shape;
  Codes codes;
};

const BiasCase kBiases[] = {
    {"as written by the converter", {2}, {{0.125f, 0.0625f}, {0, 0}, 0}},
    {"an axis outside its rank, as person_detect has", {2}, {{0.125f, 0.0625f}, {0, 0}, 3}},
    {"another number of scales", {2}, {{0.125f, 0.0625f, 1}, {0, 0, 0}, 0}},
    {"one scale", {2}, {{7}, {0}, 0}},
    {"other scales than the accumulator's", {2}, {{70, 80}, {0, 0}, 0}},
    {"scales that are none", {2}, {{kDenormal, -1}, {0, 0}, 0}},
    {"zero points", {2}, {{0.125f, 0.0625f}, {3, int64_t{1} << 40}, 0}},
    {"fewer zero points than scales", {2}, {{0.125f, 0.0625f}, {0}, 0}},
    {"no quantization", {2}, {}},
    {"the shape of a row", {1, 2}, {}},
    {"the shape of a channel", {1, 1, 1, 2}, {{0.125f, 0.0625f}, {0, 0}, 3}},
};

void expect_bias(const Graph& graph, const Node& node, const std::vector<float>& scale) {
  const Value& bias = input(graph, node, 2);
  EXPECT_EQ(bias.dims, (Dims{2}));
  EXPECT_EQ(integers(bias), (Dims{8, -8}));
  ASSERT_TRUE(bias.quantizer);
  EXPECT_EQ(bias.quantizer->scale, scale);
  EXPECT_EQ(bias.quantizer->zero, std::vector<int64_t>(scale.size(), 0));
}

TEST(import_tflite_unused, codes_of_a_bias_are_in_units_of_the_accumulator_whatever_its_quantization_says) {
  for (const BiasCase& c : kBiases) {
    SCOPED_TRACE(c.what);
    TfliteBuilder b;
    const int x = b.activation("x", {1, 2, 2, 3}, 0.5f, 0), y = b.activation("y", {1, 2, 2, 2}, 1, 0);
    const int w = b.codes("w", {2, 1, 1, 3}, {1, 2, 3, 4, 5, 6}, {{0.25f, 0.125f}, {0, 0}, 0});
    b.op(BuiltinOperator::CONV_2D, {x, w, b.int32s("b", c.shape, {8, -8}, c.codes)}, {y},
         CreateConv2DOptions(b.fbb(), Padding::SAME, 1, 1));
    const Graph graph = imported(b.finish({x}, {y}));
    expect_bias(graph, graph.nodes[0], {0.125f, 0.0625f});
  }
}

TEST(import_tflite_unused, units_of_a_bias_must_be_a_scale) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 1e-20f, 0), y = b.activation("y", {1, 2}, 1, 0);
  const int w = b.codes("w", {2, 2}, {1, 2, 3, 4}, {{1e-20f}, {0}, 0});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, b.int32s("b", {2}, {8, -8}, {{1}, {0}, 0})}, {y},
       CreateFullyConnectedOptions(b.fbb()));
  EXPECT_NE(refusal(b.finish({x}, {y}), kUnsupported)
                .find("an input and weights whose scales multiply to no normal, finite number"),
            std::string::npos);
}

TEST(import_tflite_unused, a_bias_that_two_layers_share_is_in_units_of_each) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, 0), h = b.activation("h", {1, 2}, 1, 0),
            y = b.activation("y", {1, 2}, 1, 0);
  const int first = b.codes("first", {2, 2}, {1, 2, 3, 4}, {{0.25f}, {0}, 0});
  const int second = b.codes("second", {2, 2}, {1, 2, 3, 4}, {{0.5f}, {0}, 0});
  const int bias = b.int32s("b", {2}, {8, -8});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, first, bias}, {h}, CreateFullyConnectedOptions(b.fbb()));
  b.op(BuiltinOperator::FULLY_CONNECTED, {h, second, bias}, {y}, CreateFullyConnectedOptions(b.fbb()));
  const Graph graph = imported(b.finish({x}, {y}));
  expect_bias(graph, graph.nodes[0], {0.125f});
  expect_bias(graph, graph.nodes[1], {0.5f});
}

TEST(import_tflite_unused, a_float_bias_is_a_list_whatever_its_shape) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
  const int w = b.floats("w", {2, 2}, {1, 2, 3, 4}), bias = b.floats("b", {1, 2}, {5, 6});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, bias}, {y}, CreateFullyConnectedOptions(b.fbb()));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(input(graph, graph.nodes[0], 2).dims, (Dims{2}));
}

TEST(import_tflite_unused, one_zero_point_stands_for_all_channels) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}, 0.5f, 0), y = b.activation("y", {1, 2}, 1, 0);
  const int w = b.codes("w", {2, 2}, {1, 2, 3, 4}, {{0.25f, 0.5f}, {0}, 0});
  b.op(BuiltinOperator::FULLY_CONNECTED, {x, w, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
  const Graph graph = imported(b.finish({x}, {y}));
  EXPECT_EQ(input(graph, graph.nodes[0], 1).quantizer->zero, (std::vector<int64_t>{0, 0}));
}

TEST(import_tflite_unused, indices_are_integers_whatever_their_quantization_says) {
  TfliteBuilder b;
  const int ids = b.tensor({.name = "ids",
                            .type = TensorType::INT32,
                            .shape = {1},
                            .data = {},
                            .codes = {{1, 2, 3}, {0}, 5},
                            .signature = {}});
  const int table = b.floats("table", {2, 2}, {1, 2, 3, 4}), y = b.activation("y", {1, 2});
  b.op(BuiltinOperator::GATHER, {table, ids}, {y}, CreateGatherOptions(b.fbb()));
  const Graph graph = imported(b.finish({ids}, {y}));
  EXPECT_EQ(value(graph, "ids").type, ElementType::kInt32);
  EXPECT_FALSE(value(graph, "ids").quantizer);
}

TEST(import_tflite_unused, tensors_that_no_operator_reads_may_be_anything) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
  b.tensor({.name = "variable", .shape = {1, 2}, .data = {}, .codes = {}, .signature = {}, .variable = true});
  b.tensor({.name = "text", .type = TensorType::STRING, .shape = {-7}, .data = {}, .codes = {}, .signature = {}});
  b.codes("codes", {2, 2}, {1, 2, 3, 4}, {{kDenormal, 0, -1}, {0}, 9});
  b.op(BuiltinOperator::TANH, {x}, {y});
  EXPECT_EQ(imported(b.finish({x}, {y})).values.size(), 2u);
}

}  // namespace
}  // namespace nacre::tools::tflite
