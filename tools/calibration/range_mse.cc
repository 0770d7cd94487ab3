#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tools/calibration/quantizers.h"
#include "tools/calibration/range_method.h"

namespace nacre::tools {
namespace {

constexpr int kSteps = 128;  // each end has the candidates 0/128 to 128/128 of the observed end

// The bins that hold values, in order. sum0, sum1, sum2 sum n, n c, n c^2 over the bins before (c center, n count).
struct FilledBins {
  std::vector<double> center, count, sum0, sum1, sum2;

  explicit FilledBins(const Histogram& histogram) : sum0(1), sum1(1), sum2(1) {
    for (size_t i = 0; i < histogram.counts().size(); ++i) {
      if (histogram.counts()[i] == 0) continue;
      const double c = histogram.center(i), n = double(histogram.counts()[i]);
      center.push_back(c);
      count.push_back(n);
      sum0.push_back(sum0.back() + n);
      sum1.push_back(sum1.back() + n * c);
      sum2.push_back(sum2.back() + n * c * c);
    }
  }

  // Returns the sum over bins [first, last) of n (c - r)^2.
  double distance(size_t first, size_t last, double r) const {
    const double n = sum0[last] - sum0[first], s = sum1[last] - sum1[first], q = sum2[last] - sum2[first];
    return std::max(0.0, q - 2 * r * s + r * r * n);
  }

  size_t first_above(double x) const {
    return size_t(std::lower_bound(center.begin(), center.end(), x) - center.begin());
  }
};

// Returns the squared error of quantizing the bins with `range`, or a part of it once that exceeds `enough`.
double error_of(const FilledBins& bins, Range range, double enough) {
  const Quantizer quantizer = quantizer_of_range(range);
  const double scale = quantizer.scale[0], inverse = 1 / scale, zero = double(quantizer.zero[0]);
  const double low = scale * (-128 - zero), high = scale * (127 - zero);
  const size_t first = bins.first_above(low), last = std::max(first, bins.first_above(high));
  double error = bins.distance(0, first, low) + bins.distance(last, bins.center.size(), high);
  constexpr size_t kRun = 256;
  for (size_t i = first; i < last && error <= enough;) {
    for (const size_t end = std::min(last, i + kRun); i < end; ++i) {
      const double c = bins.center[i];
      const double code = double(int64_t((c - low) * inverse + 0.5));  // counted from -128, so the cast rounds down
      const double difference = c - (low + scale * code);
      error += bins.count[i] * difference * difference;
    }
  }
  return error;
}

}  // namespace

// Returns the pair of ends whose quantizer (quantizers.h) loses least. Each end is a multiple of 1/128 of the observed
// one:
//
//   (low, high) = argmin_{a, b in 0..128} sum_i n_i (c_i - real(code(c_i)))^2,   low = a min(0, min x) / 128,
//                                                                               high = b max(0, max x) / 128
//
// over bins of n_i values at c_i. All pairs with low < high are tried, as TensorFlow's HISTOGRAM_MSE_BRUTEFORCE does
// (mlir/quantization/tensorflow/calibrator/calibration_algorithm.py). If errors are equal, the pair with the larger a,
// then b, wins. Bins that saturate are summed at once, and a pair is given up once its error is too large.
Range mse_range(const Histogram& histogram) {
  const Range whole = histogram.range();
  const FilledBins bins(histogram);
  Range best = whole;
  double least = std::numeric_limits<double>::infinity();
  for (int a = kSteps; a >= 0; --a) {
    for (int b = kSteps; b >= 0; --b) {
      const Range range = {float(double(whole.low) * a / kSteps), float(double(whole.high) * b / kSteps)};
      if (range.low < range.high) {
        const double error = error_of(bins, range, least);
        if (error < least) best = range, least = error;
      }
      if (whole.high == 0) break;  // the end is 0 for every b
    }
    if (whole.low == 0) break;
  }
  return best;
}

}  // namespace nacre::tools
