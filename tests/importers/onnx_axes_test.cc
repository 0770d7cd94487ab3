// Tests import_onnx on tensors of 7 and 8 axes, inputs and outputs included, against operators written as loops over
// all axes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "tests/importers/onnx_graphs.h"

namespace nacre::tools {
namespace {

int64_t count_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}
Dims index_of(int64_t place, const Dims& dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) index[i] = place % dims[i], place /= dims[i];
  return index;
}
// Returns the position of an index in an array of `dims`. An axis of length 1 is broadcast.
int64_t place_of(const Dims& index, const Dims& dims) {
  int64_t place = 0;
  const size_t missing = index.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) place = place * dims[i] + (dims[i] == 1 ? 0 : index[missing + i]);
  return place;
}

struct Numbers {
  Dims dims;
  std::vector<float> data;

  float at(const Dims& index) const { return data[size_t(place_of(index, dims))]; }
};

// Returns an array of `dims` whose element at an index is f(index).
Numbers numbers(const Dims& dims, const std::function<float(const Dims&)>& f) {
  Numbers made = {dims, std::vector<float>(size_t(count_of(dims)))};
  for (size_t i = 0; i < made.data.size(); ++i) made.data[i] = f(index_of(int64_t(i), dims));
  return made;
}

class Trial {
 public:
  explicit Trial(uint32_t seed) : random(seed), axis(draw(rank)) {
    for (int64_t& dim : dims) dim = 1 + draw(3);
    x = numbers(dims, [&](const Dims&) { return float(draw(101)) / 16 - 3; });
  }
  int draw(int below) { return int(random() % uint32_t(below)); }

  // Expects y as the output of a graph to which `add` adds nodes from the input "x" to "y".
  template <class Add>
  void expect(const Numbers& y, double tolerance, Add add) const {
    OnnxBuilder b(18);
    b.input("x", dims);
    add(b);
    b.output("y");
    const Graph graph = converted(b);
    EXPECT_EQ(output(graph).dims, y.dims);
    const std::vector<float> ran = reals(output(run_graph(graph, {bytes_of(x.data)})));
    ASSERT_EQ(ran.size(), y.data.size());
    for (size_t i = 0; i < ran.size(); ++i) ASSERT_NEAR(ran[i], y.data[i], tolerance) << i;
  }

  std::mt19937 random;
  const int rank = 7 + draw(2);
  const int axis;
  Dims dims = Dims(size_t(rank));
  Numbers x;
};

template <class F>
void each_trial(F f) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial(seed);
    f(trial);
  }
}

TEST(onnx_axes, a_transpose_moves_its_elements) {
  each_trial([](Trial& t) {
    Dims perm(size_t(t.rank)), to;
    std::iota(perm.begin(), perm.end(), 0);
    std::ranges::shuffle(perm, t.random);
    for (const int64_t a : perm) to.push_back(t.dims[size_t(a)]);
    const Numbers y = numbers(to, [&](const Dims& index) {
      Dims from(index.size());
      for (size_t i = 0; i < perm.size(); ++i) from[size_t(perm[i])] = index[i];
      return t.x.at(from);
    });
    t.expect(y, 0, [&](OnnxBuilder& b) { b.node("Transpose", {"x"}, {"y"}).ints("perm", perm); });
  });
}

TEST(onnx_axes, operands_broadcast) {
  each_trial([](Trial& t) {
    Dims shape(t.dims.begin() + t.draw(3), t.dims.end()), all = t.dims;
    for (int64_t& dim : shape) dim = t.draw(2) == 0 ? 1 : dim;
    const Numbers a = numbers(shape, [&](const Dims&) { return float(t.draw(9) - 4); });
    const Numbers y = numbers(all, [&](const Dims& i) { return std::max(0.5f, t.x.at(i) * a.at(i) + t.x.at(i)); });
    t.expect(y, 1e-5, [&](OnnxBuilder& b) {
      b.floats("a", shape, a.data);
      b.node("Mul", {"x", "a"}, {"m"});
      b.node("Add", {"m", "x"}, {"s"});
      b.filled("half", {}, 0.5f);
      b.node("Max", {"s", "half"}, {"y"});
    });
  });
}

TEST(onnx_axes, means_are_over_any_of_them) {
  each_trial([](Trial& t) {
    Dims axes, kept = t.dims, left;
    for (int i = 0; i < t.rank; ++i)
      if (t.draw(2) == 0) axes.push_back(t.draw(2) == 0 ? i : i - t.rank), kept[size_t(i)] = 1;
      else left.push_back(t.dims[size_t(i)]);
    if (axes.empty()) axes = {0}, kept[0] = 1, left.erase(left.begin());
    const bool keeps = t.draw(2) == 0;
    std::vector<double> sums(size_t(count_of(kept)));
    for (size_t i = 0; i < t.x.data.size(); ++i)
      sums[size_t(place_of(index_of(int64_t(i), t.dims), kept))] += t.x.data[i];
    Numbers y = {keeps ? kept : left, std::vector<float>(sums.size())};
    const auto share = double(sums.size()) / double(t.x.data.size());
    for (size_t i = 0; i < sums.size(); ++i) y.data[i] = float(sums[i] * share);
    t.expect(y, 1e-5, [&](OnnxBuilder& b) {
      b.integers("axes", {int64_t(axes.size())}, axes);
      b.node("ReduceMean", {"x", "axes"}, {"y"}).integer("keepdims", keeps);
    });
  });
}

TEST(onnx_axes, a_softmax_and_a_concat_are_along_one) {
  each_trial([](Trial& t) {
    const auto axis = size_t(t.axis);
    const int64_t size = t.dims[axis];
    Dims both = t.dims;
    both[axis] *= 2;
    const Numbers y = numbers(both, [&](const Dims& index) {
      Dims at = index;
      at[axis] %= size;
      if (index[axis] >= size) return t.x.at(at);
      double sum = 0;
      Dims of = at;
      for (int64_t k = 0; k < size; ++k) {
        of[axis] = k;
        sum += std::exp(double(t.x.at(of)) - t.x.at(at));
      }
      return float(1 / sum);
    });
    t.expect(y, 1e-6, [&](OnnxBuilder& b) {
      b.node("Softmax", {"x"}, {"s"}).integer("axis", t.axis);
      b.node("Concat", {"s", "x"}, {"y"}).integer("axis", t.axis - t.rank);
    });
  });
}

TEST(onnx_axes, slices_and_pads_are_of_all) {
  each_trial([](Trial& t) {
    Dims starts, ends, steps, axes, pads(size_t(2 * t.rank)), to;
    for (int i = 0; i < t.rank; ++i) {
      const int64_t dim = t.dims[size_t(i)], begin = t.draw(int(dim)), back = t.draw(2);
      axes.push_back(i), starts.push_back(begin), steps.push_back(back != 0 ? -1 : 1);
      ends.push_back(back != 0 ? -dim - 1 : dim);
      pads[size_t(i)] = t.draw(2), pads[size_t(i + t.rank)] = t.draw(5) / 4;
      to.push_back((back != 0 ? begin + 1 : dim - begin) + pads[size_t(i)] + pads[size_t(i + t.rank)]);
    }
    const Numbers y = numbers(to, [&](const Dims& index) {
      Dims from;
      for (size_t i = 0; i < index.size(); ++i) {
        const int64_t place = index[i] - pads[i], end = to[i] - pads[i] - pads[i + index.size()];
        if (place < 0 || place >= end) return 7.0f;
        from.push_back(starts[i] + place * steps[i]);
      }
      return t.x.at(from);
    });
    t.expect(y, 0, [&](OnnxBuilder& b) {
      b.integers("starts", {t.rank}, starts);
      b.integers("ends", {t.rank}, ends);
      b.integers("axes", {t.rank}, axes);
      b.integers("steps", {t.rank}, steps);
      b.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"part"});
      b.integers("pads", {2 * t.rank}, pads);
      b.filled("seven", {}, 7);
      b.node("Pad", {"part", "pads", "seven"}, {"y"});
    });
  });
}

TEST(onnx_axes, products_of_matrices_have_stacks_of_6) {
  each_trial([](Trial& t) {
    const auto rank = size_t(t.rank);
    Dims turned = t.dims, to = t.dims;
    to[rank - 1] = 2, turned[rank - 2] = t.dims[rank - 1], turned[rank - 1] = 2;
    for (size_t i = 0; i + 2 < rank; ++i) turned[i] = t.draw(2) == 0 ? 1 : turned[i];
    const Numbers a = numbers(turned, [&](const Dims&) { return float(t.draw(9) - 4); });
    const Numbers y = numbers(to, [&](const Dims& index) {
      double sum = 0;
      Dims left = index, right = index;
      for (int64_t k = 0; k < t.dims[rank - 1]; ++k) {
        left[rank - 1] = right[rank - 2] = k;
        sum += double(t.x.at(left)) * a.at(right);
      }
      return float(sum);
    });
    t.expect(y, 1e-4, [&](OnnxBuilder& b) {
      b.floats("a", turned, a.data);
      b.node("MatMul", {"x", "a"}, {"y"});
    });
  });
}

TEST(onnx_axes, a_ninth_is_refused) {
  OnnxBuilder b(18);
  b.input("x", {1, 1, 1, 1, 1, 1, 1, 1, 4});
  b.node("Tanh", {"x"}, {"y"});
  b.output("y");
  EXPECT_EQ(refusal(b), "test.onnx: 1 thing is not supported:\n  input x: has more than 8 axes");
  OnnxBuilder r(18);
  r.input("x", {2, 4});
  r.integers("dims", {9}, {2, 2, 1, 1, 1, 1, 1, 1, 2});
  r.node("Reshape", {"x", "dims"}, {"z"});
  r.node("Tanh", {"z"}, {"y"});
  r.output("y");
  EXPECT_EQ(refusal(r),
            "test.onnx: 1 thing is not supported:\n  z_node (Reshape): gives rank 9, at most 8 is supported");
}

}  // namespace
}  // namespace nacre::tools
