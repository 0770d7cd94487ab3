// Converts functions of keras.ops that multiply and sum: einsum and its special cases, running sums, norms, moments.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/functions/functions.h"

namespace nacre::tools::keras {
namespace {

// Computes an einsum by transposes, sums and one product of matrices for each operand after the first:
//
//   a [batch, m, k], b [batch, k, n] -> y [batch, m, n]      y_bmn = sum_k a_bmk b_bkn
//
// An axis that a and b share belongs to the batch if the result or a later operand has it; otherwise it is summed (k).
// m and n are axes of a alone and of b alone.
class Einsum {
 public:
  Einsum(const Call& call, std::vector<ValueId> operands) : call_(call) {
    for (const ValueId x : operands) parts_.push_back({call.cast(x), ""});
  }

  ValueId run(const std::string& equation) {
    parse(equation);
    Part y = parts_[0];
    for (size_t i = 1; i < parts_.size(); ++i) y = product(y, parts_[i], i);
    y = summed(y, result_);
    return ordered(y, result_).x;
  }

 private:
  struct Part {
    ValueId x;
    std::string labels;  // labels of its axes
  };

  static bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

  // Parses an equation. The axes of "..." get the labels '0' and up, from the last one. Without "->" the result has
  // these axes, then the letters that occur once, sorted.
  void parse(std::string equation) {
    std::erase(equation, ' ');
    const size_t arrow = equation.find("->");
    const std::string left = equation.substr(0, arrow) + ",";
    std::map<char, int> count;
    size_t open = 0, i = 0;
    for (size_t begin = 0, comma; (comma = left.find(',', begin)) != left.npos; begin = comma + 1, ++i) {
      if (i == parts_.size()) call_.bad("equation " + equation + " for " + std::to_string(i) + " operands");
      parts_[i].labels = labelled(left.substr(begin, comma - begin), size_t(call_.rank(parts_[i].x)), &open);
      read_sizes(parts_[i]);
      for (const char label : parts_[i].labels) ++count[label];
    }
    if (i != parts_.size()) call_.bad("equation " + equation + " for " + std::to_string(parts_.size()) + " operands");
    std::string once;
    for (const auto& [label, times] : count)
      if (std::isalpha(uint8_t(label)) != 0 && times == 1) once += label;
    const std::string right = arrow == equation.npos ? "..." + once : equation.substr(arrow + 2);
    const size_t dots = right.find("...");
    result_ = dots == right.npos ? right : right.substr(0, dots) + open_labels(open) + right.substr(dots + 3);
    for (const char label : result_)
      if (!sizes_.contains(label)) call_.bad("equation " + equation + " gives out an axis of no operand");
  }

  static std::string open_labels(size_t count) {
    std::string labels;
    while (count > 0) labels += char('0' + --count);
    return labels;
  }

  std::string labelled(std::string labels, size_t rank, size_t* open) const {
    if (const size_t dots = labels.find("..."); dots != labels.npos) {
      const size_t count = rank + 3 - std::min(labels.size(), rank + 3);
      *open = std::max(*open, count);
      labels.replace(dots, 3, open_labels(count));
    }
    std::string sorted = labels;
    std::ranges::sort(sorted);
    if (labels.size() != rank) call_.bad("an equation for another number of axes");
    if (std::ranges::adjacent_find(sorted) != sorted.end()) call_.unsupported("an equation that reads a diagonal");
    return labels;
  }

  void read_sizes(const Part& part) {
    for (size_t axis = 0; axis < part.labels.size(); ++axis) {
      const int64_t size = call_.dims(part.x)[axis];
      int64_t& known = sizes_.emplace(part.labels[axis], size).first->second;
      if (known != size && known != 1 && size != 1) call_.bad("an equation whose operands do not fit");
      known = std::max(known, size);
    }
  }

  // Sums over the axes that `kept` does not have.
  Part summed(const Part& part, const std::string& kept) const {
    std::vector<int> axes;
    std::string left;
    for (size_t i = 0; i < part.labels.size(); ++i) {
      if (has(kept, part.labels[i])) left += part.labels[i];
      else axes.push_back(int(i));
    }
    if (axes.empty()) return part;
    return {call_.reduce(Reduce::kSum, part.x, axes, false), left};
  }

  Part ordered(const Part& part, const std::string& labels) const {
    std::vector<int> perm;
    for (const char label : labels) perm.push_back(int(part.labels.find(label)));
    return {call_.transpose(part.x, perm), labels};
  }

  int64_t product_of(const std::string& labels) const {
    int64_t all = 1;
    for (const char label : labels) all *= sizes_.at(label);
    return all;
  }

  // Repeats an axis of size 1 if the other operand's is longer.
  Part filled(const Part& part) const {
    std::vector<int64_t> times;
    for (size_t i = 0; i < part.labels.size(); ++i) {
      const int64_t size = sizes_.at(part.labels[i]);
      times.push_back(call_.dims(part.x)[i] == size ? 1 : size);
    }
    return {call_.repeat(part.x, times), part.labels};
  }

  Part product(Part a, Part b, size_t i) const {
    std::string behind = result_;
    for (size_t k = i + 1; k < parts_.size(); ++k) behind += parts_[k].labels;
    a = filled(summed(a, behind + b.labels));
    b = filled(summed(b, behind + a.labels));
    std::string batch, k, m, n;
    for (const char label : a.labels) (!has(b.labels, label) ? m : has(behind, label) ? batch : k) += label;
    for (const char label : b.labels)
      if (!has(a.labels, label)) n += label;
    const int64_t rows = product_of(m), inner = product_of(k), columns = product_of(n), all = product_of(batch);
    const ValueId left = call_.reshape(ordered(a, batch + m + k).x, {all, rows, inner}),
                  right = call_.reshape(ordered(b, batch + k + n).x, {all, inner, columns});
    std::vector<int64_t> dims;
    for (const char label : batch + m + n) dims.push_back(sizes_.at(label));
    if (dims.empty()) dims = {1};
    return {call_.reshape(call_.emit(Op::kBatchedMatmul, {left, right}), dims), batch + m + n};
  }

  const Call& call_;
  std::vector<Part> parts_;
  std::string result_;
  std::map<char, int64_t> sizes_;
};

void ops_einsum(Call& call) {
  const std::string equation = call.text("subscripts", "");
  if (call.inputs.empty() || equation.empty()) call.unsupported("such operands");
  call.outputs = {Einsum(call, call.inputs).run(equation)};
}

std::string letters(size_t count, char first) {
  std::string made;
  for (size_t i = 0; i < count; ++i) made += char(first + char(i));
  return made;
}

// Converts dot: sums products over k, for a [.., k] and b [.., k, n]. With kInner converts inner, whose b is [.., k].
// If b is a vector [k] the two are equal.
template <bool kInner>
void ops_dot(Call& call) {
  const ValueId a = operand(call, 0, "x1"), b = operand(call, 1, "x2");
  const size_t of_b = size_t(call.rank(b));
  std::string left = letters(size_t(call.rank(a)), 'a'), right = letters(of_b, 'A');
  const size_t summed = kInner || of_b < 2 ? of_b - 1 : of_b - 2;
  right[summed] = left.back();
  if (call.dims(a).back() != call.dims(b)[summed]) call.bad("operands whose shapes do not fit");
  std::string result = left.substr(0, left.size() - 1);
  for (const char label : right)
    if (label != left.back()) result += label;
  call.outputs = {Einsum(call, {a, b}).run(left + "," + right + "->" + result)};
}

void ops_outer(Call& call) {
  const ValueId a = real(call, 0, "x1"), b = real(call, 1, "x2");
  const int64_t m = call.value(a).elements(), n = call.value(b).elements();
  call.outputs = {call.emit(Op::kMul, {call.reshape(a, {m, 1}), call.reshape(b, {1, n})})};
}

// Sums over the last `axes` axes of x1 and the first of x2, or over those that two lists name.
void ops_tensordot(Call& call) {
  const ValueId a = operand(call, 0, "x1"), b = operand(call, 1, "x2");
  const Json* axes = call.find("axes");
  std::string left = letters(size_t(call.rank(a)), 'a'), right = letters(size_t(call.rank(b)), 'A'), result;
  const auto tie = [&](int64_t of_a, int64_t of_b) {
    right[size_t(call.axis(of_b, call.rank(b)))] = left[size_t(call.axis(of_a, call.rank(a)))];
  };
  if (axes == nullptr || axes->is_number()) {
    const int64_t count = call.integer("axes", 2);
    if (count < 0 || count > std::min(call.rank(a), call.rank(b))) call.bad("such axes");
    for (int64_t i = 0; i < count; ++i) tie(call.rank(a) - count + i, i);
  } else {
    const std::vector<int64_t> all = call.list("axes");
    for (size_t i = 0; i < all.size() / 2; ++i) tie(all[i], all[all.size() / 2 + i]);
  }
  for (const char label : left)
    if (right.find(label) == right.npos) result += label;
  for (const char label : right)
    if (left.find(label) == left.npos) result += label;
  call.outputs = {Einsum(call, {a, b}).run(left + "," + right + "->" + result)};
}

// Computes y <- y + y moved by s, s = 1, 2, 4 ..: after log2 n rounds y_i is the sum of x_0 to x_i.
void ops_cumsum(Call& call) {
  ValueId y = call.cast(only(call));
  if (!call.given("axis")) y = call.reshape(y, {call.value(y).elements()});
  const int axis = call.axis(call.integer("axis", 0), call.rank(y));
  const std::vector<int64_t> dims = call.dims(y);
  const int64_t count = dims[size_t(axis)];
  for (int64_t by = 1; by < count; by *= 2) {
    std::vector<int64_t> before(dims.size(), 0);
    before[size_t(axis)] = by;
    const ValueId moved = call.pad(call.slice(y, axis, 0, count - by), before, std::vector<int64_t>(dims.size(), 0));
    y = call.emit(Op::kAdd, {y, moved});
  }
  call.outputs = {y};
}

// Returns (sum |x|^p)^(1/p) over axes; the largest or least |x| if p is infinity or -infinity.
ValueId norm(const Call& call, ValueId x, const std::vector<int>& axes, float p, bool keep) {
  const ValueId size = call.unary(Unary::kAbs, x);
  if (p == 1) return call.reduce(Reduce::kSum, size, axes, keep);
  if (p == kInfinity) return call.reduce(Reduce::kMax, size, axes, keep);
  if (p == -kInfinity) return call.reduce(Reduce::kMin, size, axes, keep);
  if (p == 2) return call.unary(Unary::kSqrt, call.reduce(Reduce::kSum, call.unary(Unary::kSquare, x), axes, keep));
  const ValueId powers = call.binary(Binary::kPow, size, call.number(p));
  return call.binary(Binary::kPow, call.reduce(Reduce::kSum, powers, axes, keep), call.number(1 / p));
}

// Converts Norm: norms of vectors. Elements over several axes count as one vector.
void ops_norm(Call& call) {
  const ValueId x = call.cast(only(call));
  const std::vector<int> axes = axes_or_all(call, call.rank(x));
  const Json* order = call.find("ord");
  const bool whole = order == nullptr || (order->is_string() && *order == Json("fro"));
  if (!whole && (axes.size() != 1 || (order->is_string() && *order != Json("inf")))) call.unsupported("such an ord");
  const float p = whole ? 2 : order->is_string() ? kInfinity : order->get<float>();
  call.outputs = {norm(call, x, axes, p, call.flag("keepdims", false))};
}

// Converts Normalize: x / max(norm x, epsilon).
void ops_normalize(Call& call) {
  const ValueId x = call.cast(only(call));
  const float order = call.real("order", 2), epsilon = call.real("epsilon", 1e-12f);
  std::vector<int> axes;
  for (const int64_t a : call.list("axis")) axes.push_back(call.axis(a, call.rank(x)));
  if (axes.empty()) axes = {call.rank(x) - 1};
  const ValueId size = norm(call, x, axes, order, true);
  call.outputs = {call.binary(Binary::kDiv, x, call.binary(Binary::kMaximum, size, call.number(epsilon)))};
}

// Converts Moments: mean x and mean (x - mean x)^2 over the axes.
void ops_moments(Call& call) {
  const ValueId x = call.cast(only(call));
  std::vector<int> axes;
  for (const int64_t a : call.list("axes")) axes.push_back(call.axis(a, call.rank(x)));
  if (axes.empty() || call.flag("synchronized", false)) call.unsupported("such axes");
  const bool keep = call.flag("keepdims", false);
  const ValueId apart = call.emit(Op::kSub, {x, call.mean(x, axes, true)});
  call.outputs = {call.mean(x, axes, keep), call.mean(call.unary(Unary::kSquare, apart), axes, keep)};
}

constexpr Converter kSumFunctions[] = {
    {"Einsum", &ops_einsum}, {"Dot", &ops_dot<false>},      {"Inner", &ops_dot<true>},
    {"Outer", &ops_outer},   {"Tensordot", &ops_tensordot}, {"Cumsum", &ops_cumsum},
    {"Norm", &ops_norm},     {"Normalize", &ops_normalize}, {"Moments", &ops_moments},
};

}  // namespace

std::span<const Converter> sum_functions() { return kSumFunctions; }

}  // namespace nacre::tools::keras
