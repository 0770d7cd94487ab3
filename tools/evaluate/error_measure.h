// ErrorMeasure: how far values are from reference values, over any number of samples.
//
//   SQNR      10 log10(sum a^2 / sum (a - b)^2) dB: reference a, value b. Infinite if nothing differs.
//   largest   max |a - b|,   relative   max |a - b| / max |a|
//   cosine    sum a b / sqrt(sum a^2 sum b^2);  1 if both are all zeros, 0 if one is
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace nacre::tools {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();  // relative() if values are not finite

class ErrorMeasure {
 public:
  // `a` is the reference; both have equally many elements. Pairs with a value that is not finite stay out of the sums;
  // not_finite() counts them, unless both values are the same infinity or both are NaN.
  void add(std::span<const float> a, std::span<const float> b);
  void add(std::span<const double> a, std::span<const double> b);

  double sqnr_db() const;
  double largest() const { return largest_; }
  double relative() const;
  double cosine() const;
  uint64_t elements() const { return elements_; }
  uint64_t not_finite() const { return not_finite_; }
  bool equal() const { return largest_ == 0 && not_finite_ == 0; }

 private:
  void add_pair(double a, double b);

  double signal_ = 0, noise_ = 0, other_ = 0, product_ = 0;  // sums of a^2, (a - b)^2, b^2, a b
  double largest_ = 0, peak_ = 0;                            // max |a - b|, max |a|
  uint64_t elements_ = 0, not_finite_ = 0;
};

}  // namespace nacre::tools
