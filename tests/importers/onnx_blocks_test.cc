// Tests import_onnx on 4-bit weights with a scale and a zero point per block. All sums are exact in float32, in any
// order.
#include <gtest/gtest.h>

#include "tests/importers/onnx_graphs.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {
namespace {

// Compiles the graph as nacre convert does, with the policies that the file itself implies.
Graph compiled_blocks(const OnnxBuilder& b) {
  Graph graph = imported(b);
  simplify(graph);
  resolve_policies(graph, {});
  apply_policy(graph);
  check(graph);
  EXPECT_TRUE(graph.fallbacks.empty()) << testing::PrintToString(graph.fallbacks);
  return graph;
}

// Return code, zero point and scale of element (n, k) of w, whose blocks are 16 columns of one row (the last: 8 of 40).
int block_code(int n, int k) { return (5 * n + 7 * k) % 16; }
int block_zero(int n, int k) { return 3 + (n + k / 16) % 9; }
float block_scale(int n, int k) { return 0.25f * float(1 + n + k / 16); }

void expect_block_products(const Graph& graph, ElementType stored) {
  std::vector<float> x(40);
  for (size_t k = 0; k < x.size(); ++k) x[k] = float(k % 5) - 2;  // sums are exact: multiples of 1/4 below 2^22
  const std::vector<float> y = reals(run_graph(graph, {bytes_of(x)}).values[size_t(graph.outputs[0].value)]);
  EXPECT_EQ(operand(graph, first(graph, Op::kDense), 1).type, stored);
  ASSERT_EQ(y.size(), 3u);
  for (int n = 0; n < 3; ++n) {
    double sum = 0;
    for (int k = 0; k < 40; ++k)
      sum += double(x[size_t(k)]) * (block_code(n, k) - block_zero(n, k)) * double(block_scale(n, k));
    EXPECT_EQ(double(y[size_t(n)]), sum) << n;
  }
}

TEST(onnx_blocks, matmul_n_bits_keeps_codes_of_4_bits) {
  OnnxBuilder b;
  use_microsoft_domain(b);
  b.input("x", {1, 40});
  std::vector<int> codes, zeros;
  std::vector<float> scales;
  for (int n = 0; n < 3; ++n) {
    for (int k = 0; k < 48; k += 2) codes.push_back(block_code(n, k) + 16 * block_code(n, k + 1));
    zeros.insert(zeros.end(), {block_zero(n, 0) + 16 * block_zero(n, 16), block_zero(n, 32)});
    for (int k = 0; k < 40; k += 16) scales.push_back(block_scale(n, k));
  }
  b.codes("w", {3, 3, 8}, codes, TensorProto::UINT8);
  b.floats("s", {9}, scales);
  b.codes("z", {3, 2}, zeros, TensorProto::UINT8);
  b.node("MatMulNBits", {"x", "w", "s", "z"}, {"y"})
      .integer("K", 40)
      .integer("N", 3)
      .integer("block_size", 16)
      .domain("com.microsoft");
  b.output("y");
  expect_block_products(compiled_blocks(b), ElementType::kInt4);
  Graph real = imported(b);
  for (Layer& layer : real.layers) layer.source_policy.clear();
  apply_policy(real);
  expect_block_products(real, ElementType::kFloat32);
}

TEST(onnx_blocks, codes_in_blocks_along_the_inputs_of_a_layer_stay) {
  const auto network = [](bool transposed, bool along_inputs) {
    OnnxBuilder b(21);
    b.input("x", {1, 40});
    const int rows = transposed ? 3 : 40, columns = transposed ? 40 : 3, block = along_inputs ? 16 : 1;
    const int axis = transposed == along_inputs ? 1 : 0;
    std::vector<int> packed;
    std::vector<float> scales;
    std::vector<int> zeros;
    const auto at = [&](int r, int c, auto of) { return transposed ? of(r, c) : of(c, r); };  // (n, k)
    const auto nibble = [](int code) { return code & 15; };
    for (int i = 0; i < rows * columns; i += 2)
      packed.push_back(nibble(at(i / columns, i % columns, block_code)) +
                       16 * nibble(at((i + 1) / columns, (i + 1) % columns, block_code)));
    const int block_rows = axis == 0 ? (rows + block - 1) / block : rows;
    const int block_columns = axis == 1 ? (columns + block - 1) / block : columns;
    for (int r = 0; r < block_rows; ++r)
      for (int c = 0; c < block_columns; ++c) {
        const int row = axis == 0 ? r * block : r, column = axis == 1 ? c * block : c;
        scales.push_back(at(row, column, block_scale));
        zeros.push_back(at(row, column, block_zero));
      }
    if (zeros.size() % 2 != 0) zeros.push_back(0);
    std::vector<int> packed_zeros;
    for (size_t i = 0; i < zeros.size(); i += 2) packed_zeros.push_back(zeros[i] + 16 * zeros[i + 1]);
    constexpr int kUint4 = 21;  // TensorProto.DataType, newer than the library
    b.codes("w", {rows, columns}, packed, kUint4);
    b.floats("s", {block_rows, block_columns}, scales);
    b.codes("z", {block_rows, block_columns}, packed_zeros, kUint4);
    b.node("DequantizeLinear", {"w", "s", "z"}, {"wd"}).integer("axis", axis).integer("block_size", block);
    if (transposed) b.node("Gemm", {"x", "wd"}, {"y"}).integer("transB", 1);
    else b.node("MatMul", {"x", "wd"}, {"y"});
    b.output("y");
    return b;
  };
  for (const bool transposed : {false, true}) {
    expect_block_products(compiled_blocks(network(transposed, true)), ElementType::kInt4);
    expect_block_products(compiled_blocks(network(transposed, false)), ElementType::kFloat32);
  }
}

TEST(onnx_blocks, a_table_in_blocks_gives_its_rows) {
  for (const bool zeros : {false, true}) {
    OnnxBuilder b;
    use_microsoft_domain(b);
    b.input("x", {1});
    std::vector<int> codes;  // [3, 48]
    for (int n = 0; n < 3; ++n)
      for (int k = 0; k < 48; k += 2) codes.push_back(block_code(n, k) + 16 * block_code(n, k + 1));
    std::vector<float> scales;
    std::vector<int> packed;
    for (int n = 0; n < 3; ++n) {
      for (int k = 0; k < 48; k += 16) scales.push_back(block_scale(n, k));
      packed.insert(packed.end(), {block_zero(n, 0) + 16 * block_zero(n, 16), block_zero(n, 32)});
    }
    b.codes("w", {3, 24}, codes, TensorProto::UINT8);
    b.integers("i", {2}, {2, 0});
    b.floats("s", {3, 3}, scales);
    b.codes("z", {3, 2}, packed, TensorProto::UINT8);
    b.node("GatherBlockQuantized", {"w", "i", "s", zeros ? "z" : ""}, {"rows"})
        .integer("block_size", 16)
        .domain("com.microsoft");
    b.node("Add", {"x", "rows"}, {"y"});
    b.output("y");
    const std::vector<float> y = computed(b, {0});
    ASSERT_EQ(y.size(), 96u);
    for (int i = 0; i < 96; ++i) {
      const int n = i < 48 ? 2 : 0, k = i % 48;
      EXPECT_EQ(y[size_t(i)], float(block_code(n, k) - (zeros ? block_zero(n, k) : 8)) * block_scale(n, k)) << i;
    }
  }
}

}  // namespace
}  // namespace nacre::tools
