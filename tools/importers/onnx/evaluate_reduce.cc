// Computes operators on constants that combine or sort elements along axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/base/error.h"
#include "tools/importers/onnx/evaluator.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// A reduction: y begins with `start`, each x_i makes y = real(y, x_i) or integer(y, x_i), and the result is
// finish(y). If `integer` is null, integers are computed as reals.
struct Reduction {
  const char* op;
  double start;
  int64_t (*integer)(int64_t y, int64_t x);
  double (*real)(double y, double x);
  double (*finish)(double y) = nullptr;
};

int64_t sum_of(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
int64_t wrapped_product(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
double real_sum(double a, double b) { return a + b; }
constexpr double kInfinite = std::numeric_limits<double>::infinity();

constexpr Reduction kReductions[] = {
    {"ReduceSum", 0, sum_of, real_sum},
    {"ReduceMean", 0, sum_of, real_sum},
    {"ReduceProd", 1, wrapped_product, [](double y, double x) { return y * x; }},
    {"ReduceMax", -kInfinite, [](int64_t y, int64_t x) { return std::max(y, x); },
     [](double y, double x) { return std::isnan(y) || y > x ? y : x; }},
    {"ReduceMin", kInfinite, [](int64_t y, int64_t x) { return std::min(y, x); },
     [](double y, double x) { return std::isnan(y) || y < x ? y : x; }},
    {"ReduceL1", 0, [](int64_t y, int64_t x) { return sum_of(y, x < 0 ? wrapped_product(x, -1) : x); },
     [](double y, double x) { return y + std::fabs(x); }},
    {"ReduceL2", 0, nullptr, [](double y, double x) { return y + x * x; }, [](double y) { return std::sqrt(y); }},
    {"ReduceSumSquare", 0, [](int64_t y, int64_t x) { return sum_of(y, wrapped_product(x, x)); },
     [](double y, double x) { return y + x * x; }},
    {"ReduceLogSum", 0, nullptr, real_sum, [](double y) { return std::log(y); }},
    {"ReduceLogSumExp", -kInfinite, nullptr,
     [](double y, double x) {  // log(e^y + e^x)
       if (std::isnan(x)) return x;
       const double high = std::max(y, x), low = std::min(y, x);
       return std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
     }},
};

struct Limits {
  int64_t low, high;
};
template <class T>
constexpr Limits kLimits = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

Limits limits_of(ElementType type) {
  switch (type) {
    case ElementType::kBool: return {0, 1};
    case ElementType::kInt8: return kLimits<int8_t>;
    case ElementType::kUint8: return kLimits<uint8_t>;
    case ElementType::kInt16: return kLimits<int16_t>;
    case ElementType::kInt32: return kLimits<int32_t>;
    case ElementType::kUint32: return kLimits<uint32_t>;
    default: return kLimits<int64_t>;
  }
}

int64_t first_integer(const Reduction& row, ElementType type) {
  if (row.start == kInfinite) return limits_of(type).high;
  return row.start == -kInfinite ? limits_of(type).low : int64_t(row.start);
}

// Converts integers to reals. Reductions with roots and logarithms compute integers as reals; give_as cuts the result.
Tensor as_reals(const Tensor& x) {
  Tensor y = x;
  y.reals.assign(x.integers.begin(), x.integers.end());
  y.integers.clear();
  y.type = ElementType::kFloat64;
  y.whole = false;
  return y;
}

void give_as(const Evaluation& e, Tensor y, ElementType type) {
  if (y.type == type) return e.give(std::move(y));
  Tensor cut = e.make(type, y.dims);
  for (size_t i = 0; i < y.size(); ++i) cut.integers[i] = std::abs(y.reals[i]) < 0x1p63 ? int64_t(y.reals[i]) : 0;
  e.give(std::move(cut));
}

void evaluate_reduction(const Evaluation& e) {
  const Reduction& row = *std::find_if(std::begin(kReductions), std::end(kReductions),
                                       [&](const Reduction& r) { return e.source.proto.op_type() == r.op; });
  const Tensor x = e.input(0).whole && row.integer == nullptr ? as_reals(e.input(0)) : e.input(0);
  const Dims axes = e.source.has("axes") ? e.source.integers("axes") : e.has(1) ? e.list(1, "its axes") : Dims();
  const bool keep = e.source.integer("keepdims", 1) != 0;
  if (axes.empty() && e.source.integer("noop_with_empty_axes", 0) != 0) return give_as(e, x, e.input(0).type);
  std::vector<bool> gone(x.dims.size(), axes.empty());
  for (const int64_t axis : axes) gone[size_t(e.source.axis(axis, x.rank()))] = true;
  Dims dims, kept = x.dims;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (gone[i]) kept[i] = 1;
    if (keep || !gone[i]) dims.push_back(kept[i]);
  }
  Tensor y = e.make(x.type, dims);
  std::fill(y.integers.begin(), y.integers.end(), first_integer(row, y.type));
  std::fill(y.reals.begin(), y.reals.end(), row.start);
  Dims strides = strides_of(kept);
  for (size_t i = 0; i < gone.size(); ++i)
    if (gone[i]) strides[i] = 0;
  size_t i = 0;
  each_index(x.dims, strides, [&](int64_t to) {
    const auto at = size_t(to);
    if (x.whole) y.integers[at] = row.integer(y.integers[at], x.integers[i++]);
    else y.reals[at] = row.real(y.reals[at], x.reals[i++]);
  });
  const auto count = y.size() > 0 ? int64_t(x.size() / y.size()) : 1;
  const bool mean = e.source.proto.op_type() == "ReduceMean";
  if (mean && count == 0) e.source.malformed("takes the mean of nothing");
  for (int64_t& number : y.integers) number = mean ? number / count : number;
  for (double& number : y.reals) number = mean ? number / double(count) : row.finish ? row.finish(number) : number;
  give_as(e, std::move(y), e.input(0).type);
}

// ---- Operators along one axis, with x read as [outer, size, inner]. A line is the elements along that axis.

struct Lines {
  int axis;
  int64_t outer, size, inner;
  size_t at(int64_t line, int64_t k) const { return size_t((line / inner * size + k) * inner + line % inner); }
  int64_t count() const { return outer * inner; }
};

Lines lines_along(const Evaluation& e, const Tensor& x, int64_t given) {
  const int axis = e.source.axis(given, x.rank());
  return {axis, product({x.dims.begin(), x.dims.begin() + axis}), x.dims[size_t(axis)],
          product({x.dims.begin() + axis + 1, x.dims.end()})};
}

// Compares so that NaN is the largest.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(b) ? !std::isnan(a) : a < b;
  else return a < b;
}

void arg(const Evaluation& e) {
  const Tensor& x = e.input(0);
  const bool most = e.source.proto.op_type() == "ArgMax", last = e.source.integer("select_last_index", 0) != 0;
  const Lines lines = lines_along(e, x, e.source.integer("axis", 0));
  if (lines.size == 0) e.source.malformed("its axis has no elements");
  Dims dims = x.dims;
  if (e.source.integer("keepdims", 1) != 0) dims[size_t(lines.axis)] = 1;
  else dims.erase(dims.begin() + lines.axis);
  Tensor y = e.make(ElementType::kInt64, dims);
  for (int64_t line = 0; line < lines.count(); ++line)
    x.visit([&](const auto& numbers) {
      int64_t best = 0;
      for (int64_t k = 1; k < lines.size; ++k) {
        const auto old = numbers[lines.at(line, best)], now = numbers[lines.at(line, k)];
        const bool better = most ? less(old, now) : less(now, old);
        if (better || (last && now == old)) best = k;
      }
      y.integers[size_t(line)] = best;
    });
  e.give(std::move(y));
}

void cumulate(const Evaluation& e) {
  Tensor y = e.input(0);
  e.spend(y.size());
  const Lines lines = lines_along(e, y, e.number(1, "its axis"));
  const bool exclusive = e.source.integer("exclusive", 0) != 0, reverse = e.source.integer("reverse", 0) != 0;
  const auto sum_line = [&](auto& numbers, int64_t line, auto sum, auto plus) {
    for (int64_t k = 0; k < lines.size; ++k) {
      auto& number = numbers[lines.at(line, reverse ? lines.size - 1 - k : k)];
      const auto next = plus(sum, number);
      number = exclusive ? sum : next;
      sum = next;
    }
  };
  for (int64_t line = 0; line < lines.count(); ++line) {
    if (y.whole) sum_line(y.integers, line, int64_t{0}, sum_of);
    else sum_line(y.reals, line, 0.0, real_sum);
  }
  e.give(std::move(y));
}

// Gives the k largest or smallest elements along an axis. Equal ones are in the order of their indices.
void top_k(const Evaluation& e) {
  const Tensor& x = e.input(0);
  const Lines lines = lines_along(e, x, e.source.integer("axis", -1));
  const int64_t k = e.has(1) ? e.number(1, "its k") : e.source.integer("k", -1);
  const bool largest = e.source.integer("largest", 1) != 0;
  if (k < 0 || k > lines.size) e.source.malformed("k is outside its axis");
  Dims dims = x.dims;
  dims[size_t(lines.axis)] = k;
  Tensor y = e.make(x.type, dims), index = e.make(ElementType::kInt64, dims);
  Lines to = lines;
  to.size = k;
  Dims order = e.places({lines.size});
  order.resize(size_t(lines.size));
  for (int64_t line = 0; line < lines.count(); ++line) {
    std::iota(order.begin(), order.end(), 0);
    x.visit([&](const auto& numbers) {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const auto left = numbers[lines.at(line, a)], right = numbers[lines.at(line, b)];
        return largest ? less(right, left) : less(left, right);
      });
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t from = order[size_t(i)];
      index.integers[to.at(line, i)] = from;
      if (x.whole) y.integers[to.at(line, i)] = x.integers[lines.at(line, from)];
      else y.reals[to.at(line, i)] = x.reals[lines.at(line, from)];
    }
  }
  e.give(std::move(y));
  e.give(std::move(index), 1);
}

// ---- MatMul: y[.., i, j] = sum_k a[.., i, k] b[.., k, j], as numpy.matmul

void evaluate_matmul(const Evaluation& e) {
  constexpr int64_t kMostTerms = int64_t{1} << 30;
  Tensor a = e.input(0), b = e.input(1);
  if (a.type != b.type || a.rank() == 0 || b.rank() == 0) e.refuse_types();
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.dims.insert(a.dims.begin(), 1);
  if (column) b.dims.push_back(1);
  const int64_t rows = a.dims[a.dims.size() - 2], terms = a.dims.back(), columns = b.dims.back();
  const std::optional<Dims> batch = broadcast({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  if (!batch || b.dims[b.dims.size() - 2] != terms) e.source.malformed("its operands have shapes that do not fit");
  Dims dims = *batch;
  dims.push_back(rows), dims.push_back(columns);
  const int64_t elements = checked_elements(e.source.place, dims);
  if (terms > 0 && elements > kMostTerms / terms)
    e.source.refuse("multiplies constants, more than 2^30 products", "store the result in the file");
  Tensor y = e.make(a.type, dims);
  const Dims all = strides_of(dims);
  const auto place = [&](const Tensor& x, int64_t i) {  // place of x's matrix for matrix i of y
    int64_t at = 0;
    const Dims own = strides_of(x.dims);
    for (size_t axis = 0; axis + 2 < x.dims.size(); ++axis) {
      const size_t of_y = dims.size() - x.dims.size() + axis;
      if (x.dims[axis] != 1) at += i / all[of_y] % dims[of_y] * own[axis];
    }
    return at;
  };
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t left = place(a, i) + i / columns % rows * terms, right = place(b, i) + i % columns;
    for (int64_t k = 0; k < terms; ++k) {
      const auto l = size_t(left + k), r = size_t(right + k * columns);
      if (y.whole) y.integers[size_t(i)] = sum_of(y.integers[size_t(i)], wrapped_product(a.integers[l], b.integers[r]));
      else y.reals[size_t(i)] += a.reals[l] * b.reals[r];
    }
  }
  if (column) y.dims.pop_back();
  if (row) y.dims.erase(y.dims.end() - (column ? 1 : 2));
  e.give(std::move(y));
}

constexpr Evaluator kReduceEvaluators[] = {
    {"ReduceSum", evaluate_reduction},
    {"ReduceMean", evaluate_reduction},
    {"ReduceProd", evaluate_reduction},
    {"ReduceMax", evaluate_reduction},
    {"ReduceMin", evaluate_reduction},
    {"ReduceL1", evaluate_reduction},
    {"ReduceL2", evaluate_reduction},
    {"ReduceSumSquare", evaluate_reduction},
    {"ReduceLogSum", evaluate_reduction},
    {"ReduceLogSumExp", evaluate_reduction},
    {"ArgMax", arg},
    {"ArgMin", arg},
    {"CumSum", cumulate},
    {"TopK", top_k},
    {"MatMul", evaluate_matmul},
};

}  // namespace

std::span<const Evaluator> reduce_evaluators() { return kReduceEvaluators; }

}  // namespace nacre::tools::onnx_import
