// Tests import_tflite on GATHER and EMBEDDING_LOOKUP of stored tables, BATCH_MATMUL, GELU, PRELU, MAXIMUM, MINIMUM and
// REDUCE_MAX, and on declared output types. Also runs layers without bias in the engine.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/kernels/reference.h"
#include "engine/run/program.h"
#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"
#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools::tflite {
namespace {

// Returns the graph of y = rows of a table [3, ..] at the int32 ids {2, 0}.
Graph rows_by_ids(const std::vector<int32_t>& table_shape, bool lookup) {
  TfliteBuilder b;
  int32_t elements = 1;
  for (const int32_t dim : table_shape) elements *= dim;
  std::vector<float> numbers;
  for (int32_t i = 0; i < elements; ++i) numbers.push_back(float(i));
  std::vector<int32_t> y_shape = table_shape;
  y_shape[0] = 2;
  const int ids =
      b.tensor({.name = "ids", .type = TensorType::INT32, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
  const int table = b.floats("table", table_shape, numbers), y = b.activation("y", y_shape);
  if (lookup) b.op(BuiltinOperator::EMBEDDING_LOOKUP, {ids, table}, {y});
  else b.op(BuiltinOperator::GATHER, {table, ids}, {y}, CreateGatherOptions(b.fbb()));
  return imported(b.finish({ids}, {y}));
}

TEST(import_tflite, rows_of_stored_tables_are_embeddings) {
  for (const bool lookup : {false, true}) {
    const std::vector<uint8_t> ids = bytes_of(std::vector<int32_t>{2, 0});
    const Graph flat = rows_by_ids({3, 2}, lookup);
    EXPECT_EQ(ops(flat), (std::vector{Op::kEmbedding}));
    EXPECT_EQ(reals(value(run_graph(flat, {ids}), "y")), (std::vector<float>{4, 5, 0, 1}));
    const Graph deep = rows_by_ids({3, 2, 2}, lookup);
    EXPECT_EQ(ops(deep), (std::vector{Op::kEmbedding, Op::kReshape}));
    EXPECT_EQ(value(deep, "y").dims, (Dims{2, 2, 2}));
    EXPECT_EQ(reals(value(run_graph(deep, {ids}), "y")), (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3}));
  }
}

// LiteRT multiplies a row by the scale of that row.
TEST(import_tflite, rows_of_tables_with_a_scale_per_row_are_reals) {
  for (const bool lookup : {false, true}) {
    TfliteBuilder b;
    const int ids =
        b.tensor({.name = "ids", .type = TensorType::INT32, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
    const int table = b.codes("table", {3, 2}, {1, -2, 3, 4, -5, 127}, {{0.5f, 0.25f, 2}, {0, 0, 0}});
    const int y = b.activation("y", {2, 2});
    if (lookup) b.op(BuiltinOperator::EMBEDDING_LOOKUP, {ids, table}, {y});
    else b.op(BuiltinOperator::GATHER, {table, ids}, {y}, CreateGatherOptions(b.fbb()));
    const Graph graph = imported(b.finish({ids}, {y}));
    EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(std::vector<int32_t>{2, 0})}), "y")),
              (std::vector<float>{-10, 254, 0.5f, -1}));
  }
}

// A file may declare any type for an operator's output, be it the graph's output or an intermediate tensor.
TEST(import_tflite, outputs_of_a_type_that_the_operator_does_not_give_are_refused) {
  const struct {
    TensorType type;
    const char* said;
  } kDeclared[] = {{TensorType::INT8, "y is declared int8 without a scale, but the operator gives float32"},
                   {TensorType::UINT8, "y is declared uint8 without a scale, but the operator gives float32"},
                   {TensorType::INT32, "y is declared int32, but the operator gives float32"},
                   {TensorType::BOOL, "y is declared bool, but the operator gives float32"}};
  for (const auto& [type, said] : kDeclared)
    for (const BuiltinOperator code :
         {BuiltinOperator::RELU, BuiltinOperator::TANH, BuiltinOperator::SOFTMAX, BuiltinOperator::RESHAPE,
          BuiltinOperator::FULLY_CONNECTED, BuiltinOperator::ADD})
      for (const bool last : {true, false}) {
        SCOPED_TRACE(std::string(EnumNameBuiltinOperator(code)) + (last ? ", last" : ", inside"));
        TfliteBuilder b;
        const int x = b.activation("x", {1, 2}), w = b.floats("w", {2, 2}, {1, 2, 3, 4});
        const int y = b.tensor({.name = "y", .type = type, .shape = {1, 2}, .data = {}, .codes = {}, .signature = {}});
        if (code == BuiltinOperator::SOFTMAX) b.op(code, {x}, {y}, CreateSoftmaxOptions(b.fbb(), 1));
        else if (code == BuiltinOperator::RESHAPE) b.op(code, {x, b.int32s("shape", {2}, {1, 2})}, {y});
        else if (code == BuiltinOperator::FULLY_CONNECTED)
          b.op(code, {x, w, -1}, {y}, CreateFullyConnectedOptions(b.fbb()));
        else if (code == BuiltinOperator::ADD) b.op(code, {x, x}, {y}, CreateAddOptions(b.fbb()));
        else b.op(code, {x}, {y});
        const int z = b.activation("z", {1, 2});
        if (!last) b.op(BuiltinOperator::CAST, {y}, {z});
        EXPECT_NE(refusal(b.finish({x}, {last ? y : z}), kUnsupported).find(said), std::string::npos);
      }
}

TEST(import_tflite, moved_bytes_keep_their_type) {
  for (const bool real : {false, true}) {
    TfliteBuilder b;
    const int x =
        b.tensor({.name = "x", .type = TensorType::INT32, .shape = {1, 2}, .data = {}, .codes = {}, .signature = {}});
    const int y =
        real ? b.activation("y", {2})
             : b.tensor(
                   {.name = "y", .type = TensorType::INT32, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
    b.op(BuiltinOperator::RESHAPE, {x, b.int32s("shape", {1}, {2})}, {y});
    if (!real) EXPECT_EQ(ops(imported(b.finish({x}, {y}))), (std::vector{Op::kReshape}));
    else
      EXPECT_NE(refusal(b.finish({x}, {y}), kUnsupported).find("y is declared float32, but the operator gives int32"),
                std::string::npos);
  }
}

TEST(import_tflite, a_cast_to_the_same_type_is_a_copy) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2}), y = b.activation("y", {1, 2});
  b.op(BuiltinOperator::CAST, {x}, {y});
  EXPECT_EQ(ops(imported(b.finish({x}, {y}))), (std::vector{Op::kCopy}));
}

TEST(import_tflite, gathers_along_other_axes_and_in_batches) {
  const struct {
    int axis, batches;
    std::vector<float> y;
  } kCases[] = {{1, 0, {1, 0, 3, 2}}, {0, 0, {2, 3, 0, 1}}, {1, 1, {1, 2}}};
  for (const auto& [axis, batches, expected] : kCases) {
    TfliteBuilder b;
    const int ids = whole(b, "ids", {2}), table = b.floats("table", {2, 2}, {0, 1, 2, 3});
    const int y = batches > 0 ? b.activation("y", {2}) : b.activation("y", {2, 2});
    b.op(BuiltinOperator::GATHER, {table, ids}, {y}, CreateGatherOptions(b.fbb(), axis, batches));
    const Graph run = run_graph(imported(b.finish({ids}, {y})), {bytes_of(std::vector<int32_t>{1, 0})});
    EXPECT_EQ(reals(value(run, "y")), expected) << axis << " " << batches;
  }
}

TEST(import_tflite, batch_matmul_takes_its_transposes) {
  TfliteBuilder b;
  const int x = b.activation("x", {1, 2, 3}), w = b.activation("w", {1, 2, 3}), y = b.activation("y", {1, 2, 2});
  b.op(BuiltinOperator::BATCH_MATMUL, {x, w}, {y}, CreateBatchMatMulOptions(b.fbb(), false, true));
  const Graph graph = imported(b.finish({x, w}, {y}));
  EXPECT_EQ(ops(graph), (std::vector{Op::kBatchedMatmul}));
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, c = {1, 0, 1, 0, 1, 0};  // y = a c^T
  EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(a), bytes_of(c)}), "y")), (std::vector<float>{4, 2, 10, 5}));
}

TEST(import_tflite, gelu_has_two_forms) {
  for (const bool approximate : {false, true}) {
    const Graph graph = imported(
        unary(BuiltinOperator::GELU, {1, 4}, {1, 4}, [&](auto& f) { return CreateGeluOptions(f, approximate); }));
    EXPECT_EQ(ops(graph), (std::vector{Op::kGelu}));
    EXPECT_EQ(get_integer(graph.nodes[0], "tanh"), approximate ? 1 : 0);
  }
}

// Builds x -> y with weights of 1 and no bias: the operand is -1 in the file, or is left out.
std::vector<uint8_t> without_bias(BuiltinOperator code, bool named) {
  TfliteBuilder b;
  const bool dense = code == BuiltinOperator::FULLY_CONNECTED;
  const int32_t rows = code == BuiltinOperator::DEPTHWISE_CONV_2D ? 1 : 2;
  const auto shape = [&](int32_t first) {
    return dense ? std::vector<int32_t>{first, 2} : std::vector<int32_t>{first, 1, 1, 2};
  };
  const int x = b.activation("x", shape(1)), y = b.activation("y", shape(1));
  const int w = b.floats("w", shape(rows), std::vector<float>(size_t(2 * rows), 1));
  std::vector<int32_t> inputs = {x, w};
  if (named) inputs.push_back(-1);
  if (dense) b.op(code, inputs, {y}, CreateFullyConnectedOptions(b.fbb()));
  else if (code == BuiltinOperator::CONV_2D)
    b.op(code, inputs, {y}, CreateConv2DOptions(b.fbb(), Padding::VALID, 1, 1));
  else b.op(code, inputs, {y}, CreateDepthwiseConv2DOptions(b.fbb(), Padding::VALID, 1, 1, 1));
  return b.finish({x}, {y});
}

TEST(import_tflite, layers_without_bias_are_bound) {
  for (const BuiltinOperator code :
       {BuiltinOperator::FULLY_CONNECTED, BuiltinOperator::CONV_2D, BuiltinOperator::DEPTHWISE_CONV_2D})
    for (const bool named : {false, true}) {
      Graph graph = imported(without_bias(code, named));
      simplify(graph);
      const Compiled compiled = compile(std::move(graph), {});
      const LoadedModel model(compiled.bytes, "test", "");
      const KernelSet* const kernels[] = {&reference::kernels()};
      Sizes sizes;
      EXPECT_TRUE(Program::measure(model.model(), 0, kernels, &sizes).ok()) << int(code) << named;
    }
}

TEST(import_tflite, prelu_is_leaky_relu_or_composed) {
  const std::vector<float> x_values = {-2, 3, -4, 0.5f};
  const auto prelu = [](const std::vector<float>& slopes, float scale) {
    TfliteBuilder b;
    const int x = scale > 0 ? b.activation("x", {1, 2, 2}, scale, 0) : b.activation("x", {1, 2, 2});
    const int y = scale > 0 ? b.activation("y", {1, 2, 2}, scale, 0) : b.activation("y", {1, 2, 2});
    b.op(BuiltinOperator::PRELU, {x, b.floats("slope", {1, 2}, slopes)}, {y});
    return b.finish({x}, {y});
  };
  const Graph one = imported(prelu({0.5f, 0.5f}, 0));
  EXPECT_EQ(ops(one), (std::vector{Op::kLeakyRelu}));
  EXPECT_EQ(reals(value(run_graph(one, {bytes_of(x_values)}), "y")), (std::vector<float>{-1, 3, -2, 0.5f}));
  const Graph many = imported(prelu({0.5f, -1}, 0));
  EXPECT_EQ(ops(many), (std::vector{Op::kClamp, Op::kClamp, Op::kMul, Op::kAdd}));
  EXPECT_EQ(reals(value(run_graph(many, {bytes_of(std::vector<float>{-2, -3, 4, 0.5f})}), "y")),
            (std::vector<float>{-1, 3, 4, 0.5f}));
  const Graph codes = imported(prelu({0.5f, -1}, 0.5f));
  EXPECT_EQ(ops(codes), ops(many));
  for (const Node& node : codes.nodes) EXPECT_TRUE(output(codes, node).quantizer) << node.name;
}

TEST(import_tflite, extrema_with_a_number_are_clamps) {
  for (const bool maximum : {false, true})
    for (const bool number_first : {false, true}) {
      TfliteBuilder b;
      const int x = b.activation("x", {1, 3}), y = b.activation("y", {1, 3}), one = b.floats("one", {}, {1});
      b.op(maximum ? BuiltinOperator::MAXIMUM : BuiltinOperator::MINIMUM,
           number_first ? std::vector<int32_t>{one, x} : std::vector<int32_t>{x, one}, {y});
      const Graph graph = imported(b.finish({x}, {y}));
      EXPECT_EQ(ops(graph), (std::vector{Op::kClamp}));
      EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(std::vector<float>{-3, 1, 5})}), "y")),
                maximum ? (std::vector<float>{1, 1, 5}) : (std::vector<float>{-3, 1, 1}));
    }
  const auto with = [](const std::vector<float>& numbers) {
    TfliteBuilder b;
    const int x = b.activation("x", {1, 3}), y = b.activation("y", {1, 3});
    b.op(BuiltinOperator::MAXIMUM, {x, b.floats("c", {int32_t(numbers.size())}, numbers)}, {y});
    return b.finish({x}, {y});
  };
  EXPECT_EQ(ops(imported(with({1, 2, 3}))), std::vector{Op::kBinary});
  EXPECT_NE(refusal(with({NAN}), kBadInput).find("a bound that is not a number"), std::string::npos);
}

struct MaximumCase {
  std::vector<int32_t> x, y, axes;
  bool keep;
  std::vector<float> expected;
};

TEST(import_tflite, a_maximum_over_neighbouring_axes_is_a_pool) {
  std::vector<float> numbers(12);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i * 5 % 12);  // 0 5 10 3 8 1 6 11 4 9 2 7
  const MaximumCase cases[] = {
      {{1, 2, 3, 2}, {1, 2}, {1, 2}, false, {10, 11}},              // GlobalMaxPooling2D
      {{1, 2, 3, 2}, {1, 1, 1, 2}, {-2, 1}, true, {10, 11}},        // kept
      {{1, 6, 2}, {1, 2}, {1}, false, {10, 11}},                    // GlobalMaxPooling1D
      {{1, 2, 3, 2}, {1, 2, 3}, {3}, false, {5, 10, 8, 11, 9, 7}},  // the last axis
      {{2, 3, 2}, {2, 2}, {1}, false, {10, 5, 6, 11}},              // of each row of a batch
  };
  for (const MaximumCase& c : cases) {
    TfliteBuilder b;
    const int x = b.activation("x", c.x), y = b.activation("y", c.y),
              axes = b.int32s("axes", {int32_t(c.axes.size())}, c.axes);
    b.op(BuiltinOperator::REDUCE_MAX, {x, axes}, {y}, CreateReducerOptions(b.fbb(), c.keep));
    const Graph graph = imported(b.finish({x}, {y}));
    EXPECT_EQ(ops(graph), (std::vector{Op::kReshape, Op::kMaxPool, Op::kReshape}));
    EXPECT_EQ(value(graph, "y").dims, Dims(c.y.begin(), c.y.end()));
    EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(numbers)}), "y")), c.expected);
  }
}

TEST(import_tflite, other_maxima_are_reductions) {
  const MaximumCase cases[] = {{{2, 3}, {3}, {0}, false, {3, 4, 2}},
                               {{2, 3}, {1, 3}, {-2}, true, {3, 4, 2}},
                               {{1, 2, 1, 3}, {1, 1}, {1, 3}, false, {4}}};
  for (const MaximumCase& c : cases) {
    TfliteBuilder b;
    const int x = b.activation("x", c.x), y = b.activation("y", c.y),
              axes = b.int32s("axes", {int32_t(c.axes.size())}, c.axes);
    b.op(BuiltinOperator::REDUCE_MAX, {x, axes}, {y}, CreateReducerOptions(b.fbb(), c.keep));
    const Graph graph = imported(b.finish({x}, {y}));
    EXPECT_EQ(ops(graph), std::vector{Op::kReduce});
    EXPECT_EQ(reals(value(run_graph(graph, {bytes_of(std::vector<float>{0, 4, 1, 3, 2, 2})}), "y")), c.expected);
  }
}

}  // namespace
}  // namespace nacre::tools::tflite
