// Statistics that calibration keeps of one tensor's values. Memory does not grow with the data, except for Tails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace nacre::tools {

struct Range {
  float low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

// Returns the smallest and the largest element of x. x has at least one element, and all are finite.
Range range_of(std::span<const float> x);

// A histogram of 2048 bins over the range `observed` and 0. The centers are multiples of the width and include 0, so a
// value that is exactly 0 (a relu's output) is counted as 0:
//
//   width = (max - min) / 2047,   index(x) = floor(x / width + 1/2),   center = index width
class Histogram {
 public:
  static constexpr size_t kBins = 2048;

  Histogram() = default;
  explicit Histogram(Range observed);

  void add(std::span<const float> x);

  const std::vector<uint64_t>& counts() const { return counts_; }
  int64_t index(size_t bin) const { return first_ + int64_t(bin); }
  double center(size_t bin) const { return double(index(bin)) * width_; }
  double width() const { return width_; }    // 0 if every value was 0
  uint64_t zeros() const { return zeros_; }  // values that are exactly 0; they are also counted in their bin
  Range range() const { return range_; }     // the observed range, extended to 0

 private:
  Range range_;
  double width_ = 0;
  int64_t first_ = 0;
  uint64_t zeros_ = 0;
  std::vector<uint64_t> counts_;
};

// Keeps the cut + 1 smallest and the cut + 1 largest of many values, in up to 16 (cut + 1) bytes of numbers.
class Tails {
 public:
  Tails() = default;
  // Keeps the values outside the middle `percentile` percent of `count` values.
  Tails(double percentile, uint64_t count);

  void add(std::span<const float> x);
  float low() const { return lowest_.last(); }     // the (cut + 1)-th smallest
  float high() const { return -highest_.last(); }  // the (cut + 1)-th largest

 private:
  // Keeps the `kept` smallest of all values. Collects values, and drops the larger half if there are twice as many.
  class Smallest {
   public:
    explicit Smallest(size_t kept = 1) : kept_(kept) {}
    void add(float x) {
      if (x >= bound_) return;
      held_.push_back(x);
      if (held_.size() == 2 * kept_) drop();
    }
    float last() const;

   private:
    void drop();

    size_t kept_;
    float bound_ = std::numeric_limits<float>::infinity();  // the largest value kept at the last drop
    std::vector<float> held_;
  };

  Smallest lowest_, highest_;  // highest_ holds -x
};

}  // namespace nacre::tools
