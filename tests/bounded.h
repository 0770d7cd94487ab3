// A number and a bound on the error of the kernel's value. Each operation carries its operands' bounds on and adds
// an epsilon of the result: rounding errs by half of it, the rest covers products of two errors. Functions that err
// by more than the last place add 2 or 3 epsilons.
#pragma once

#include <cfloat>
#include <cmath>
#include <vector>

#include "tests/oracle_problem.h"

namespace nacre::test {

struct Bounded {
  Real v = 0, error = 0;
};

inline Bounded exact(Real v) { return {v, std::abs(v) * kEpsilon / 2}; }  // a constant that is rounded to float32
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

// Returns the sum. Its bound holds for any order of the terms: no partial sum exceeds the sum of the magnitudes.
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

// number() returns element i of the operand in `slot`, count() how many elements that operand has.
inline Bounded number(const Problem& p, int slot, int64_t i) { return {p.in[size_t(slot)].real(i), 0}; }
inline int64_t count(const Problem& p, int slot) { return p.in[size_t(slot)].elements(); }

// Returns for each element of x the sum of term(i, index) over those elements i of operand 0 to which it was broadcast.
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
