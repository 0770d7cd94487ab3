// Tests import_onnx on recurrences, embeddings, norms and products of activations: the nodes that they become, and
// their numbers where ONNX's own tests have weights that are all equal.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Reals = std::vector<double>;

Reals randoms(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Reals numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(double(random() >> 8) * 0x1p-23 - 1);
  return numbers;
}
std::vector<float> floats(const Reals& numbers) { return {numbers.begin(), numbers.end()}; }

// Sizes and operands of an LSTM or GRU as ONNX defines them: x [time, batch, in].
struct Cell {
  int gates, directions = 1, time = 3, batch = 2, in = 3, h = 2;
  bool reverse = false, layout = false, before_reset = false;
  Reals x = randoms(size_t(time * batch * in), 1), w = randoms(size_t(directions * gates * h * in), 2),
        r = randoms(size_t(directions * gates * h * h), 3), b = randoms(size_t(directions * 2 * gates * h), 4),
        h0 = randoms(size_t(directions * batch * h), 5), c0 = randoms(size_t(directions * batch * h), 6);
  Reals y = {}, y_h = {}, y_c = {};  // [time, directions, batch, h], [directions, batch, h]

  double sigmoid(double v) const { return 1 / (1 + std::exp(-v)); }

  // Computes the equations of the ONNX operators' page, element by element.
  void run() {
    y.assign(size_t(time * directions * batch * h), 0);
    y_h.assign(size_t(directions * batch * h), 0);
    y_c = y_h;
    for (int d = 0; d < directions; ++d)
      for (int n = 0; n < batch; ++n) {
        Reals state(size_t(h), 0), cell(size_t(h), 0);
        for (int j = 0; j < h; ++j) {
          state[size_t(j)] = h0[size_t((d * batch + n) * h + j)];
          cell[size_t(j)] = c0[size_t((d * batch + n) * h + j)];
        }
        for (int step = 0; step < time; ++step) {
          const int t = reverse || d == 1 ? time - 1 - step : step;
          state = gates == 4 ? lstm(d, n, t, state, cell) : gru(d, n, t, state);
          for (int j = 0; j < h; ++j) y[size_t(((t * directions + d) * batch + n) * h + j)] = state[size_t(j)];
        }
        for (int j = 0; j < h; ++j) {
          y_h[size_t((d * batch + n) * h + j)] = state[size_t(j)];
          y_c[size_t((d * batch + n) * h + j)] = cell[size_t(j)];
        }
      }
  }

  double input(int d, int n, int t, int row) const {
    double sum = b[size_t(d * 2 * gates * h + row)];
    for (int i = 0; i < in; ++i) sum += w[size_t((d * gates * h + row) * in + i)] * x[size_t((t * batch + n) * in + i)];
    return sum;
  }
  double recurrent(int d, int row, const Reals& state) const {
    double sum = b[size_t(d * 2 * gates * h + gates * h + row)];
    for (int j = 0; j < h; ++j) sum += r[size_t((d * gates * h + row) * h + j)] * state[size_t(j)];
    return sum;
  }

  Reals lstm(int d, int n, int t, const Reals& state, Reals& cell) const {
    Reals next;
    for (int j = 0; j < h; ++j) {
      const auto gate = [&](int g) {
        return input(d, n, t, g * h + j) + recurrent(d, g * h + j, state);
      };  // order of the gates: i, o, f, c
      cell[size_t(j)] = sigmoid(gate(2)) * cell[size_t(j)] + sigmoid(gate(0)) * std::tanh(gate(3));
      next.push_back(sigmoid(gate(1)) * std::tanh(cell[size_t(j)]));
    }
    return next;
  }
  Reals gru(int d, int n, int t, const Reals& state) const {
    Reals reset, next;
    const auto gate = [&](int row) { return sigmoid(input(d, n, t, row) + recurrent(d, row, state)); };  // z, r, h
    for (int j = 0; j < h; ++j) reset.push_back(gate(h + j) * state[size_t(j)]);
    for (int j = 0; j < h; ++j) {
      const int row = 2 * h + j;
      const double inner = before_reset ? gate(h + j) * recurrent(d, row, state) : recurrent(d, row, reset);
      const double z = gate(j);
      next.push_back((1 - z) * std::tanh(input(d, n, t, row) + inner) + z * state[size_t(j)]);
    }
    return next;
  }

  // Swaps the first two axes of v [a, b, c].
  static Reals swapped(const Reals& v, int a, int b, int c) {
    Reals result(v.size());
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j)
        for (int k = 0; k < c; ++k) result[size_t((j * a + i) * c + k)] = v[size_t((i * b + j) * c + k)];
    return result;
  }

  OnnxBuilder file() const {
    OnnxBuilder builder;
    const auto dims = [&](int first, int second, int last) {
      return layout ? Dims{second, first, last} : Dims{first, second, last};
    };
    const auto stored = [&](const Reals& v) { return floats(layout ? swapped(v, directions, batch, h) : v); };
    builder.input("x", dims(time, batch, in));
    builder.floats("w", {directions, gates * h, in}, floats(w));
    builder.floats("r", {directions, gates * h, h}, floats(r));
    builder.floats("b", {directions, 2 * gates * h}, floats(b));
    builder.floats("h0", dims(directions, batch, h), stored(h0));
    std::vector<std::string> inputs = {"x", "w", "r", "b", "", "h0"}, outputs = {"y", "y_h"};
    if (gates == 4) {
      builder.floats("c0", dims(directions, batch, h), stored(c0));
      inputs.push_back("c0");
      outputs.push_back("y_c");
    }
    OnnxNode node = builder.node(gates == 4 ? "LSTM" : "GRU", inputs, outputs);
    node.integer("hidden_size", h).integer("layout", layout ? 1 : 0);
    node.text("direction", directions == 2 ? "bidirectional" : reverse ? "reverse" : "forward");
    if (gates == 3) node.integer("linear_before_reset", before_reset ? 1 : 0);
    for (const std::string& output : outputs) builder.output(output);
    return builder;
  }

  void expect_imported(bool simplified) {
    run();
    Graph graph = imported(file());
    if (simplified) {
      simplify(graph);
      apply_policy(graph);
      fuse(graph);
      check(graph);
    }
    const Graph ran = run_graph(graph, {bytes_of(floats(layout ? swapped(x, time, batch, in) : x))});
    const Reals* const expected[] = {&y, &y_h, &y_c};
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const Value& got = output(ran, i);
      const std::vector<float> numbers = reals(got);
      ASSERT_EQ(numbers.size(), expected[i]->size());
      // With layout 1, y [time, directions, batch, h] becomes [batch, time, directions, h]: one swap of the batch axis
      // with the axes of time and directions, taken as one.
      Reals want = *expected[i];
      if (layout) want = i == 0 ? swapped(want, time * directions, batch, h) : swapped(want, directions, batch, h);
      // Bounds the error of float32: sums of in + h + 2 terms of at most 1, slopes of at most 1, over `time` steps.
      for (size_t e = 0; e < want.size(); ++e)
        EXPECT_NEAR(numbers[e], want[e], 1e-5) << "output " << i << " element " << e;
    }
  }
};

TEST(onnx_recurrent, lstm_is_that_of_the_operators_page) {
  for (const bool layout : {false, true})
    for (const bool simplified : {false, true}) {
      Cell{.gates = 4, .layout = layout}.expect_imported(simplified);
      Cell{.gates = 4, .reverse = true, .layout = layout}.expect_imported(simplified);
      Cell{.gates = 4, .directions = 2, .layout = layout}.expect_imported(simplified);
    }
}

TEST(onnx_recurrent, gru_is_that_of_the_operators_page) {
  for (const bool before_reset : {false, true})
    for (const bool layout : {false, true}) {
      Cell{.gates = 3, .layout = layout, .before_reset = before_reset}.expect_imported(true);
      Cell{.gates = 3, .reverse = true, .layout = layout, .before_reset = before_reset}.expect_imported(false);
      Cell{.gates = 3, .directions = 2, .layout = layout, .before_reset = before_reset}.expect_imported(true);
    }
}

// With batch_first PyTorch exports transposes around the recurrence. They cancel.
TEST(onnx_recurrent, batch_first_networks_have_no_transposes) {
  OnnxBuilder b;
  b.input("x", {0, 4, 3}, {"N", "", ""});
  b.filled("w", {1, 8, 3}, 0.1f);
  b.filled("r", {1, 8, 2}, 0.1f);
  b.node("Transpose", {"x"}, {"t"}).ints("perm", {1, 0, 2});
  b.node("LSTM", {"t", "w", "r"}, {"l"}).integer("hidden_size", 2);
  b.integers("axes", {1}, {1});
  b.node("Squeeze", {"l", "axes"}, {"s"});
  b.node("Transpose", {"s"}, {"y"}).ints("perm", {1, 0, 2});
  b.output("y");
  EXPECT_EQ(ops(converted(b)), (std::vector<Op>{Op::kDense, Op::kLstm}));
}

std::string refused(const std::function<void(OnnxNode&)>& change,
                    const std::vector<std::string>& inputs = {"x", "w", "r"}) {
  OnnxBuilder b;
  b.input("x", {4, 1, 3});
  b.filled("w", {1, 8, 3}, 0.1f);
  b.filled("r", {1, 8, 2}, 0.1f);
  b.filled("p", {1, 6}, 0.1f);
  b.integers("lengths", {1}, {3});
  OnnxNode node = b.node("LSTM", inputs, {"y"});
  node.integer("hidden_size", 2);
  change(node);
  b.output("y");
  return refusal(b);
}

TEST(onnx_recurrent, variants_are_refused_by_name) {
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const auto none = [](OnnxNode&) {};
  const auto clipped = [](OnnxNode& n) { n.real("clip", 1); };
  EXPECT_EQ(refused(none), "");
  EXPECT_TRUE(says(refused(clipped), "clips"));
  EXPECT_TRUE(says(refused([](OnnxNode& n) { n.integer("input_forget", 1); }), "couples"));
  EXPECT_TRUE(says(refused([](OnnxNode& n) { n.text("direction", "sideways"); }), "direction"));
  EXPECT_TRUE(says(refused(none, {"x", "w", "r", "", "", "", "", "p"}), "peepholes"));
  EXPECT_TRUE(says(refused(clipped, {"x", "w", "r", "", "lengths"}), "shorter"));
  EXPECT_TRUE(says(refused(none, {"x", "w", "w"}), "weights do not fit"));
  EXPECT_TRUE(says(refused(none, {"x", "x", "r"}), "its weights"));
}

TEST(onnx_embedding, gather_of_a_stored_table_by_ids) {
  for (const int type : {int(TensorProto::INT32), int(TensorProto::INT64)}) {
    OnnxBuilder b;
    b.input("ids", {1, 3}, {}, type);
    b.floats("table", {4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
    b.node("Gather", {"table", "ids"}, {"y"});
    b.output("y");
    const Graph graph = imported(b);
    EXPECT_EQ(ops(graph), std::vector<Op>{Op::kEmbedding});
    EXPECT_EQ(output(graph).dims, (Dims{1, 3, 2}));
    const std::vector<float> expected = {20, 21, 30, 31, 0, 1};  // -1 is the last row
    const auto bytes = type == TensorProto::INT32 ? bytes_of(std::vector<int32_t>{2, -1, 0})
                                                  : bytes_of(std::vector<int64_t>{2, -1, 0});
    EXPECT_EQ(reals(output(run_graph(graph, {bytes}))), expected);
    Graph ready = converted(b);
    EXPECT_EQ(reals(output(run_graph(ready, {bytes}))), expected);
  }
}

TEST(onnx_embedding, tables_of_other_ranks_are_matrices_in_between) {
  OnnxBuilder b;
  b.input("ids", {2}, {}, TensorProto::INT64);
  b.counted("table", {3, 2, 2});
  b.node("Gather", {"table", "ids"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(output(graph).dims, (Dims{2, 2, 2}));
  EXPECT_EQ(reals(output(run_graph(graph, {bytes_of(std::vector<int64_t>{2, 0})}))),
            (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3}));
}

TEST(onnx_matmul, two_computed_operands_are_one_batched_matmul) {
  OnnxBuilder b;
  b.input("a", {1, 2, 2, 3});
  b.input("b", {2, 3, 1});
  b.node("MatMul", {"a", "b"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kBatchedMatmul});
  EXPECT_EQ(output(graph).dims, (Dims{1, 2, 2, 1}));
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, c = {1, 0, -1, 2, 1, 0};
  EXPECT_EQ(reals(output(run_graph(graph, {bytes_of(a), bytes_of(c)}))), (std::vector<float>{-2, -2, 22, 31}));
}

TEST(onnx_matmul, vectors_are_rows_on_the_left_and_columns_on_the_right) {
  const auto dims = [](const Dims& a, const Dims& c) {
    OnnxBuilder b;
    b.input("a", a);
    b.input("b", c);
    b.node("MatMul", {"a", "b"}, {"y"});
    b.output("y");
    return output(imported(b)).dims;
  };
  EXPECT_EQ(dims({3}, {3}), Dims{});
  EXPECT_EQ(dims({3}, {4, 3, 2}), (Dims{4, 2}));
  EXPECT_EQ(dims({4, 2, 3}, {3}), (Dims{4, 2}));
}

// Under a 16-bit policy, the products of attention compute in that type. Under int8 they stay float32, and the log
// says so.
TEST(onnx_matmul, policies_leave_products_of_activations_in_their_compute_type) {
  OnnxBuilder b;
  b.input("q", {1, 4, 8});
  b.input("k", {1, 8, 4});
  b.node("MatMul", {"q", "k"}, {"s"});
  b.node("Softmax", {"s"}, {"y"});
  b.output("y");
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    Graph graph = imported(b);
    for (Layer& layer : graph.layers) {
      layer.asked = true;
      layer.policy.variable = layer.policy.compute = layer.policy.output = type;
    }
    apply_policy(graph);
    check(graph);
    EXPECT_EQ(operand(graph, first(graph, Op::kBatchedMatmul), 1).type, type);
    EXPECT_TRUE(graph.fallbacks.empty());
  }
  Graph graph = imported(b);
  graph.layers[0].asked = true;
  graph.layers[0].policy.quantization = Quantization::kInt8Dynamic;
  apply_policy(graph);
  check(graph);
  EXPECT_EQ(operand(graph, first(graph, Op::kBatchedMatmul), 1).type, ElementType::kFloat32);
  ASSERT_EQ(graph.fallbacks.size(), 1u);
  EXPECT_NE(graph.fallbacks[0].find("batched_matmul"), std::string::npos);
}

TEST(onnx_norm, layer_normalization_is_one_step_over_the_last_axis) {
  OnnxBuilder b;
  b.input("x", {2, 3, 4});
  b.filled("scale", {4}, 2);
  b.filled("bias", {4}, 1);
  b.node("LayerNormalization", {"x", "scale", "bias"}, {"y"}).real("epsilon", 0.5f);
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kLayerNorm});
  EXPECT_EQ(get_real(graph.nodes[0], "epsilon"), 0.5f);
}

TEST(onnx_norm, gelu_has_two_forms) {
  OnnxBuilder b(20);
  b.input("x", {3});
  b.node("Gelu", {"x"}, {"a"});
  b.node("Gelu", {"a"}, {"y"}).text("approximate", "tanh");
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), (std::vector<Op>{Op::kGelu, Op::kGelu}));
  EXPECT_EQ(get_integer(graph.nodes[0], "tanh"), 0);
  EXPECT_EQ(get_integer(graph.nodes[1], "tanh"), 1);
}

TEST(onnx_dropout, training_mode_is_a_step_that_inference_refuses) {
  OnnxBuilder b;
  b.input("x", {1, 4});
  b.floats("ratio", {}, {0.25f});
  b.codes("training", {}, {1}, TensorProto::BOOL);
  b.node("Dropout", {"x", "ratio", "training"}, {"y"});
  b.output("y");
  const Graph graph = imported(b);
  EXPECT_EQ(ops(graph), std::vector<Op>{Op::kDropout});
  EXPECT_EQ(get_real(graph.nodes[0], "rate"), 0.25f);
  try {
    converted(b);
    ADD_FAILURE() << "was converted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("training_mode is set"), std::string::npos);
  }
}

// torch's older exporter names a mask output that nothing reads. If something reads the mask, the importer refuses.
TEST(onnx_dropout, a_mask_counts_where_something_reads_it) {
  for (const bool read : {false, true}) {
    OnnxBuilder b;
    b.input("x", {1, 4});
    b.floats("ratio", {}, {0.25f});
    b.codes("training", {}, {1}, TensorProto::BOOL);
    b.node("Dropout", {"x", "ratio", "training"}, {"y", "mask"});
    b.output("y");
    if (read) b.output("mask");
    if (!read) {
      EXPECT_EQ(ops(imported(b)), std::vector<Op>{Op::kDropout});
      continue;
    }
    try {
      imported(b);
      ADD_FAILURE() << "was imported";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("its mask is used"), std::string::npos) << error.what();
    }
  }
}

TEST(onnx_recurrent, every_flipped_bit_is_imported_or_refused) {
  flip_every_byte(Cell{.gates = 4, .time = 1, .batch = 1, .in = 1, .h = 1}.file());
}

}  // namespace
}  // namespace nacre::tools
