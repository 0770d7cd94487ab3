// import_onnx of operators on more axes than a value has, against the same written out over all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/importers/onnx_graphs.h"
#include "tools/importers/onnx_wide.h"

namespace nacre::tools {
namespace {

using onnx_import::joined_axes;
using onnx_import::transpose_steps;
using onnx_import::TransposeStep;

int64_t count_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Dims index_of(int64_t place, const Dims& dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) index[i] = place % dims[i], place /= dims[i];
  return index;
}
// Where an index is in an array of `dims`, whose axes of one index stand for any.
int64_t place_of(const Dims& index, const Dims& dims) {
  int64_t place = 0;
  const size_t missing = index.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) place = place * dims[i] + (dims[i] == 1 ? 0 : index[missing + i]);
  return place;
}

template <class T>
std::vector<T> rearranged(const std::vector<T>& x, const Dims& dims, const std::vector<int>& perm) {
  Dims to;
  for (const int axis : perm) to.push_back(dims[size_t(axis)]);
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const Dims from = index_of(int64_t(i), dims);
    Dims index;
    for (const int axis : perm) index.push_back(from[size_t(axis)]);
    y[size_t(place_of(index, to))] = x[i];
  }
  return y;
}

TEST(onnx_wide, transposes_of_up_to_8_axes_are_some_of_up_to_6) {
  std::mt19937 random(7);
  size_t most = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Dims dims(1 + random() % 8);
    for (int64_t& dim : dims) dim = 1 + int64_t(random() % (trial % 2 == 0 ? 2 : 3));
    if (trial % 3 == 0) std::ranges::fill(dims, 2);  // the most that do not join
    std::vector<int> perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::ranges::shuffle(perm, random);
    std::vector<int> x(size_t(count_of(dims))), y;
    std::iota(x.begin(), x.end(), 0);
    y = x;
    const std::vector<TransposeStep> steps = transpose_steps(dims, perm);
    most = std::max(most, steps.size());
    for (const TransposeStep& step : steps) {
      ASSERT_LE(step.dims.size(), 6u);
      ASSERT_EQ(count_of(step.dims), count_of(dims));
      y = rearranged(y, step.dims, step.perm);
    }
    ASSERT_EQ(y, rearranged(x, dims, perm)) << trial;
  }
  EXPECT_EQ(most, 3u);
  EXPECT_EQ(transpose_steps({2, 3, 2, 4, 2, 4, 2, 5}, {0, 1, 2, 4, 6, 3, 5, 7}).size(), 1u);  // windows of a volume
}

TEST(onnx_wide, axes_join_where_all_operands_have_them_or_lack_them) {
  const auto join = [](const std::vector<Dims>& shapes) { return joined_axes(shapes); };
  EXPECT_EQ(join({{2, 3, 4, 5}, {4, 5}}), (std::vector<Dims>{{6, 20}, {1, 20}}));
  EXPECT_EQ(join({{2, 3, 1, 4, 5}, {2, 3, 6, 1, 5}}), (std::vector<Dims>{{6, 1, 4, 5}, {6, 6, 1, 5}}));
  EXPECT_EQ(join({{2, 1, 3}, {}}), (std::vector<Dims>{{6}, {1}}));
  EXPECT_EQ(join({{1, 1}, {1}}), (std::vector<Dims>{{1}, {1}}));
}

const Dims kWide = {2, 1, 2, 3, 2, 2, 2, 3};  // 288 elements

std::vector<float> some_numbers() {
  std::vector<float> x(288);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i * 37 % 101) / 16 - 3;
  return x;
}

// The output of what `add` writes between x, seen with the axes kWide as "wide", and "y".
template <class Add>
std::vector<float> run_wide(Add add, int opset = 18) {
  OnnxBuilder b(opset);
  b.input("x", {2, 144});
  b.integers("dims", {8}, kWide);
  b.node("Reshape", {"x", "dims"}, {"wide"});
  b.integers("row", {1}, {-1});
  add(b);
  b.output("y");
  const Graph graph = imported(b);
  for (const Value& v : graph.values) EXPECT_LE(v.dims.size(), size_t(kMaxRank)) << v.name;
  const Graph ran = run_graph(graph, {bytes_of(some_numbers())});
  return reals(output(ran));
}

TEST(onnx_wide, a_transpose_moves_its_elements) {
  const std::vector<int> perm = {7, 0, 4, 2, 6, 1, 3, 5};
  const std::vector<float> y = run_wide([&](OnnxBuilder& b) {
    b.node("Transpose", {"wide"}, {"t"}).ints("perm", {perm.begin(), perm.end()});
    b.node("Reshape", {"t", "row"}, {"y"});
  });
  EXPECT_EQ(y, rearranged(some_numbers(), kWide, perm));
}

TEST(onnx_wide, operands_broadcast) {
  const Dims shape = {3, 1, 2, 1, 3};
  std::vector<float> a(18);
  std::iota(a.begin(), a.end(), 1.0f);
  const std::vector<float> y = run_wide([&](OnnxBuilder& b) {
    b.floats("a", shape, a);
    b.node("Mul", {"wide", "a"}, {"m"});
    b.filled("half", {}, 0.5f);
    b.node("Max", {"m", "half"}, {"most"});
    b.node("Reshape", {"most", "row"}, {"y"});
  });
  const std::vector<float> x = some_numbers();
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y[i], std::max(0.5f, x[i] * a[size_t(place_of(index_of(int64_t(i), kWide), shape))]));
}

TEST(onnx_wide, what_broadcasts_too_much_is_refused) {
  OnnxBuilder b(18);
  b.input("x", {2, 144});
  b.integers("dims", {8}, {2, 2, 2, 2, 2, 3, 3, 1});
  b.node("Reshape", {"x", "dims"}, {"wide"});
  b.filled("a", {2, 1, 2, 1, 2, 1, 3, 2}, 1);
  b.node("Add", {"wide", "a"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b),
            "test.onnx: 1 thing is not supported:\n  y_node (Add): broadcasts operands of more than 6 axes");
}

TEST(onnx_wide, axes_are_summed) {
  for (const int opset : {11, 18})
    for (const bool keeps : {false, true}) {
      const std::vector<float> y = run_wide(
          [&](OnnxBuilder& b) {
            const char* op = opset < 13 ? "ReduceL1" : "ReduceSum";
            if (opset < 13) {
              b.node(op, {"wide"}, {"s"}).ints("axes", {2, 3, -1}).integer("keepdims", keeps);
            } else {
              b.node("Abs", {"wide"}, {"positive"});
              b.integers("axes", {3}, {2, 3, -1});
              b.node(op, {"positive", "axes"}, {"s"}).integer("keepdims", keeps);
            }
            b.node("Reshape", {"s", "row"}, {"y"});
          },
          opset);
      const Dims left = {2, 1, 1, 1, 2, 2, 2, 1};
      std::vector<float> sums(16);
      const std::vector<float> x = some_numbers();
      for (size_t i = 0; i < x.size(); ++i) sums[size_t(place_of(index_of(int64_t(i), kWide), left))] += std::abs(x[i]);
      ASSERT_EQ(y.size(), sums.size());
      for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(y[i], sums[i], 1e-4);
    }
}

TEST(onnx_wide, a_softmax_and_a_concat_are_along_an_axis) {
  const std::vector<float> y = run_wide([&](OnnxBuilder& b) {
    b.node("Softmax", {"wide"}, {"s"}).integer("axis", 3);
    b.node("Concat", {"s", "wide"}, {"both"}).integer("axis", -5);
    b.node("Reshape", {"both", "row"}, {"y"});
  });
  const std::vector<float> x = some_numbers();
  const Dims both = {2, 1, 2, 6, 2, 2, 2, 3};
  ASSERT_EQ(y.size(), 2 * x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    Dims index = index_of(int64_t(i), kWide);
    float sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      Dims of = index;
      of[3] = k;
      sum += std::exp(x[size_t(place_of(of, kWide))] - x[i]);
    }
    EXPECT_NEAR(y[size_t(place_of(index, both))], 1 / sum, 1e-6);
    index[3] += 3;
    EXPECT_EQ(y[size_t(place_of(index, both))], x[i]);
  }
}

TEST(onnx_wide, others_and_outputs_are_refused_with_their_name) {
  OnnxBuilder b(18);
  b.input("x", {2, 144});
  b.integers("dims", {8}, kWide);
  b.node("Reshape", {"x", "dims"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b), "test.onnx: 1 thing is not supported:\n  y (output): y has more than 6 axes");
}

}  // namespace
}  // namespace nacre::tools
