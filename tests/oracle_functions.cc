// The oracle of the functions that an attribute names, computed with 64 bits of mantissa.
#include "engine/numeric/philox.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tests/oracle_problem.h"

namespace nacre::test {
namespace {

// Returns whether the function is exact for every real number: its results must then be equal to the bit.
bool is_exact(int function) {
  constexpr int kExact[] = {Unary::kAbs, Unary::kNeg, Unary::kFloor, Unary::kCeil, Unary::kRound, Unary::kSign};
  return std::find(std::begin(kExact), std::end(kExact), function) != std::end(kExact);
}

Real function_of(int function, Real x, Real alpha, Real gamma) {
  switch (function) {
    case Unary::kExp: return std::exp(x);
    case Unary::kLog: return std::log(x);
    case Unary::kSqrt: return std::sqrt(x);
    case Unary::kRsqrt: return std::pow(x, Real(-0.5));
    case Unary::kReciprocal: return 1 / x;
    case Unary::kAbs: return std::max(x, -x);
    case Unary::kNeg: return 0 - x;
    case Unary::kFloor: return std::trunc(x) - (x < std::trunc(x) ? 1 : 0);
    case Unary::kCeil: return std::trunc(x) + (x > std::trunc(x) ? 1 : 0);
    case Unary::kRound: return x - std::remainder(x, Real(1));  // remainder() takes the nearest integer, half to even
    case Unary::kSign: return Real(int(x > 0) - int(x < 0));
    case Unary::kSquare: return x * x;
    case Unary::kSoftplus: return std::log1p(std::exp(x));  // |x| is at most 10
    case Unary::kElu: return x > 0 ? x : alpha * std::expm1(x);
    case Unary::kSelu: return gamma * (x > 0 ? x : alpha * std::expm1(x));
    case Unary::kErf: return std::erf(x);
    case Unary::kSoftsign: return x / (1 + std::abs(x));
    case Unary::kSin: return std::sin(x);
    default: return std::cos(x);
  }
}

// Results for whole numbers |a|, |b| <= 40: by arithmetic on reals, or bit by bit for functions of bits.
int64_t function_of_whole(int function, int64_t a, int64_t b, int bits) {
  const auto of_bits = [&](auto f) {
    int64_t y = 0;
    for (int i = 0; i < bits; ++i) y |= int64_t(f(a >> i & 1, b >> i & 1) ? uint64_t{1} << i : 0);
    return y;
  };
  const bool shifts = b >= 0 && b < bits;
  const Real quotient = b == 0 ? 0 : Real(a) / Real(b);
  switch (function) {
    case Binary::kDiv: return int64_t(std::trunc(quotient));
    case Binary::kPow: {
      uint64_t y = 1;
      for (int64_t i = 0; i < b; ++i) y *= uint64_t(a);
      return b >= 0 ? int64_t(y) : a == 0 ? 0 : int64_t(std::trunc(std::pow(Real(a), Real(b))));
    }
    case Binary::kMaximum: return std::max(a, b);
    case Binary::kMinimum: return std::min(a, b);
    case Binary::kSquaredDifference: return (a - b) * (a - b);
    case Binary::kFloorDiv: return int64_t(std::floor(quotient));
    case Binary::kAnd: return of_bits([](int64_t u, int64_t v) { return u != 0 && v != 0; });
    case Binary::kOr: return of_bits([](int64_t u, int64_t v) { return u != 0 || v != 0; });
    case Binary::kXor: return of_bits([](int64_t u, int64_t v) { return u != v; });
    case Binary::kShiftLeft: {
      uint64_t y = uint64_t(a);
      for (int64_t i = 0; i < b; ++i) y *= 2;
      return shifts ? int64_t(y) : 0;
    }
    default: {
      uint64_t y = bits == 32 ? uint32_t(a) : uint64_t(a);
      for (int64_t i = 0; i < b; ++i) y /= 2;
      return shifts ? int64_t(y) : 0;
    }
  }
}

}  // namespace

// At most one function of <cmath> (2 epsilon: 1 ulp is up to an epsilon) and two more operations of half an epsilon,
// each of a result whose relative error is no larger than that of its terms. softplus adds two positive terms, the
// second of two functions and an argument off by an epsilon: 6 epsilon in all.
std::vector<Expected> unary(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const Real x = p.in[0].real(offset(p.in[0].dims, index));
    const Real y = function_of(p.word(0), x, p.real_word(1), p.real_word(2));
    if (is_exact(p.word(0))) return {double(y), 0};
    return stored(p, y, 6 * p.epsilon() * std::abs(y));
  })};
}

// Takes the top bits of each Philox word as a fraction, which is exact.
std::vector<Expected> uniform(const Problem& p) {
  const ElementType type = p.output();
  const int bits = type == ElementType::kBfloat16  ? 8
                   : type == ElementType::kFloat16 ? 11
                   : type == ElementType::kFloat32 ? 24
                                                   : 32;
  const PhiloxKey seed = {p.words[0], p.words[1]};
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const auto e = uint32_t(offset(p.in[0].dims, index));
    const uint32_t word = philox({e / 4, p.words[2], uint32_t(p.in[1].integer(0)), 0}, seed)[e % 4];
    return {std::ldexp(std::floor(std::ldexp(double(word), bits - 32)), -bits), 0};
  })};
}

// Results of the binary functions. Division is one operation (0.5 epsilon); pow is a function of <cmath> (2 epsilon).
// squared_difference is two operations, and the error of the first is squared too (2 epsilon). floor_div is exact:
// the floor of the quotient as the accumulator holds it. Results for integers are exact.
std::vector<Expected> binary(const Problem& p) {
  Index a = p.in[0].dims, b = p.in[1].dims, dims;
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) dims.push_back(std::max(a[i], b[i]));
  const bool is_double = p.in[0].element == ElementType::kFloat64, narrow = p.output() == ElementType::kInt32;
  return {expect(dims, [&](const Index& index) -> Result {
    if (narrow || p.output() == ElementType::kInt64) {
      const int64_t a_i = p.in[0].integer(broadcast_offset(p.in[0].dims, index)),
                    b_j = p.in[1].integer(broadcast_offset(p.in[1].dims, index)),
                    y = function_of_whole(p.word(0), a_i, b_j, narrow ? 32 : 64);
      return {double(narrow ? int32_t(y) : y), 0};
    }
    const Real u = p.in[0].real(broadcast_offset(p.in[0].dims, index)),
               v = p.in[1].real(broadcast_offset(p.in[1].dims, index));
    const auto within = [&](Real y, Real epsilons) { return stored(p, y, epsilons * p.epsilon() * std::abs(y)); };
    switch (p.word(0)) {
      case Binary::kDiv: return within(u / v, 0.5);
      case Binary::kPow: return within(std::pow(u, v), 2);
      case Binary::kMaximum: return {double(std::max(u, v)), 0};
      case Binary::kMinimum: return {double(std::min(u, v)), 0};
      case Binary::kSquaredDifference: return within((u - v) * (u - v), 2);
      default: {
        const double quotient = is_double ? double(u) / double(v) : round_to(ElementType::kFloat32, u / v);
        return {std::floor(quotient), 0};
      }
    }
  })};
}

// A sum of n terms errs by at most n epsilon of the sum of magnitudes, a product by n epsilon of itself.
std::vector<Expected> reduce(const Problem& p) {
  const Index& x = p.in[0].dims;
  Index kept, dims;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool reduced = (p.word(1) >> i & 1) != 0;
    kept.push_back(reduced ? 1 : x[i]);
    if (!reduced || p.word(2) != 0) dims.push_back(kept.back());
  }
  std::vector<std::vector<Real>> terms(size_t(count_of(kept)));
  for (int64_t e = 0; e < count_of(x); ++e)
    terms[size_t(broadcast_offset(kept, index_of(x, e)))].push_back(p.in[0].real(e));
  return {expect(dims, [&](const Index& index) -> Result {
    const std::vector<Real>& of = terms[size_t(offset(dims, index))];
    if (p.word(0) == Reduce::kMax) return {double(*std::max_element(of.begin(), of.end())), 0};
    if (p.word(0) == Reduce::kMin) return {double(*std::min_element(of.begin(), of.end())), 0};
    const bool product = p.word(0) == Reduce::kProd;
    Real y = product ? 1 : 0, magnitude = y;
    for (const Real v : of) {
      y = product ? y * v : y + v;
      magnitude = product ? std::abs(y) : magnitude + std::abs(v);
    }
    return stored(p, y, Real(of.size()) * p.epsilon() * magnitude);
  })};
}

// Searches from the last element to the first, or in the other direction if the last of equal elements is wanted.
std::vector<Expected> arg_max(const Problem& p) {
  const auto axis = size_t(p.word(0));
  const bool keep = p.word(1) != 0, minimum = p.word(2) != 0, last = p.word(3) != 0;
  Index dims = p.in[0].dims;
  if (keep) dims[axis] = 1;
  else dims.erase(dims.begin() + long(axis));
  return {expect(dims, [&](Index index) -> Result {
    if (!keep) index.insert(index.begin() + long(axis), 0);
    const int width = p.in[0].dims[axis];
    int best = -1;
    double most = 0;
    for (int k = 0; k < width; ++k) {
      const int j = last ? k : width - 1 - k;
      index[axis] = j;
      const double v = p.in[0].real(offset(p.in[0].dims, index)) * (minimum ? -1 : 1);
      if (best < 0 || v >= most) best = j, most = v;
    }
    return {double(best), 0};
  })};
}

// x - m is within half an epsilon of itself, so a term of the sum of n is within epsilon (|x - m| + 2) of itself, and
// the sum within n more. The sum's logarithm errs by as much and is rounded, and so is the difference.
std::vector<Expected> log_softmax(const Problem& p) {
  const auto axis = size_t(p.word(0));
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    Index other = index;
    Real peak = -INFINITY, sum = 0, furthest = 0;
    const int width = p.in[0].dims[axis];
    const auto at = [&](int j) {
      other[axis] = j;
      return Real(p.in[0].real(offset(p.in[0].dims, other)));
    };
    for (int j = 0; j < width; ++j) peak = std::max(peak, at(j));
    for (int j = 0; j < width; ++j) sum += std::exp(at(j) - peak), furthest = std::max(furthest, peak - at(j));
    const Real difference = at(index[axis]) - peak, y = difference - std::log(sum);
    return stored(p, y, p.epsilon() * (furthest + width + 2 + std::log(sum) + std::abs(difference) + std::abs(y)));
  })};
}

}  // namespace nacre::test
