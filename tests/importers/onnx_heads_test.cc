// Tests com.microsoft's attention operators against loops in float64, with one sequence in the batch.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

using Rows = std::vector<float>;
using Bias = std::function<double(size_t head, size_t query, size_t key)>;

constexpr double kUnseen = -INFINITY;

struct Heads {
  size_t queries, groups, features;
};

Rows drawn_rows(size_t count, uint32_t seed) {
  Rows x(count);
  for (float& v : x) v = float((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  return x;
}

// Returns y [L, N D] for q [L, N D], k and v [S, G D]: L queries, S keys, N query heads, G key heads, D features.
Rows attended(const Heads& n, const Rows& q, const Rows& k, const Rows& v, const Bias& bias) {
  const size_t wide = n.queries * n.features, narrow = n.groups * n.features, keys = k.size() / narrow;
  Rows y(q.size());
  for (size_t l = 0; l < q.size() / wide; ++l)
    for (size_t h = 0; h < n.queries; ++h) {
      const size_t first = l * wide + h * n.features, group = h / (n.queries / n.groups) * n.features;
      std::vector<double> weight(keys), sums(n.features);
      double total = 0;
      for (size_t s = 0; s < keys; ++s) {
        double score = 0;
        for (size_t i = 0; i < n.features; ++i) score += double(q[first + i]) * double(k[s * narrow + group + i]);
        weight[s] = std::exp(score / std::sqrt(double(n.features)) + bias(h, l, s));
        total += weight[s];
        for (size_t i = 0; i < n.features; ++i) sums[i] += weight[s] * double(v[s * narrow + group + i]);
      }
      for (size_t i = 0; i < n.features; ++i) y[first + i] = float(sums[i] / total);
    }
  return y;
}

// Transposes [S, G D] to [G, S, D]: S rows, G heads (`groups`) and D features per head.
Rows by_head(const Rows& x, size_t groups, size_t features) {
  const size_t keys = x.size() / (groups * features);
  Rows y;
  for (size_t g = 0; g < groups; ++g)
    for (size_t s = 0; s < keys; ++s)
      for (size_t i = 0; i < features; ++i) y.push_back(x[(s * groups + g) * features + i]);
  return y;
}

Rows joined_rows(Rows a, const Rows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Rows part_of(const Rows& x, size_t first, size_t count) {
  return {x.begin() + long(first), x.begin() + long(first + count)};
}

std::vector<Rows> run_heads(const OnnxBuilder& b, const std::vector<std::vector<uint8_t>>& inputs) {
  const Graph graph = converted(b), run = run_graph(graph, inputs);
  std::vector<Rows> outputs;
  for (size_t i = 0; i < run.outputs.size(); ++i) outputs.push_back(reals(output(run, i)));
  return outputs;
}

void expect_rows(const Rows& found, const Rows& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << what << ' ' << i;
}

OnnxBuilder microsoft() {
  OnnxBuilder b;
  use_microsoft_domain(b);
  return b;
}

TEST(onnx_heads, biases_and_masks_of_several_heads) {
  constexpr Heads kSizes = {2, 2, 3};
  const Rows q = drawn_rows(2 * 6, 1), k = drawn_rows(4 * 6, 2), v = drawn_rows(4 * 6, 3), added = drawn_rows(18, 4);
  const Rows scores = drawn_rows(2 * 2 * 4, 5);
  OnnxBuilder b = microsoft();
  b.input("q", {1, 2, 6});
  b.input("k", {1, 4, 6});
  b.input("v", {1, 4, 6});
  b.floats("b", {18}, added);
  b.codes("mask", {1, 4}, {1, 0, 1, 1}, TensorProto::INT32);
  b.floats("scores", {1, 2, 2, 4}, scores);
  b.node("MultiHeadAttention", {"q", "k", "v", "b", "mask", "scores"}, {"y"})
      .domain("com.microsoft")
      .integer("num_heads", 2);
  b.output("y");
  const auto biased = [&](Rows x, size_t which) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += added[6 * which + i % 6];
    return x;
  };
  const Rows expected =
      attended(kSizes, biased(q, 0), biased(k, 1), biased(v, 2), [&](size_t head, size_t query, size_t key) {
        return key == 1 ? kUnseen : double(scores[(head * 2 + query) * 4 + key]);
      });
  expect_rows(run_heads(b, {bytes_of(q), bytes_of(k), bytes_of(v)})[0], expected, "y");
}

TEST(onnx_heads, queries_keys_and_values_in_one) {
  constexpr Heads kSizes = {2, 2, 2};
  const Rows x = drawn_rows(3 * 2 * 3 * 2, 1);  // [L, N, 3, D]: 3 rows, 2 heads, query, key and value, 2 features
  Rows parts[3];
  for (size_t at = 0; at < x.size(); ++at) parts[at / 2 % 3].push_back(x[at]);
  OnnxBuilder b = microsoft();
  b.input("x", {1, 3, 2, 3, 2});
  OnnxNode node = b.node("MultiHeadAttention", {"x"}, {"y"});
  node.domain("com.microsoft").integer("num_heads", 2).integer("unidirectional", 1);
  b.output("y");
  const Rows expected = attended(kSizes, parts[0], parts[1], parts[2],
                                 [](size_t, size_t query, size_t key) { return key > query ? kUnseen : 0; });
  expect_rows(run_heads(b, {bytes_of(x)})[0], expected, "y");
}

TEST(onnx_heads, a_past_comes_before_the_new_rows) {
  constexpr Heads kSizes = {2, 2, 2};
  const Rows q = drawn_rows(2 * 4, 1), k = drawn_rows(5 * 4, 2), v = drawn_rows(5 * 4, 3);
  OnnxBuilder b = microsoft();
  for (const char* name : {"q", "k", "v"}) b.input(name, {1, 2, 4});
  for (const char* name : {"past_k", "past_v"}) b.input(name, {1, 2, 3, 2});
  b.node("MultiHeadAttention", {"q", "k", "v", "", "", "", "past_k", "past_v"}, {"y", "new_k", "new_v"})
      .domain("com.microsoft")
      .integer("num_heads", 2)
      .integer("unidirectional", 1);
  for (const char* name : {"y", "new_k", "new_v"}) b.output(name);
  const std::vector<Rows> found =
      run_heads(b, {bytes_of(q), bytes_of(part_of(k, 12, 8)), bytes_of(part_of(v, 12, 8)),
                    bytes_of(by_head(part_of(k, 0, 12), 2, 2)), bytes_of(by_head(part_of(v, 0, 12), 2, 2))});
  const Rows expected =
      attended(kSizes, q, k, v, [](size_t, size_t query, size_t key) { return key > query + 3 ? kUnseen : 0; });
  expect_rows(found[0], expected, "y");
  expect_rows(found[1], by_head(k, 2, 2), "keys");
  expect_rows(found[2], by_head(v, 2, 2), "values");
}

TEST(onnx_heads, one_product_makes_queries_keys_and_values) {
  constexpr Heads kSizes = {2, 2, 2};
  const Rows x = drawn_rows(2 * 3, 1), w = drawn_rows(3 * 12, 2), added = drawn_rows(12, 3);
  const Rows past_k = drawn_rows(2 * 4, 4), past_v = drawn_rows(2 * 4, 5);
  OnnxBuilder b = microsoft();
  b.input("x", {1, 2, 3});
  b.input("past", {2, 1, 2, 2, 2});
  b.floats("w", {3, 12}, w);
  b.floats("b", {12}, added);
  b.codes("lengths", {1}, {3}, TensorProto::INT32);
  b.node("Attention", {"x", "w", "b", "lengths", "past"}, {"y", "new"}).domain("com.microsoft").integer("num_heads", 2);
  for (const char* name : {"y", "new"}) b.output(name);
  Rows parts[3];
  for (size_t l = 0; l < 2; ++l)
    for (size_t j = 0; j < 12; ++j) {
      double sum = double(added[j]);
      for (size_t i = 0; i < 3; ++i) sum += double(x[l * 3 + i]) * double(w[i * 12 + j]);
      parts[j / 4].push_back(float(sum));
    }
  const Rows k = joined_rows(past_k, parts[1]), v = joined_rows(past_v, parts[2]);
  const Rows past = joined_rows(by_head(past_k, 2, 2), by_head(past_v, 2, 2));
  const std::vector<Rows> found = run_heads(b, {bytes_of(x), bytes_of(past)});
  const Bias three = [](size_t, size_t, size_t key) { return key < 3 ? 0 : kUnseen; };
  expect_rows(found[0], attended(kSizes, parts[0], k, v, three), "y");
  expect_rows(found[1], joined_rows(by_head(k, 2, 2), by_head(v, 2, 2)), "present");
}

struct GroupCase {
  int64_t length, filled;  // new rows, and valid rows including them, in a cache of 5
  int64_t window = -1;
};

OnnxBuilder groups(const GroupCase& c, int total = 5) {
  OnnxBuilder b = microsoft();
  b.input("x", {1, c.length, 16});  // 4 heads of queries, 2 of keys, 2 of values
  for (const char* name : {"past_k", "past_v"}) b.input(name, {1, 2, 5, 2});
  b.input("lengths", {1}, {}, TensorProto::INT32);
  b.codes("total", {}, {total}, TensorProto::INT32);
  b.node("GroupQueryAttention", {"x", "", "", "past_k", "past_v", "lengths", "total"}, {"y", "new_k", "new_v"})
      .domain("com.microsoft")
      .integer("num_heads", 4)
      .integer("kv_num_heads", 2)
      .integer("local_window_size", c.window);
  for (const char* name : {"y", "new_k", "new_v"}) b.output(name);
  return b;
}

TEST(onnx_heads, groups_put_their_rows_in_a_cache) {
  constexpr Heads kSizes = {4, 2, 2};
  const GroupCase cases[] = {{1, 1}, {1, 4}, {2, 5}, {1, 5, 2}, {3, 4, 2}};
  for (const GroupCase& c : cases) {
    const auto length = size_t(c.length), first = size_t(c.filled - c.length);
    const Rows x = drawn_rows(length * 16, 1);
    Rows q, k = drawn_rows(5 * 4, 2), v = drawn_rows(5 * 4, 3);
    const Rows past_k = by_head(k, 2, 2), past_v = by_head(v, 2, 2);
    for (size_t l = 0; l < length; ++l)
      for (size_t j = 0; j < 16; ++j) {
        if (j < 8) q.push_back(x[l * 16 + j]);
        else (j < 12 ? k : v)[(first + l) * 4 + j % 4] = x[l * 16 + j];
      }
    const std::vector<Rows> found = run_heads(groups(c), {bytes_of(x), bytes_of(past_k), bytes_of(past_v),
                                                          bytes_of(std::vector<int32_t>{int32_t(c.filled - 1)})});
    const Rows expected = attended(kSizes, q, k, v, [&](size_t, size_t query, size_t key) {
      const bool near = c.window < 0 || key + size_t(c.window) > first + query;
      return key <= first + query && near ? 0 : kUnseen;
    });
    expect_rows(found[0], expected, "y");
    expect_rows(found[1], by_head(k, 2, 2), "keys");
    expect_rows(found[2], by_head(v, 2, 2), "values");
  }
}

TEST(onnx_heads, what_is_no_attention_of_onnx_is_refused) {
  EXPECT_NE(refusal(groups({1, 1}, 6)).find("its past has 5 rows, and the whole 6"), std::string::npos);
  EXPECT_NE(refusal(groups({6, 6})).find("fewer rows than its query"), std::string::npos);
  OnnxBuilder b = microsoft();
  for (const char* name : {"q", "k", "v"}) b.input(name, {1, 2, 4});
  b.codes("mask", {7}, {1, 1, 1, 1, 1, 1, 1}, TensorProto::INT32);
  b.node("MultiHeadAttention", {"q", "k", "v", "", "mask"}, {"y"}).domain("com.microsoft").integer("num_heads", 2);
  b.output("y");
  EXPECT_NE(refusal(b).find("a mask of another shape"), std::string::npos);
}

}  // namespace
}  // namespace nacre::tools
