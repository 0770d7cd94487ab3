#include "tools/evaluate/error_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nacre::tools {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

void ErrorMeasure::add_pair(double a, double b) {
  ++elements_;
  if (!std::isfinite(a) || !std::isfinite(b)) {
    not_finite_ += same(a, b) ? 0 : 1;
    return;
  }
  const double difference = std::abs(a - b);
  signal_ += a * a;
  other_ += b * b;
  product_ += a * b;
  noise_ += difference * difference;
  largest_ = std::max(largest_, difference);
  peak_ = std::max(peak_, std::abs(a));
}

void ErrorMeasure::add(std::span<const float> a, std::span<const float> b) {
  for (size_t i = 0; i < a.size(); ++i) add_pair(double(a[i]), double(b[i]));
}

void ErrorMeasure::add(std::span<const double> a, std::span<const double> b) {
  for (size_t i = 0; i < a.size(); ++i) add_pair(a[i], b[i]);
}

double ErrorMeasure::sqnr_db() const {
  if (not_finite_ > 0) return -kInfinity;
  if (noise_ == 0) return kInfinity;
  return 10 * std::log10(signal_ / noise_);
}

double ErrorMeasure::relative() const {
  if (not_finite_ > 0) return kInfinity;
  if (largest_ == 0) return 0;
  return peak_ == 0 ? kInfinity : largest_ / peak_;
}

double ErrorMeasure::cosine() const {
  if (signal_ == 0 && other_ == 0) return 1;
  if (signal_ == 0 || other_ == 0) return 0;
  return std::clamp(product_ / std::sqrt(signal_ * other_), -1.0, 1.0);
}

}  // namespace nacre::tools
