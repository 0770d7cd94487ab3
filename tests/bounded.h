// A number and a bound on the error of the kernel's value. Each operation carries the bound on to first order and
// rounds by half an epsilon; functions err by two of their last places. A whole epsilon is added, which also covers
// products of two errors.
#pragma once

#include <cfloat>
#include <cmath>
#include <vector>

#include "tests/oracle_problem.h"

namespace nacre::test {

struct Bounded {
  Real v = 0, error = 0;
};

inline Bounded exact(Real v) { return {v, std::abs(v) * kEpsilon / 2}; }  // as a constant in float32
inline Bounded rounded(Real v, Real error, Real ulps = 1) { return {v, error + ulps * Real(kEpsilon) * std::abs(v)}; }

inline Bounded operator-(Bounded a) { return {-a.v, a.error}; }
inline Bounded operator+(Bounded a, Bounded b) { return rounded(a.v + b.v, a.error + b.error); }
inline Bounded operator-(Bounded a, Bounded b) { return rounded(a.v - b.v, a.error + b.error); }
inline Bounded operator*(Bounded a, Bounded b) {
  return rounded(a.v * b.v, std::abs(a.v) * b.error + std::abs(b.v) * a.error + a.error * b.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
  const Real v = a.v / b.v;
  return rounded(v, (a.error + std::abs(v) * b.error) / (std::abs(b.v) - b.error));
}
inline Bounded sqrt(Bounded a) { return rounded(std::sqrt(a.v), a.v > 0 ? std::sqrt(a.v) * a.error / a.v : 0); }
inline Bounded exp(Bounded a) { return rounded(std::exp(a.v), std::exp(a.v) * std::expm1(a.error), 2); }
inline Bounded log(Bounded a) { return rounded(std::log(a.v), a.error / (a.v - a.error), 2); }
inline Bounded log1p(Bounded a) { return rounded(std::log1p(a.v), a.error / (1 + a.v - a.error), 3); }

using List = std::vector<Bounded>;
using Lists = std::vector<List>;  // of a step: one per output, then one per updated operand

// Sums in any order: no partial sum exceeds the sum of the magnitudes.
inline Bounded total(const List& terms) {
  Bounded sum;
  Real magnitude = 0;
  for (const Bounded& term : terms) {
    sum.v += term.v;
    sum.error += term.error;
    magnitude += std::abs(term.v) + term.error;
  }
  sum.error += Real(kEpsilon) / 2 * Real(terms.size()) * magnitude;
  return sum;
}

// Return element i of an operand, and the number of its elements.
inline Bounded number(const Problem& p, int slot, int64_t i) { return {p.in[size_t(slot)].real(i), 0}; }
inline int64_t count(const Problem& p, int slot) { return p.in[size_t(slot)].elements(); }

// ---- Sums over the axes along which x was repeated: term(i, index) of element i of y.
template <class F>
Lists repeated(const Problem& p, const Index& x, F term) {
  const Index& y = p.in[0].dims;
  Lists terms(size_t(count_of(x)));
  for (int64_t i = 0; i < count_of(y); ++i) {
    const Index index = index_of(y, i);
    terms[size_t(broadcast_offset(x, index))].push_back(term(i, index));
  }
  List sums;
  for (const List& list : terms) sums.push_back(total(list));
  return {sums};
}

}  // namespace nacre::test
