#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "tools/calibration/range_method.h"

namespace nacre::tools {
namespace {

constexpr size_t kLevels = 128;  // levels of |x|, as a symmetric int8 quantizer has on one side of 0
constexpr double kValuesPerBin = 64;
constexpr double kEmpty = 1e-4;  // count that replaces 0 in Q: smooth_distribution of onnxruntime's quant_utils.py

// Returns the counts of |x|: bin k counts |x| in [(k - 1/2) width, (k + 1/2) width). Exact zeros are left out.
std::vector<double> magnitudes(const Histogram& histogram) {
  std::vector<double> counts;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    const auto k = size_t(std::abs(histogram.index(i)));
    if (counts.size() <= k) counts.resize(k + 1);
    counts[k] += double(histogram.counts()[i]);
  }
  counts[0] -= double(histogram.zeros());
  return counts;
}

// Merges bins 2 j and 2 j + 1 into bin j.
std::vector<double> halved(const std::vector<double>& counts) {
  std::vector<double> pairs((counts.size() + 1) / 2);
  for (size_t i = 0; i < counts.size(); ++i) pairs[i / 2] += counts[i];
  return pairs;
}

// Returns the divergence KL(P || Q) that entropy_range defines, for the first `kept` bins. `total` sums all counts.
double divergence(const std::vector<double>& counts, size_t kept, double total) {
  double inside = 0, result = 0;
  for (size_t i = 0; i < kept; ++i) inside += counts[i];
  if (inside == 0) return std::numeric_limits<double>::infinity();
  const double outliers = total - inside;
  for (size_t level = 0; level < kLevels; ++level) {
    // This level covers the bins j with floor(j kLevels / kept) == level.
    const size_t first = (level * kept + kLevels - 1) / kLevels, last = ((level + 1) * kept + kLevels - 1) / kLevels;
    double sum = 0, filled = 0;
    const auto reference = [&](size_t j) { return counts[j] + (j == kept - 1 ? outliers : 0); };
    for (size_t j = first; j < last; ++j) sum += counts[j], filled += reference(j) > 0 ? 1 : 0;
    if (filled == 0) continue;
    const double q = (sum > 0 ? sum / filled : kEmpty) / inside;
    for (size_t j = first; j < last; ++j) {
      const double p = reference(j) / total;
      if (p > 0) result += p * std::log(p / q);
    }
  }
  return result;
}

}  // namespace

// Returns the range of the threshold T on |x| that loses least information (Migacz, 8-bit inference with TensorRT, GTC
// 2017, S7310). Each candidate keeps the first m bins of 2048 or so, m = 128, 129, ... P is the counts of these bins,
// with all outliers in the last one. Q is the counts without the outliers, merged evenly into 128 levels and spread
// again over the bins of each level where P is not 0.
//
//   m = argmin sum_j p_j ln(p_j / q_j),   T = the upper end of bin m - 1,   range = [max(min x, -T), min(max x, T)]
//
// The range is clipped to the observed one, as onnxruntime does (quantization/calibrate.py, get_entropy_threshold). If
// only outliers make P nonzero in a bin, Q is 0 there and counts as 1e-4 of a value. Exact zeros are left out: 0 has a
// code in every range, and the zeros of a relu would outweigh all other values.
//
// The counts of few values are noise. Noise adds about bins / (2 n) to the divergence of n values, however many bins
// are kept, so the smallest threshold would win. Bins are therefore merged in pairs until that term is at most 1/128,
// as long as at least 128 bins are left.
Range entropy_range(const Histogram& histogram, Range observed) {
  std::vector<double> counts = magnitudes(histogram);
  double total = 0;
  for (const double n : counts) total += n;
  const double first_half = histogram.width() / 2;  // bin 0 begins at -first_half
  double width = histogram.width();
  for (; counts.size() >= 2 * kLevels && double(counts.size()) * kValuesPerBin > total; width *= 2)
    counts = halved(counts);
  size_t best = counts.size();
  double least = std::numeric_limits<double>::infinity();
  for (size_t kept = kLevels; total > 0 && kept <= counts.size(); ++kept) {
    const double found = divergence(counts, kept, total);
    if (found < least) best = kept, least = found;
  }
  const auto threshold = float(double(best) * width - first_half);
  return {std::max(observed.low, -threshold), std::min(observed.high, threshold)};
}

}  // namespace nacre::tools
