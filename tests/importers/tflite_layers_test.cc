// import_tflite of GATHER and EMBEDDING_LOOKUP of stored tables, BATCH_MATMUL and GELU.
#include <gtest/gtest.h>

#include "tests/graph/run_graph.h"
#include "tests/importers/tflite_imports.h"

namespace nacre::tools::tflite {
namespace {

// y = rows of a table [3, ..] by the int32 ids {2, 0}.
Graph rows_by_ids(const std::vector<int32_t>& table_shape, bool lookup) {
  TfliteBuilder b;
  int32_t elements = 1;
  for (const int32_t dim : table_shape) elements *= dim;
  std::vector<float> numbers;
  for (int32_t i = 0; i < elements; ++i) numbers.push_back(float(i));
  std::vector<int32_t> y_shape = table_shape;
  y_shape[0] = 2;
  const int ids = b.tensor({.name = "ids", .type = TensorType::INT32, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
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

TEST(import_tflite, gathers_along_other_axes_are_refused) {
  TfliteBuilder b;
  const int ids = b.tensor({.name = "ids", .type = TensorType::INT32, .shape = {2}, .data = {}, .codes = {}, .signature = {}});
  const int table = b.floats("table", {2, 2}, {0, 1, 2, 3}), y = b.activation("y", {2, 2});
  b.op(BuiltinOperator::GATHER, {table, ids}, {y}, CreateGatherOptions(b.fbb(), 1));
  EXPECT_NE(refusal(b.finish({ids}, {y}), kUnsupported).find("along another axis"), std::string::npos);
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

}  // namespace
}  // namespace nacre::tools::tflite
