// Computes in long double what losses and gradients should give: of elementwise functions, softmax, norms and losses.
#include <algorithm>
#include <numbers>

#include "engine/ops/binary.h"
#include "engine/ops/fake_quantize.h"
#include "engine/ops/loss.h"
#include "engine/ops/unary.h"
#include "tests/op_rows.h"

namespace nacre::test::bounds {

Lists sum_to(const Problem& p, const Index& x) {
  const bool negative = p.words.back() != 0;
  return repeated(p, x, [&](int64_t i, const Index&) { return negative ? -number(p, 0, i) : number(p, 0, i); });
}
Lists mul(const Problem& p, const Index& x) {
  return repeated(p, x, [&](int64_t i, const Index& index) {
    return number(p, 0, i) * number(p, 1, broadcast_offset(p.in[1].dims, index));
  });
}
Lists binary(const Problem& p, const Index& x) {
  const bool second = p.word(1) != 0;
  return repeated(p, x, [&](int64_t i, const Index& index) {
    const Bounded d = number(p, 0, i), a = number(p, 1, broadcast_offset(p.in[1].dims, index)),
                  b = number(p, 2, broadcast_offset(p.in[2].dims, index));
    switch (p.word(0)) {
      case Binary::kDiv: return d * (second ? -a / (b * b) : exact(1) / b);
      case Binary::kPow:
        if (second) return a.v <= 0 ? Bounded() : d * exact(std::pow(a.v, b.v) * std::log(a.v));
        return b.v == 0 ? Bounded() : d * exact(b.v * std::pow(a.v, b.v - 1));
      case Binary::kMaximum: return (a.v >= b.v) != second ? d : Bounded();
      case Binary::kMinimum: return (a.v <= b.v) != second ? d : Bounded();
      case Binary::kSquaredDifference: return d * (exact(second ? -2 : 2) * (a - b));
      default: return Bounded();
    }
  });
}

// ---- Functions of one number

template <class F>
static Lists each_pair(const Problem& p, F f) {
  List all;
  for (int64_t i = 0; i < count(p, 0); ++i) all.push_back(f(number(p, 0, i), number(p, 1, i)));
  return {all};
}

static Bounded logistic(Bounded v) { return exact(1) / (exact(1) + exp(-v)); }

Lists gelu(const Problem& p, const Index&) {
  constexpr Real kPi = std::numbers::pi_v<Real>;
  return each_pair(p, [&](Bounded x, Bounded d) {
    if (p.word(0) == 0) {  // the gate's error is that of gated() in oracle_layers.cc
      const Real phi = std::erfc(-x.v / std::sqrt(Real(2))) / 2;
      const Bounded gate = {phi, kEpsilon * (x.v * x.v + 5) * phi};
      return d * (gate + x * exp(-(x * x) / exact(2)) * exact(1 / std::sqrt(2 * kPi)));
    }
    const Bounded slope = exact(2 * std::sqrt(2 / kPi)), cubic = exact(Real(0.044715));
    const Bounded gate = logistic(slope * x * (exact(1) + cubic * x * x));
    return d * (gate + x * (gate * (exact(1) - gate)) * slope * (exact(1) + exact(3) * cubic * x * x));
  });
}
Lists silu(const Problem& p, const Index&) {
  return each_pair(p, [](Bounded x, Bounded d) {
    const Bounded s = logistic(x);
    return d * s * (exact(1) + x * (exact(1) - s));
  });
}
Lists unary(const Problem& p, const Index&) {
  const Bounded alpha = exact(p.real_word(1)), gamma = exact(p.real_word(2));
  return each_pair(p, [&](Bounded d, Bounded v) {
    const auto elu = [&] { return v.v > 0 ? d : alpha * exp(v) * d; };
    const Bounded far = exact(1) + exact(std::abs(v.v));
    switch (p.word(0)) {
      case Unary::kExp: return d * exp(v);
      case Unary::kLog: return d / v;
      case Unary::kSqrt: return d / (exact(2) * sqrt(v));
      case Unary::kRsqrt: return -d / (exact(2) * v * sqrt(v));
      case Unary::kReciprocal: return -d / (v * v);
      case Unary::kAbs: return v.v > 0 ? d : v.v < 0 ? -d : exact(0);
      case Unary::kNeg: return -d;
      case Unary::kSquare: return exact(2) * v * d;
      case Unary::kSoftplus: return d * logistic(v);
      case Unary::kElu: return elu();
      case Unary::kSelu: return gamma * elu();
      case Unary::kErf: return d * exact(2 * std::numbers::inv_sqrtpi_v<Real>) * exp(-(v * v));
      case Unary::kSoftsign: return d / (far * far);
      case Unary::kSin: return d * exact(std::cos(v.v));
      case Unary::kCos: return -d * exact(std::sin(v.v));
      default: return exact(0);
    }
  });
}

// ---- Functions of rows

// Calls row(index of the first element, step, count, to) for each row of operand 0 along `axis`. Returns `to`, which
// has an element for each element of operand 0.
template <class F>
static Lists each_row(const Problem& p, size_t axis, F row) {
  const Index& dims = p.in[0].dims;
  int64_t step = 1;
  for (size_t i = axis + 1; i < dims.size(); ++i) step *= dims[i];
  List to(size_t(count(p, 0)));
  for (int64_t i = 0; i < count(p, 0); ++i)
    if (i / step % dims[axis] == 0) row(i, step, dims[axis], to);
  return {to};
}

Lists softmax(const Problem& p, const Index&) {
  const bool logarithm = p.entry.op == Op::kLogSoftmaxGradient;
  return each_row(p, size_t(p.word(0)), [&](int64_t first, int64_t step, int n, List& to) {
    List terms;
    for (int64_t i = first; i < first + step * n; i += step)
      terms.push_back(logarithm ? number(p, 0, i) : number(p, 0, i) * number(p, 1, i));
    const Bounded sum = total(terms);
    for (int64_t i = first; i < first + step * n; i += step) {
      const Bounded d = number(p, 0, i), y = number(p, 1, i);
      to[size_t(i)] = logarithm ? d - exp(y) * sum : exact(p.real_word(1)) * y * (d - sum);
    }
  });
}

namespace {
struct NormRow {
  List h;
  Bounded inverse;
};
NormRow norm_row(const Problem& p, int64_t first, int n) {
  List x, squares;
  for (int64_t i = first; i < first + n; ++i) x.push_back(number(p, 0, i));
  const Bounded mean = total(x) / exact(n);
  NormRow row;
  for (const Bounded& v : x) {
    const Bounded d = v - mean;
    squares.push_back({d.v * d.v, (2 * std::abs(d.v) + d.error) * d.error + kEpsilon * d.v * d.v});
  }
  row.inverse = exact(1) / sqrt(total(squares) / exact(n) + exact(p.real_word(0)));
  for (const Bounded& v : x) row.h.push_back((v - mean) * row.inverse);
  return row;
}
}  // namespace
Lists layer_norm_x(const Problem& p, const Index&) {
  return each_row(p, p.in[0].dims.size() - 1, [&](int64_t first, int64_t, int n, List& to) {
    const NormRow row = norm_row(p, first, n);
    List g, projected;
    for (int j = 0; j < n; ++j) {
      const Bounded d = number(p, 2, first + j);
      g.push_back(p.has(1) ? d * number(p, 1, j) : d);
      projected.push_back(g.back() * row.h[size_t(j)]);
    }
    const Bounded sum = total(g) / exact(n), projection = total(projected) / exact(n);
    for (size_t j = 0; j < size_t(n); ++j) to[size_t(first) + j] = row.inverse * (g[j] - sum - row.h[j] * projection);
  });
}
Lists layer_norm_scale(const Problem& p, const Index&) {
  const int n = p.in[0].dims.back();
  Lists terms(static_cast<size_t>(n));
  for (int j = 0; j < n; ++j) terms[size_t(j)].push_back(number(p, 2, j));
  for (int64_t first = 0; first < count(p, 0); first += n) {
    const NormRow row = norm_row(p, first, n);
    for (int j = 0; j < n; ++j) terms[size_t(j)].push_back(number(p, 1, first + j) * row.h[size_t(j)]);
  }
  List sums;
  for (const List& list : terms) sums.push_back(total(list));
  return {sums};
}

// ---- Losses

// Returns the target probabilities of a row's classes, or {} if the row's label is the one to ignore.
static List shares(const Problem& p, int64_t row, int classes) {
  const bool labels = p.in[1].element == ElementType::kInt32;
  const Bounded s = exact(p.real_word(CrossEntropy::kSmoothing)), rest = s / exact(classes);
  if (labels && p.word(CrossEntropy::kIgnore) != 0 && p.in[1].integer(row) == p.word(CrossEntropy::kIgnoreIndex))
    return {};
  List q;
  for (int k = 0; k < classes; ++k)
    if (labels) q.push_back(p.in[1].integer(row) == k ? exact(1) - s + rest : rest);
    else q.push_back((exact(1) - s) * number(p, 1, row * classes + k) + rest);
  return q;
}
Lists cross_entropy(const Problem& p, const Index&) {
  const int classes = p.in[0].dims.back();
  const bool labels = p.in[1].element == ElementType::kInt32, loss = p.in.size() == 4;
  List losses, gradient;
  for (int64_t r = 0; r * classes < count(p, 0); ++r) {
    List x, powers, terms;
    for (int k = 0; k < classes; ++k) x.push_back(number(p, 0, r * classes + k));
    const Bounded peak = *std::max_element(x.begin(), x.end(), [](auto& a, auto& b) { return a.v < b.v; });
    for (const Bounded& v : x) powers.push_back(exp(v - peak));
    const List q = shares(p, r, classes);
    const Bounded sum = total(powers), all = labels ? exact(1) : total(q);
    for (size_t k = 0; k < x.size(); ++k) {
      gradient.push_back(q.empty() ? exact(0) : number(p, 2, 0) * (all * powers[k] / sum - q[k]));
      if (!q.empty()) terms.push_back(q[k] * (x[k] - peak));
    }
    if (!q.empty()) losses.push_back(all * log(sum) - total(terms));
  }
  if (!loss) return {gradient};
  return {{total(losses) + number(p, 2, 0)}, {exact(p.in[3].real(0) + double(losses.size()))}};
}

Lists number_loss(const Problem& p, const Index&) {
  const bool loss = p.in.size() == 4;
  const int64_t rows = p.in[0].dims[0], width = count(p, 0) / rows;
  const Bounded delta = exact(p.real_word(0));
  List losses, gradient;
  for (int64_t r = 0; r < rows; ++r) {
    List values;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const Bounded y = number(p, 0, i), t = number(p, 1, i), d = y - t, size = {std::abs(d.v), d.error};
      Bounded value, slope;
      switch (p.entry.op) {
        case Op::kSigmoidCrossEntropy:
        case Op::kSigmoidCrossEntropyGradient:
          value = exact(std::max<Real>(y.v, 0)) - y * t + log1p(exp(exact(-std::abs(y.v))));
          slope = logistic(y) - t;
          break;
        case Op::kSquaredError:
        case Op::kSquaredErrorGradient: value = d * d, slope = exact(2) * d; break;
        case Op::kAbsoluteError:
        case Op::kAbsoluteErrorGradient: value = size, slope = exact(d.v > 0 ? 1 : d.v < 0 ? -1 : 0); break;
        default:  // Huber, whose slope is d, clamped to [-delta, delta]
          value = size.v > delta.v ? delta * (size - delta / exact(2)) : d * d / exact(2);
          slope = {std::clamp(d.v, -delta.v, delta.v), d.error};
      }
      values.push_back(value);
      gradient.push_back(number(p, 2, 0) / exact(Real(width)) * slope);
    }
    losses.push_back(total(values) / exact(Real(width)));
  }
  if (!loss) return {gradient};
  return {{total(losses) + number(p, 2, 0)}, {exact(p.in[3].real(0) + double(rows))}};
}

Lists fake_quantize_range(const Problem& p, const Index&) {
  const float ends[] = {float(p.in[2].real(0)), float(p.in[2].real(1))};
  const NudgedRange nudged = NudgedRange::from(ends);
  List low = {number(p, 3, 0)}, high = {number(p, 3, 1)};
  for (int64_t i = 0; i < count(p, 0) && !nudged.none; ++i) {
    if (p.in[1].real(i) < double(nudged.low)) low.push_back(number(p, 0, i));
    if (p.in[1].real(i) > double(nudged.high)) high.push_back(number(p, 0, i));
  }
  return {{total(low), total(high)}};
}

}  // namespace nacre::test::bounds
