#include "tools/calibration/statistics.h"

#include <algorithm>
#include <cmath>

namespace nacre::tools {

Range range_of(std::span<const float> x) {
  Range range = {x[0], x[0]};
  for (const float v : x) range = {std::min(range.low, v), std::max(range.high, v)};
  return range;
}

Histogram::Histogram(Range observed)
    : range_{std::min(observed.low, 0.0f), std::max(observed.high, 0.0f)},
      width_((double(range_.high) - double(range_.low)) / double(kBins - 1)),
      first_(width_ > 0 ? int64_t(std::floor(double(range_.low) / width_ + 0.5)) : 0), counts_(kBins) {}

void Histogram::add(std::span<const float> x) {
  const double inverse = width_ > 0 ? 1 / width_ : 0;
  for (const float v : x) {
    const int64_t bin = int64_t(std::floor(double(v) * inverse + 0.5)) - first_;
    ++counts_[size_t(std::clamp<int64_t>(bin, 0, int64_t(kBins) - 1))];
    zeros_ += v == 0 ? 1 : 0;
  }
}

Tails::Tails(double percentile, uint64_t count) {
  const auto cut = size_t(std::floor(double(count) * (100 - percentile) / 200));
  lowest_ = highest_ = Smallest(std::min(cut + 1, size_t(count)));
}

void Tails::add(std::span<const float> x) {
  for (const float v : x) {
    lowest_.add(v);
    highest_.add(-v);
  }
}

void Tails::Smallest::drop() {
  std::nth_element(held_.begin(), held_.begin() + ptrdiff_t(kept_) - 1, held_.end());
  held_.resize(kept_);
  bound_ = held_.back();
}

float Tails::Smallest::last() const {
  std::vector<float> all = held_;
  std::nth_element(all.begin(), all.begin() + ptrdiff_t(kept_) - 1, all.end());
  return all[kept_ - 1];
}

}  // namespace nacre::tools
