// The oracle of gelu, silu, norms, embedding, trees, non_max_suppression, batched_matmul, recurrent layers and svdf.
#include <numbers>

#include "tests/oracle_fixed_point.h"
#include "tests/oracle_problem.h"

namespace nacre::test {

// The oracle of gelu and silu. The factor 1/2 erfc(-x c) and the product each err by half an epsilon, and z erfc'(z)
// / erfc(z) is at most 2 z^2 + 1 = x^2 + 1 in size. The exponent of the other gates errs by four operations.
std::vector<Expected> gated(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const Real x = p.in[0].real(offset(p.in[0].dims, index));
    Real y = 0, error = 0;
    if (p.entry.op == Op::kGelu && p.word(0) == 0) {
      y = x / 2 * std::erfc(-x / std::sqrt(Real(2)));
      error = x * x + 5;
    } else {
      const Real u =
          p.entry.op == Op::kSilu ? x : 2 * std::sqrt(2 / std::numbers::pi_v<Real>) * (x + Real(0.044715) * x * x * x);
      y = x / (1 + std::exp(-u));
      error = 4 * std::abs(u) + 4;
    }
    const Real smallest = p.in[0].element == ElementType::kFloat64 ? DBL_MIN : FLT_MIN;  // below it digits go
    return stored(p, y, p.epsilon() * (error * std::abs(y) + smallest));
  })};
}

// Let M = max |x| of the row of n. The mean errs by n epsilon M, so x - mean by d = (n + 1) epsilon M. A variance v +
// e errs by 2 sqrt(v) d + d^2 + n epsilon v, and its inverse root s, relatively, by half of that over v + e.
std::vector<Expected> layer_norm(const Problem& p) {
  const Index& dims = p.in[0].dims;
  return {expect(dims, [&](Index index) -> Result {
    const int j = index.back(), n = dims.back();
    std::vector<Real> x;
    for (index.back() = 0; index.back() < n; ++index.back()) x.push_back(p.in[0].real(offset(dims, index)));
    const Real mean = std::accumulate(x.begin(), x.end(), Real(0)) / n;
    Real variance = 0, most = 0;
    for (const Real v : x) {
      variance += (v - mean) * (v - mean) / n;
      most = std::max(most, std::abs(v));
    }
    const Real power = variance + p.real_word(0), s = 1 / std::sqrt(power), h = (x[size_t(j)] - mean) * s;
    const Real d = (n + 1) * p.epsilon() * most;
    const Real relative =
        (2 * std::sqrt(variance) * d + d * d + (n + 2) * p.epsilon() * variance) / (2 * power) + 4 * p.epsilon();
    const Real scale = p.has(1) ? p.in[1].real(j) : 1, bias = p.has(2) ? p.in[2].real(j) : 0;
    const Real error = (std::abs(h) * relative + d * s) * std::abs(scale);
    return stored(p, h * scale + bias, error + 2 * p.epsilon() * (std::abs(h * scale) + std::abs(bias)));
  })};
}

std::vector<Expected> embedding(const Problem& p) {
  Index dims = p.in[1].dims;
  dims.push_back(p.in[0].dims[1]);
  return {expect(dims, [&](const Index& index) -> Result {
    const int64_t id = p.in[1].integer(offset(p.in[1].dims, Index(index.begin(), index.end() - 1))),
                  n = p.in[0].dims[0];
    return {p.in[0].real((id + n) % n * p.in[0].dims[1] + index.back()), 0};
  })};
}

namespace {

// Adds each target's weights in the leaf to which a tree leads row r of x.
void add_leaf(const Problem& p, int64_t r, int64_t at, std::vector<std::vector<Real>>& weights) {
  const int64_t features = p.in[0].dims.back(), targets = p.word(0);
  while (at >= 0) {
    const int64_t node = p.in[1].integer(3 * at);
    const double v = p.in[0].real(r * features + node / 16), t = p.in[2].real(at);
    const int found = std::isnan(v) || std::isnan(t) ? 8 : v < t ? 1 : v > t ? 4 : 2;
    at = p.in[1].integer(3 * at + ((node & found) != 0 ? 1 : 2));
  }
  for (int64_t e = -1 - at, n = 0; n < targets && e < p.in[4].dims[0]; ++e, ++n) {
    weights[size_t(p.in[4].integer(e) / 2)].push_back(p.in[5].real(e));
    if (p.in[4].integer(e) % 2 != 0) return;
  }
}

}  // namespace

// A compensated sum is within 2 roundings of the sum of magnitudes, plus second-order terms.
std::vector<Expected> tree_ensemble(const Problem& p) {
  Index dims = p.in[0].dims;
  dims.back() = p.word(0);
  return {expect(dims, [&](const Index& index) -> Result {
    std::vector<std::vector<Real>> weights(static_cast<size_t>(p.word(0)));
    const int64_t r = offset(dims, index) / p.word(0);
    for (int64_t t = 0; t < p.in[3].dims[0]; ++t) add_leaf(p, r, p.in[3].integer(t), weights);
    const std::vector<Real>& of = weights[size_t(index.back())];
    if (p.word(2) != 0 && of.empty()) return {0, 0};
    if (p.word(2) == 1) return {double(*std::min_element(of.begin(), of.end())), 0};
    if (p.word(2) == 2) return {double(*std::max_element(of.begin(), of.end())), 0};
    Real sum = 0, magnitude = 0;
    for (const Real w : of) sum += w, magnitude += std::abs(w);
    return stored(p, sum, p.epsilon() * magnitude * (1 + Real(of.size()) * p.epsilon()));
  })};
}

namespace {

// Returns the area that two boxes (y, x, y, x) share, divided by the area of their union.
Real shared_part(const Problem& p, int64_t i, int64_t j) {
  Real both = 1, of_i = 1, of_j = 1;
  for (int64_t axis = 0; axis < 2; ++axis) {
    const auto [i0, i1] = std::minmax({p.in[0].real(4 * i + axis), p.in[0].real(4 * i + axis + 2)});
    const auto [j0, j1] = std::minmax({p.in[0].real(4 * j + axis), p.in[0].real(4 * j + axis + 2)});
    both *= std::max<Real>(0, std::min<Real>(i1, j1) - std::max<Real>(i0, j0));
    of_i *= Real(i1) - Real(i0), of_j *= Real(j1) - Real(j0);
  }
  return of_i > 0 && of_j > 0 ? both / (of_i + of_j - both) : 0;
}

// Returns the score that box j of a list keeps beside the selected boxes, or -infinity if it drops out. `from` is the
// list's first box.
Real left_of(const Problem& p, Real score, int64_t from, int64_t j, const std::vector<int64_t>& selected) {
  const Real none = -std::numeric_limits<Real>::infinity(), sigma = p.real_word(3), least = p.real_word(2);
  const auto counts = [&] { return p.word(5) != 0 ? score >= least : score > least; };
  if (!counts()) return none;
  for (const int64_t i : selected) {
    const Real o = shared_part(p, from + i, from + j);
    if (i == j || (p.word(4) != 0 ? o >= p.real_word(1) : o > p.real_word(1))) return none;
    if (sigma > 0) score *= std::exp(-o * o / (2 * sigma));
    if (!counts()) return none;
  }
  return score;
}

}  // namespace

// One round of soft suppression costs 23 roundings of o^2 / (2 sigma), which is at most 2, one of exp and one of the
// product.
std::vector<Expected> non_max_suppression(const Problem& p) {
  const Index& dims = p.in[1].dims;
  const int64_t n = dims[2], lists = int64_t{dims[0]} * dims[1], rows = lists * p.word(0);
  std::vector<double> places, kept, tolerances;
  for (int64_t list = 0; list < lists; ++list) {
    std::vector<int64_t> selected;
    for (int64_t turn = 0; turn < p.word(0); ++turn) {
      Real best = -std::numeric_limits<Real>::infinity();
      int64_t at = -1;
      for (int64_t j = 0; j < n; ++j) {
        const Real s = left_of(p, p.in[1].real(list * n + j), list / dims[1] * n, j, selected);
        if (s > best) best = s, at = j;
      }
      if (at < 0) break;
      selected.push_back(at);
      places.push_back(double(list * n + at));
      kept.push_back(double(best));
      tolerances.push_back(p.real_word(3) > 0 ? double(25 * p.epsilon() * Real(turn) * std::abs(best)) : 0);
    }
  }
  const auto count = double(places.size());
  places.resize(size_t(rows), p.word(6)), kept.resize(size_t(rows)), tolerances.resize(size_t(rows));
  const Index all = {int32_t(rows)};
  return {{all, places, std::vector<double>(size_t(rows))}, {all, kept, tolerances}, {{1}, {count}, {0}}};
}

std::vector<Expected> batched_matmul(const Problem& p) {
  const Index &a = p.in[0].dims, &b = p.in[1].dims;
  const bool swap[] = {p.word(0) != 0, p.word(1) != 0};
  // Returns an operand's dims as they are multiplied. The next function returns its element at a broadcast index.
  const auto straight = [](Index dims, bool swapped) {
    if (swapped) std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return dims;
  };
  const auto element = [&](int which, Index index) {
    const Index stored_index = straight(index, swap[which]);
    return Real(p.in[size_t(which)].real(broadcast_offset(p.in[size_t(which)].dims, stored_index)));
  };
  const Index left = straight(a, swap[0]), right = straight(b, swap[1]);
  const size_t rank = std::max(a.size(), b.size());
  Index dims(rank, 1);
  for (size_t i = 0; i + 2 < rank; ++i)
    for (const Index* x : {&left, &right})
      if (i + x->size() >= rank) dims[i] = std::max(dims[i], (*x)[i + x->size() - rank]);
  dims[rank - 2] = left[left.size() - 2];
  dims[rank - 1] = right.back();
  return {expect(dims, [&](const Index& index) -> Result {
    Index i = index, j = index;
    Real sum = 0, magnitude = 0;
    for (int32_t k = 0; k < left.back(); ++k) {
      i[rank - 1] = j[rank - 2] = k;
      const Real product = (element(0, i) - p.word(2)) * (element(1, j) - p.word(3));
      sum += product;
      magnitude += std::abs(product);
    }
    if (p.output() == ElementType::kInt8) return saturated(p, scaled(p, 2, 0, int64_t(sum)) + p.word(4));
    if (p.output() == ElementType::kInt16)
      return saturated(p, exact_wide_multiply(int64_t(sum), p.in[2].integer(0), p.in[2].integer(1)));
    return stored(p, sum, p.epsilon() / 2 * Real(left.back() + 1) * magnitude);
  })};
}

namespace {

// A number and a bound on the error of the kernel's value, carried through every operation to first order. An
// operation uses half of its epsilon; the other half covers products of two errors.
struct Bounded {
  Real v = 0, error = 0;
};

class Recurrence {
 public:
  explicit Recurrence(const Problem& p) : p_(p), h(p.in[1].dims[1]), batch(p.in[0].dims[0]), time(p.in[0].dims[1]) {}

  Bounded sum(Bounded a, Bounded b) const { return rounded(a.v + b.v, a.error + b.error); }
  Bounded product(Bounded a, Bounded b) const {
    return rounded(a.v * b.v, std::abs(a.v) * b.error + std::abs(b.v) * a.error + a.error * b.error);
  }
  Bounded minus(Bounded a) const { return {-a.v, a.error}; }
  Bounded sigmoid(Bounded a) const {  // slope at most 1/4; exp, sum, quotient
    const Real y = 1 / (1 + std::exp(-a.v));
    return {y, a.error / 4 + 4 * p_.epsilon() * y};
  }
  Bounded tanh(Bounded a) const { return {std::tanh(a.v), a.error + 4 * p_.epsilon() * std::abs(std::tanh(a.v))}; }
  Bounded exact(const Array& x, int64_t i) const { return {x.real(i), 0}; }
  Bounded bias(int row) const { return p_.has(2) ? exact(p_.in[2], row) : Bounded(); }
  Bounded state(int slot, int n, int j) const {
    return p_.has(slot) ? exact(p_.in[size_t(slot)], n * h + j) : Bounded();
  }
  // Adds the error of storing `a` in the type of x, as the kernel does.
  Bounded kept(Bounded a) const {
    const auto [v, error] = stored(p_, a.v, a.error);
    return {a.v, error};
  }
  Bounded weighted(int row, const std::vector<Bounded>& y) const {
    Bounded total;
    for (int j = 0; j < h; ++j) total = sum(total, product(exact(p_.in[1], row * h + j), y[size_t(j)]));
    return total;
  }

  // Computes y_t = step(n, t, y_{t-1}) for all t.
  template <class F>
  std::vector<Expected> run(int h0, F step) const {
    Expected y = {{batch, time, h}, {}, {}};
    for (int n = 0; n < batch; ++n) {
      std::vector<Bounded> state_of;
      state_of.resize(size_t(h));
      for (int j = 0; j < h; ++j) state_of[size_t(j)] = state(h0, n, j);
      for (int t = 0; t < time; ++t) {
        state_of = step(n, t, state_of);
        for (Bounded& v : state_of) {
          v = kept(v);
          y.value.push_back(double(v.v));
          y.tolerance.push_back(double(v.error));
        }
      }
    }
    return {y};
  }

 private:
  Bounded rounded(Real v, Real error) const { return {v, error + p_.epsilon() * std::abs(v)}; }

  const Problem& p_;

 public:
  const int h, batch, time;
};

}  // namespace

std::vector<Expected> lstm(const Problem& p) {
  const Recurrence r(p);
  std::vector<std::vector<Bounded>> cells(size_t(r.batch), std::vector<Bounded>(size_t(r.h)));
  for (int n = 0; n < r.batch; ++n)
    for (int j = 0; j < r.h; ++j) cells[size_t(n)][size_t(j)] = r.state(4, n, j);
  return r.run(3, [&](int n, int t, const std::vector<Bounded>& before) {
    std::vector<Bounded> y;
    for (int j = 0; j < r.h; ++j) {
      const auto sum = [&](int gate) {
        const int row = gate * r.h + j;
        const Bounded x = r.exact(p.in[0], (n * r.time + t) * 4 * r.h + row);
        return r.sum(r.sum(x, r.weighted(row, before)), r.bias(row));
      };
      Bounded& c = cells[size_t(n)][size_t(j)];
      c = r.sum(r.product(r.sigmoid(sum(1)), c), r.product(r.sigmoid(sum(0)), r.tanh(sum(2))));
      if (const Real most = p.real_word(0); most > 0) c.v = std::clamp(c.v, -most, most);  // stream_lstm has this word
      y.push_back(r.product(r.sigmoid(sum(3)), r.tanh(c)));
    }
    return y;
  });
}

namespace {

// Largest errors of the functions of fixed_point_functions_16.h, in units of 2^-15. ops/streams_test.cc checks them.
constexpr Real kLogisticError = 7, kTanhError = 13;

// Computes one step of the integer LSTM. Everything but the functions is exact.
std::vector<Expected> integer_lstm(const Problem& p) {
  const int width = p.in[1].dims[1], h_zero = p.word(2), fraction = p.word(1);
  const auto wrapped = [](int64_t v) { return int64_t(int8_t(uint8_t(v))); };
  return {expect({p.in[0].dims[0], 1, width}, [&](const Index& index) -> Result {
    const int n = index[0], j = index[2];
    Bounded gate[4];  // in units of 2^-15
    for (int k = 0; k < 4; ++k) {
      const int row = k * width + j;
      int64_t sum = p.has(2) ? p.in[2].integer(row) : 0;
      for (int i = 0; i < width; ++i)
        sum += (wrapped(p.in[3].integer(n * width + i) + h_zero) - h_zero) * p.in[1].integer(row * width + i);
      const int64_t product = exact_multiply(Rounding::kDouble, sum, p.word(4 + 2 * k), p.word(5 + 2 * k));
      const int64_t a = p.in.size() > 5 ? std::clamp<int64_t>(product, -32768, 32767) : product;
      const Real v =
          std::ldexp(Real(std::clamp<int64_t>(a + p.in[0].integer(n * 4 * width + row), -32768, 32767)), -12);
      if (k == 2) gate[k] = {std::ldexp(std::tanh(v), 15), kTanhError};
      else gate[k] = {std::ldexp(1 / (1 + std::exp(-v)), 15), kLogisticError};
    }
    const Real c = Real(p.in[4].integer(n * width + j)), one = std::ldexp(Real(1), 15);
    const Real added = std::ldexp(gate[0].v * gate[2].v, fraction - 30);
    const Real error = std::abs(c) * kLogisticError / one + 1 +
                       std::ldexp(gate[0].v * kTanhError + std::abs(gate[2].v) * kLogisticError + 91, fraction - 30);
    const Real most = p.word(0) == 0 ? 32767 : p.word(0);
    const Real cell = std::clamp(gate[1].v * c / one + added, p.word(0) == 0 ? Real(-32768) : -most, most);
    const Real squashed = std::ldexp(std::tanh(std::ldexp(cell, -fraction)), 15);
    const Real off = kTanhError + std::ldexp(error, 15 - fraction);
    const Real m = std::ldexp(Real(p.word(12)), p.word(13) - 31), y = gate[3].v * squashed * m + p.word(3);
    const Real y_error = (gate[3].v * off + (std::abs(squashed) + off) * kLogisticError) * m + 1;
    return {double(std::clamp<Real>(y, -128, 127)), double(y_error)};
  })};
}

}  // namespace

std::vector<Expected> stream_lstm(const Problem& p) {
  return p.in[0].element == ElementType::kInt16 ? integer_lstm(p) : lstm(p);
}

std::vector<Expected> svdf(const Problem& p) {
  const int filters = p.in[1].dims[0], memory = p.in[1].dims[1], rank = p.word(0) + 1, zero = p.word(1);
  const ElementType type = p.in[0].element;
  const bool codes = p.entry.rounding == Rounding::kDouble;
  const auto past = [&](int64_t i) {  // an old input; codes less their zero point
    if (!codes) return Real(p.in[3].real(i));
    const int64_t code = p.in[3].integer(i) + zero;
    return Real((type == ElementType::kInt8 ? int64_t(int8_t(uint8_t(code))) : code) - zero);
  };
  return {expect({p.in[0].dims[0], filters / rank}, [&](const Index& index) -> Result {
    Real sum = p.has(2) ? p.in[2].real(index[1]) : 0, magnitude = std::abs(sum);
    for (int f = index[1] * rank; f < (index[1] + 1) * rank; ++f)
      for (int m = 0; m < memory; ++m) {
        const int64_t line = index[0] * filters + f;
        const Real s = m + 1 < memory ? past(line * memory + m + 1) : Real(p.in[0].real(line)) - (codes ? zero : 0);
        sum += s * p.in[1].real(f * memory + m);
        magnitude += std::abs(s * p.in[1].real(f * memory + m));
      }
    if (!codes) return stored(p, sum, p.epsilon() / 2 * (rank * memory + 1) * magnitude);
    return saturated(p, exact_multiply(Rounding::kDouble, int64_t(sum), p.word(3), p.word(4)) + p.word(2));
  })};
}

std::vector<Expected> gru(const Problem& p) {
  const Recurrence r(p);
  return r.run(3, [&](int n, int t, const std::vector<Bounded>& before) {
    const auto x = [&](int row) { return r.exact(p.in[0], (n * r.time + t) * 3 * r.h + row); };
    const auto gate = [&](int row) { return r.sigmoid(r.sum(r.sum(x(row), r.weighted(row, before)), r.bias(row))); };
    std::vector<Bounded> reset, y;
    for (int j = 0; j < r.h; ++j) reset.push_back(r.product(gate(r.h + j), before[size_t(j)]));
    for (int j = 0; j < r.h; ++j) {
      const int row = 2 * r.h + j;
      const Bounded inner = p.word(0) != 0 ? r.product(gate(r.h + j), r.sum(r.weighted(row, before), r.bias(row)))
                                           : r.sum(r.weighted(row, reset), r.bias(row));
      const Bounded z = gate(j), candidate = r.tanh(r.sum(x(row), inner));
      y.push_back(r.sum(r.product(r.sum({1, 0}, r.minus(z)), candidate), r.product(z, before[size_t(j)])));
    }
    return y;
  });
}

}  // namespace nacre::test
