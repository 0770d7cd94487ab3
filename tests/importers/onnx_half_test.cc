// Tests import_onnx on files whose reals are float16, bfloat16 or float64, and on casts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/numeric/small_float.h"
#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

void set_output_type(OnnxBuilder& b, int type) {
  b.model().mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
}

template <class T>
std::vector<int> bits_of(const std::vector<float>& numbers) {
  std::vector<int> bits;
  for (const float number : numbers) bits.push_back(T(number).bits);
  return bits;
}

template <class T>
std::vector<T> as(const std::vector<float>& numbers) {
  std::vector<T> result;
  for (const float number : numbers) result.push_back(T(number));
  return result;
}

// Builds y = relu(x w + b) + x in reals of type T, whose ONNX type number is `type`.
template <class T>
OnnxBuilder half_network(int type) {
  OnnxBuilder b;
  b.input("x", {1, 2}, {}, type);
  b.codes("w", {2, 2}, bits_of<T>({0.1f, -0.7f, 1.3f, 2.9f}), type);
  b.codes("b", {2}, bits_of<T>({0.01f, -3}), type);
  b.node("MatMul", {"x", "w"}, {"m"});
  b.node("Add", {"m", "b"}, {"s"});
  b.node("Relu", {"s"}, {"r"});
  b.node("Add", {"r", "x"}, {"y"});
  b.output("y");
  set_output_type(b, type);
  return b;
}

// Returns the outputs of half_network for `given`. The dense layer rounds once to T, after its bias; so does the last
// sum.
template <class T>
std::vector<float> half_answers(const std::vector<float>& given) {
  const auto r = [](double number) { return double(float(T(float(number)))); };
  const double x[] = {r(given[0]), r(given[1])};
  const double w[] = {r(0.1f), r(-0.7f), r(1.3f), r(2.9f)}, b[] = {r(0.01f), r(-3)};
  std::vector<float> y;
  for (int j = 0; j < 2; ++j) {
    const double sum = r(x[0] * w[j] + x[1] * w[2 + j] + b[j]);
    y.push_back(float(r(std::max(sum, 0.0) + x[j])));
  }
  return y;
}

template <class T>
void runs_in(int type, ElementType element) {
  const OnnxBuilder b = half_network<T>(type);
  const Graph graph = converted(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kDense, Op::kAdd}));
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.outputs) EXPECT_EQ(graph.values[size_t(id)].type, element);
  EXPECT_EQ(value(graph, "x").type, element);
  const Value& w = operand(graph, graph.nodes[0], 1);
  EXPECT_EQ(w.stored, element);
  EXPECT_EQ(*w.data, bytes_of(as<T>({0.1f, 1.3f, -0.7f, 2.9f})));  // bit for bit, turned
  EXPECT_EQ(graph.layers[size_t(graph.nodes[0].layer)].policy.compute, element);
  for (const std::vector<float>& x : {std::vector<float>{0.3f, 5.5f}, std::vector<float>{-7, 0.001f}})
    EXPECT_EQ(reals(run_converted<T>(b, as<T>(x))), half_answers<T>(x));
}

TEST(onnx_half, layers_run_in_the_type_of_their_operands_and_constants_keep_their_bits) {
  runs_in<Float16>(TensorProto::FLOAT16, ElementType::kFloat16);
  runs_in<Bfloat16>(TensorProto::BFLOAT16, ElementType::kBfloat16);
}

TEST(onnx_half, a_policy_that_is_asked_for_counts_and_the_ends_keep_their_types) {
  Graph graph = imported(half_network<Float16>(TensorProto::FLOAT16));
  for (Layer& layer : graph.layers) layer.policy = {}, layer.asked = true;  // float32
  simplify(graph);
  apply_policy(graph);
  check(graph);
  EXPECT_EQ(value(graph, "x").type, ElementType::kFloat16);
  EXPECT_EQ(output(graph).type, ElementType::kFloat16);
  EXPECT_EQ(output(graph).name, "y");
  EXPECT_EQ(graph.values[size_t(first(graph, Op::kDense).outputs[0])].type, ElementType::kFloat32);
}

TEST(onnx_half, what_only_moves_stays_in_16_bits) {
  OnnxBuilder b;
  b.input("x", {1, 2, 2, 2}, {}, TensorProto::FLOAT16);
  b.codes("w", {1, 2, 1, 1}, bits_of<Float16>({1, -1}), TensorProto::FLOAT16);
  b.node("Conv", {"x", "w"}, {"y"});
  b.output("y");
  const Graph graph = converted(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kTranspose, Op::kConv2d, Op::kReshape}));
  EXPECT_EQ(reals(run_converted<Float16>(b, as<Float16>({1, 2, 3, 4, 5, 7, 9, 11}))),
            (std::vector<float>{-4, -5, -6, -7}));
}

TEST(onnx_half, training_computes_in_float32) {
  const Graph graph = imported(half_network<Float16>(TensorProto::FLOAT16), {.train = true});
  for (const Value& v : graph.values) EXPECT_EQ(v.type, ElementType::kFloat32) << v.name;
  for (const Layer& layer : graph.layers) EXPECT_EQ(layer.policy.compute, ElementType::kFloat32);
}

TEST(onnx_half, reals_of_float64_are_computed_in_float64) {
  OnnxBuilder b;
  b.input("x", {3}, {}, TensorProto::DOUBLE);
  b.node("Mul", {"x", "x"}, {"y"});
  b.output("y");
  set_output_type(b, TensorProto::DOUBLE);
  const Value y = run_converted<double>(b, {0.1, 3, -1e100});
  EXPECT_EQ(*y.data, bytes_of(std::vector<double>{0.1 * 0.1, 9, 1e200}));
}

// ---- Casts

TEST(onnx_cast, casts_at_the_ends_are_steps_and_round) {
  OnnxBuilder b;
  b.input("x", {2});
  b.codes("c", {1}, {0x3e00}, TensorProto::FLOAT16);  // 1.5
  b.node("Cast", {"x"}, {"h"}).integer("to", TensorProto::FLOAT16);
  b.node("Mul", {"h", "c"}, {"s"});
  b.node("Cast", {"s"}, {"y"}).integer("to", TensorProto::FLOAT);
  b.output("y");
  EXPECT_EQ(ops(converted(b)), (std::vector<Op>{Op::kCast, Op::kMul, Op::kCast}));
  // 1 + 2^-12 becomes 1; 4097 between 4096 and 4100 becomes 4096
  EXPECT_EQ(reals(run_converted<float>(b, {1 + 0x1p-12f, 4097})), (std::vector<float>{1.5f, 6144}));
}

TEST(onnx_cast, what_is_rounded_there_and_back_is_not_lost) {
  OnnxBuilder b;
  b.input("x", {2});
  b.node("Cast", {"x"}, {"h"}).integer("to", TensorProto::BFLOAT16);
  b.node("CastLike", {"h", "x"}, {"f"});
  b.node("Add", {"f", "x"}, {"y"});
  b.output("y");
  EXPECT_EQ(reals(run_converted<float>(b, {257, 3})), (std::vector<float>{256 + 257, 6}));
}

TEST(onnx_cast, pixels_become_reals) {
  for (const int to : {int(TensorProto::FLOAT), int(TensorProto::FLOAT16)}) {
    OnnxBuilder b;
    b.input("x", {1, 1, 2, 2}, {}, TensorProto::UINT8);
    b.floats("scale", {}, {255});
    b.node("Cast", {"x"}, {"f"}).integer("to", to);
    b.node("Cast", {"scale"}, {"s"}).integer("to", to);
    b.node("Div", {"f", "s"}, {"y"});
    b.output("y");
    const std::vector<float> y = reals(run_converted<uint8_t>(b, {0, 255, 51, 128}));
    const float eps = to == TensorProto::FLOAT ? 0x1p-23f : 0x1p-10f;
    const std::vector<float> wanted = {0, 1, 0.2f, 128 / 255.0f};
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted[i], eps * wanted[i]) << i;
  }
}

TEST(onnx_cast, integers_of_run_time_become_each_other_and_halves) {
  const std::vector<int8_t> x = {-128, 0, 5, 127};
  const auto cast = [&](int to) {
    OnnxBuilder b;
    b.input("x", {4}, {}, TensorProto::INT8);
    b.node("Cast", {"x"}, {"y"}).integer("to", to);
    b.output("y");
    return run_converted<int8_t>(b, x);
  };
  EXPECT_EQ(integers(cast(TensorProto::UINT8)), (Dims{128, 0, 5, 127}));
  EXPECT_EQ(integers(cast(TensorProto::INT64)), (Dims{-128, 0, 5, 127}));
  EXPECT_EQ(integers(cast(TensorProto::BOOL)), (Dims{1, 0, 1, 1}));
  EXPECT_EQ(cast(TensorProto::FLOAT16).type, ElementType::kFloat16);
  EXPECT_EQ(reals(cast(TensorProto::FLOAT16)), (std::vector<float>{-128, 0, 5, 127}));
  EXPECT_EQ(reals(cast(TensorProto::BFLOAT16)), (std::vector<float>{-128, 0, 5, 127}));
}

// Returns Cast(c) as folded to a float32 constant in x + Cast(c).
std::vector<float> folded(const std::vector<float>& c, int to, int saturate = 1) {
  OnnxBuilder b(19);
  b.input("x", {int64_t(c.size())});
  b.floats("c", {int64_t(c.size())}, c);
  b.node("Cast", {"c"}, {"n"}).integer("to", to).integer("saturate", saturate);
  b.node("Cast", {"n"}, {"f"}).integer("to", TensorProto::FLOAT);
  b.node("Add", {"x", "f"}, {"y"});
  b.output("y");
  return reals(run_converted<float>(b, std::vector<float>(c.size(), 0)));
}

TEST(onnx_cast, constants_are_rounded_and_float8_saturates) {
  EXPECT_EQ(folded({1 + 0x1p-11f, -4099}, TensorProto::FLOAT16), (std::vector<float>{1, -4100}));
  EXPECT_EQ(folded({257, 3}, TensorProto::BFLOAT16), (std::vector<float>{256, 3}));
  EXPECT_EQ(folded({1000, -17, 0.3f}, 17), (std::vector<float>{448, -16, 0.3125f}));    // E4M3FN
  EXPECT_EQ(folded({1e6f, -17, 0.3f}, 19), (std::vector<float>{57344, -16, 0.3125f}));  // E5M2
  EXPECT_EQ(folded({448, -17}, 17, 0), (std::vector<float>{448, -16}));
}

TEST(onnx_cast, folded_integers_wrap_as_those_of_run_time) {
  OnnxBuilder b;
  b.input("x", {2}, {}, TensorProto::INT64);
  b.integers("c", {2}, {300, -129});
  b.node("Cast", {"c"}, {"f"}).integer("to", TensorProto::INT8);
  b.node("Cast", {"x"}, {"r"}).integer("to", TensorProto::INT8);
  b.node("Cast", {"f"}, {"ff"}).integer("to", TensorProto::FLOAT);
  b.node("Cast", {"r"}, {"rf"}).integer("to", TensorProto::FLOAT);
  b.node("Concat", {"ff", "rf"}, {"y"}).integer("axis", 0);
  b.output("y");
  EXPECT_EQ(reals(run_converted<int64_t>(b, {300, -129})), (std::vector<float>{44, 127, 44, 127}));
}

// ---- Codes of 16 bits

TEST(onnx_half, codes_of_16_bits_round_the_reals) {
  for (const bool is_signed : {true, false}) {
    const int type = is_signed ? TensorProto::INT16 : TensorProto::UINT16;
    OnnxBuilder b(21);
    b.input("x", {1, 4});
    b.floats("s", {}, {0.001f});
    b.codes("z", {}, {is_signed ? 100 : 32768}, type);
    b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
    b.node("Transpose", {"q"}, {"t"}).ints("perm", {1, 0});
    b.node("DequantizeLinear", {"t", "s", "z"}, {"y"});
    b.output("y");
    const std::vector<float> x = {0.0104f, -3.14159f, 50, -60}, y = reals(run_converted<float>(b, x));
    const float high = is_signed ? 32767 - 100 : 32767, low = is_signed ? -32868 : -32768;
    for (size_t i = 0; i < x.size(); ++i) {
      const float code = std::min(std::max(std::nearbyint(x[i] / 0.001f), low), high);
      EXPECT_EQ(y[i], code * 0.001f) << i;
    }
  }
}

TEST(onnx_half, codes_of_16_bits_themselves_and_of_4_are_refused) {
  OnnxBuilder b(21);
  b.input("x", {1, 4});
  b.floats("s", {}, {0.001f});
  b.codes("z", {}, {0}, TensorProto::INT16);
  b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  b.node("Cast", {"q"}, {"y"}).integer("to", TensorProto::FLOAT);
  b.output("y");
  EXPECT_NE(refusal(b), "");
  OnnxBuilder four(21);
  four.input("x", {1, 4});
  four.floats("s", {}, {0.5f});
  four.node("QuantizeLinear", {"x", "s"}, {"q"}).integer("output_dtype", 22);  // int4
  four.node("DequantizeLinear", {"q", "s"}, {"y"});
  four.output("y");
  EXPECT_NE(refusal(four).find("8 or 16 bits"), std::string::npos) << refusal(four);
}

TEST(onnx_half, every_flipped_byte_gives_a_graph_or_an_error) {
  flip_every_byte(half_network<Float16>(TensorProto::FLOAT16));
  flip_every_byte(half_network<Bfloat16>(TensorProto::BFLOAT16), {.train = true});
}

}  // namespace
}  // namespace nacre::tools
