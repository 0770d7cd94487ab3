// Tests integer arithmetic at run time, pooling positions, n-grams, and codes whose scale is computed.
#include <gtest/gtest.h>

#include <limits>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Wholes = std::vector<int64_t>;

template <class T>
constexpr int kProtoType = TensorProto::INT64;
template <>
constexpr int kProtoType<int32_t> = TensorProto::INT32;
template <>
constexpr int kProtoType<int16_t> = TensorProto::INT16;
template <>
constexpr int kProtoType<uint32_t> = TensorProto::UINT32;
template <>
constexpr int kProtoType<int8_t> = TensorProto::INT8;
template <>
constexpr int kProtoType<uint8_t> = TensorProto::UINT8;

// Returns y = op(a, b) of two run-time inputs, in the type of a.
template <class T>
Wholes of_pair(const char* op, const std::vector<T>& a, const std::vector<T>& b, int64_t fmod = 0,
               const char* direction = nullptr) {
  OnnxBuilder builder(18);
  const int type = kProtoType<T>;
  builder.input("a", {int64_t(a.size())}, {}, type);
  builder.input("b", {int64_t(b.size())}, {}, type);
  OnnxNode node = builder.node(op, {"a", "b"}, {"y"});
  if (fmod != 0) node.integer("fmod", fmod);
  if (direction != nullptr) node.text("direction", direction);
  builder.output("y");
  return integers(output(run_graph(converted(builder), {bytes_of(a), bytes_of(b)})));
}

// Returns y of an operator with the input x. If `axis` is given, it is a stored second operand.
template <class T>
Wholes of_one(const char* op, const std::vector<T>& x, const Dims& dims, int64_t axis = -1) {
  OnnxBuilder b(26);
  b.input("x", dims, {}, kProtoType<T>);
  if (axis >= 0) b.integers("axis", {}, {axis});
  b.node(op, axis >= 0 ? std::vector<std::string>{"x", "axis"} : std::vector<std::string>{"x"}, {"y"});
  b.output("y");
  return integers(run_converted<T>(b, x));
}

template <class T>
void expect_arithmetic() {
  const std::vector<T> a = {7, -7, 7, -7, std::numeric_limits<T>::min(), 5}, b = {2, 2, -2, -2, -1, 0};
  const int64_t low = std::numeric_limits<T>::min();
  EXPECT_EQ(of_pair<T>("Div", a, b), (Wholes{3, -3, -3, 3, low, 0}));
  EXPECT_EQ(of_pair<T>("Mod", a, b), (Wholes{1, 1, -1, -1, 0, 5}));
  EXPECT_EQ(of_pair<T>("Mod", a, b, 1), (Wholes{1, -1, 1, -1, 0, 5}));
  EXPECT_EQ(of_pair<T>("BitwiseAnd", a, b), (Wholes{2, 0, 6, -8, low, 0}));
  EXPECT_EQ(of_pair<T>("BitwiseOr", a, b), (Wholes{7, -5, -1, -1, -1, 5}));
  EXPECT_EQ(of_pair<T>("BitwiseXor", a, b), (Wholes{5, -5, -7, 7, -1 - low, 5}));
  EXPECT_EQ(of_pair<T>("Pow", {2, -3, 5, -1, 0, 3}, {5, 3, 0, -3, 2, -1}), (Wholes{32, -27, 1, -1, 0, 0}));
  EXPECT_EQ(of_one<T>("Sign", a, {6}), (Wholes{1, -1, 1, -1, -1, 1}));
  EXPECT_EQ(of_one<T>("BitwiseNot", a, {6}), (Wholes{-8, 6, -8, 6, -1 - low, -6}));
  EXPECT_EQ(of_one<T>("CumProd", {1, 2, 3, -1, 4, 2}, {2, 3}, 1), (Wholes{1, 2, 6, -1, -4, -8}));
  EXPECT_EQ(of_one<T>("ReduceProd", {1, 2, 3, -1, 4, 2}, {2, 3}), (Wholes{-48}));
  EXPECT_EQ(of_one<T>("Trilu", {1, 2, 3, 4, 5, 6}, {2, 3}, 1), (Wholes{0, 2, 3, 0, 0, 6}));
}

TEST(onnx_integers, are_computed_with_at_run_time) {
  expect_arithmetic<int64_t>();
  expect_arithmetic<int32_t>();
  expect_arithmetic<int16_t>();
  expect_arithmetic<int8_t>();
}

TEST(onnx_integers, of_8_bits_wrap) {
  EXPECT_EQ(of_pair<uint8_t>("Add", {200, 255}, {100, 1}), (Wholes{44, 0}));
  EXPECT_EQ(of_pair<uint8_t>("Sub", {1, 0}, {2, 255}), (Wholes{255, 1}));
  EXPECT_EQ(of_pair<int8_t>("Mul", {100, -128}, {3, -1}), (Wholes{44, -128}));
  EXPECT_EQ(of_pair<uint8_t>("Max", {200, 3}, {100, 4}), (Wholes{200, 4}));
  EXPECT_EQ(of_pair<uint8_t>("BitShift", {0x81, 3}, {1, 8}, 0, "LEFT"), (Wholes{2, 0}));
  EXPECT_EQ(of_pair<uint8_t>("BitShift", {0x81, 3}, {1, 40}, 0, "RIGHT"), (Wholes{0x40, 0}));
  EXPECT_EQ(of_one<int8_t>("Abs", {-128, -3}, {2}), (Wholes{-128, 3}));
}

TEST(onnx_integers, of_16_and_32_bits_wrap) {
  constexpr uint32_t kHigh = 0xffffffff, kHalf = 0x80000000;
  EXPECT_EQ(of_pair<int16_t>("Mul", {300, -32768}, {300, -1}), (Wholes{24464, -32768}));
  EXPECT_EQ(of_pair<uint32_t>("Add", {kHigh, 5}, {2, 6}), (Wholes{1, 11}));
  EXPECT_EQ(of_pair<uint32_t>("Sub", {1, kHigh}, {2, kHalf}), (Wholes{kHigh, kHalf - 1}));
  EXPECT_EQ(of_pair<uint32_t>("Mul", {kHigh, kHalf}, {kHigh, 3}), (Wholes{1, kHalf}));
  EXPECT_EQ(of_pair<uint32_t>("Div", {kHigh, 7}, {kHalf, kHigh}), (Wholes{1, 0}));
  EXPECT_EQ(of_pair<uint32_t>("Max", {kHigh, 3}, {1, 4}), (Wholes{kHigh, 4}));
  EXPECT_EQ(of_pair<uint32_t>("BitShift", {kHigh, 3}, {31, 32}, 0, "LEFT"), (Wholes{kHalf, 0}));
  EXPECT_EQ(of_pair<uint32_t>("BitShift", {kHigh, kHalf}, {31, 1}, 0, "RIGHT"), (Wholes{1, kHalf / 2}));
  EXPECT_EQ(of_pair<uint32_t>("Less", {1, kHigh}, {kHigh, 1}), (Wholes{1, 0}));
}

TEST(onnx_integers, keep_their_bits_as_another_type) {
  OnnxBuilder b(26);
  b.input("x", {2}, {}, TensorProto::INT32);
  b.floats("real", {1}, {-1.5f});
  b.node("BitCast", {"x"}, {"a"}).integer("to", TensorProto::UINT32);
  b.node("BitCast", {"real"}, {"c"}).integer("to", TensorProto::INT32);
  b.node("Add", {"x", "c"}, {"y"});
  b.output("a");
  b.output("y");
  const Graph run = run_graph(converted(b), {bytes_of(std::vector<int32_t>{-1, 7})});
  EXPECT_EQ(integers(output(run, 0)), (Wholes{0xffffffff, 7}));
  EXPECT_EQ(integers(output(run, 1)), (Wholes{int32_t(0xbfc00000) - 1, int32_t(0xbfc00000) + 7}));
}

TEST(onnx_integers, are_cast_from_and_to_every_type) {
  const int types[] = {TensorProto::INT8,  TensorProto::UINT8, TensorProto::INT16,  TensorProto::INT32,
                       TensorProto::INT64, TensorProto::BOOL,  TensorProto::UINT32, TensorProto::FLOAT};
  for (const int from : types)
    for (const int to : types) {
      OnnxBuilder b;
      b.input("x", {2});
      b.node("Cast", {"x"}, {"a"}).integer("to", from);
      b.node("Cast", {"a"}, {"b"}).integer("to", to);
      b.node("Cast", {"b"}, {"y"}).integer("to", TensorProto::FLOAT);
      b.output("y");
      const bool is_bool = from == TensorProto::BOOL || to == TensorProto::BOOL;
      EXPECT_EQ(reals(run_converted<float>(b, {0, 5})), (std::vector<float>{0, is_bool ? 1.0f : 5.0f})) << from << to;
    }
}

TEST(onnx_integers, are_raised_to_reals_and_reals_to_them) {
  OnnxBuilder b;
  b.input("x", {3}, {}, TensorProto::INT32);
  b.floats("half", {}, {0.5f});
  b.node("Pow", {"x", "half"}, {"roots"});
  b.node("Pow", {"half", "x"}, {"y"});
  b.output("roots");
  b.output("y");
  const Graph run = run_graph(converted(b), {bytes_of(std::vector<int32_t>{4, 10, 1})});
  EXPECT_EQ(integers(output(run, 0)), (Wholes{2, 3, 1}));
  EXPECT_EQ(reals(output(run, 1)), (std::vector<float>{1.0f / 16, 1.0f / 1024, 0.5f}));
}

TEST(onnx_integers, bools_are_reduced_as_0_and_1) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    OnnxBuilder b(20);
    b.input("x", {2, 2}, {}, TensorProto::BOOL);
    b.integers("axes", {1}, {1});
    b.node(op, {"x", "axes"}, {"y"}).integer("keepdims", 0);
    b.output("y");
    const bool most = std::string(op) == "ReduceMax";
    EXPECT_EQ(integers(run_converted<uint8_t>(b, {1, 0, 1, 1})), (most ? Wholes{1, 1} : Wholes{0, 1})) << op;
  }
}

// ---- Operators that return or read positions, and operators on tokens

// Max-pools x [1, 2, 3, 4] in windows of 2 x 3. The positions of the maxima are counted over x, in row order or in
// column order.
TEST(onnx_integers, pools_say_where_their_maxima_stand) {
  const std::vector<float> x = {1, 5, 5, 0, 2, 9, -1, -1, 3, 0, 0, 7, -8, -8, -8, -8, -8, -8, -8, -2, -8, -3, -8, -8};
  for (const int order : {0, 1}) {
    OnnxBuilder b;
    b.input("x", {1, 2, 3, 4});
    OnnxNode node = b.node("MaxPool", {"x"}, {"y", "places"});
    node.ints("kernel_shape", {2, 3}).ints("strides", {2, 2}).ints("pads", {1, 0, 0, 1});
    node.integer("storage_order", order);
    b.output("y");
    b.output("places");
    const Graph run = run_graph(converted(b), {bytes_of(x)});
    EXPECT_EQ(output(run, 1).dims, (Dims{1, 2, 2, 2}));
    EXPECT_EQ(reals(output(run, 0)), (std::vector<float>{5, 5, 9, 7, -8, -8, -3, -2}));
    const Wholes by_rows = {1, 2, 5, 11, 12, 14, 21, 19}, by_columns = {3, 6, 4, 11, 12, 18, 17, 22};
    EXPECT_EQ(integers(output(run, 1)), order == 0 ? by_rows : by_columns);
  }
}

// Each maximum goes back to its position; every other number is 0.
TEST(onnx_integers, pools_are_undone) {
  OnnxBuilder b;
  b.input("x", {1, 1, 4, 4});
  b.integers("shape", {4}, {1, 1, 4, 5});
  b.node("MaxPool", {"x"}, {"y", "places"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  b.node("MaxUnpool", {"y", "places", "shape"}, {"z"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  b.output("z");
  const std::vector<float> x = {1, 5, 0, 2, 9, 3, -4, 7, -2, -3, 6, 8, -1, 1, 2, 0};
  EXPECT_EQ(reals(run_converted<float>(b, x)),
            (std::vector<float>{0, 0, 0, 0, 0, 9, 0, 0, 7, 0, 0, 0, 0, 8, 0, 0, 1, 0, 0, 0}));
}

// Counts the token 5 and the pairs (5, 6) and (7, 7) in rows of four. No n-gram has the output index 1.
TEST(onnx_integers, n_grams_are_counted) {
  for (const char* name : {"TF", "IDF", "TFIDF"}) {
    const std::string mode = name;
    OnnxBuilder b;
    b.input("x", {2, 4}, {}, TensorProto::INT64);
    OnnxNode node = b.node("TfIdfVectorizer", {"x"}, {"y"}).text("mode", mode).ints("ngram_counts", {0, 1});
    node.integer("min_gram_length", 1).integer("max_gram_length", 2).integer("max_skip_count", 1);
    node.ints("pool_int64s", {5, 5, 6, 7, 7}).ints("ngram_indexes", {3, 0, 2}).floats("weights", {2, 3, 4, 5});
    b.output("y");
    const std::vector<float> counts = {2, 0, 0, 2, 0, 0, 2, 1}, weights = {2, 3, 4, 5};
    std::vector<float> want;  // skips included: row 0 has (5, 6) twice, row 1 has (7, 7) twice
    for (size_t i = 0; i < counts.size(); ++i)
      want.push_back((mode == "IDF" ? float(counts[i] > 0) : counts[i]) * (mode == "TF" ? 1 : weights[i % 4]));
    EXPECT_EQ(reals(run_converted<int64_t>(b, {5, 5, 6, 1, 7, 7, 5, 7})), want) << mode;
  }
}

// ---- Scales that are computed

// Quantizes and dequantizes x with a scale s of run time and a stored zero point z.
TEST(onnx_integers, codes_have_scales_of_run_time) {
  for (const int type : {TensorProto::UINT8, TensorProto::INT8}) {
    const std::vector<float> x = {-1, 0.25f, 0.75f, 1, 200, -200};
    const bool has_sign = type == TensorProto::INT8;
    OnnxBuilder b;
    b.input("x", {6});
    b.input("s", {});
    b.codes("z", {}, {has_sign ? -3 : 3}, type);
    b.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
    b.node("DequantizeLinear", {"q", "s", "z"}, {"y"});
    b.output("q");
    b.output("y");
    const Graph run = run_graph(converted(b), {bytes_of(x), bytes_of(std::vector<float>{0.5f})});
    const Wholes codes = has_sign ? Wholes{-5, -3, -1, -1, 127, -128} : Wholes{1, 3, 5, 5, 255, 0};
    EXPECT_EQ(integers(output(run, 0)), codes);
    std::vector<float> meant;
    for (const int64_t code : codes) meant.push_back(float(code - (has_sign ? -3 : 3)) / 2);
    EXPECT_EQ(reals(output(run, 1)), meant);
  }
}

TEST(onnx_integers, channels_have_scales_of_run_time) {
  OnnxBuilder b;
  b.codes("q", {2, 3}, {1, 2, 3, 4, 5, 6});
  b.input("s", {3});
  b.node("DequantizeLinear", {"q", "s"}, {"y"}).integer("axis", 1);
  b.output("y");
  EXPECT_EQ(reals(run_converted<float>(b, {1, 10, 100})), (std::vector<float>{1, 20, 300, 4, 50, 600}));
}

}  // namespace
}  // namespace nacre::tools
