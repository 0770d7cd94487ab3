#include "tests/calibration/brute_force.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace nacre::tools {
namespace {

constexpr double kGrid = 0x1p-10;
constexpr int kLeast = -256, kMost = 1791;  // 2047 steps

std::vector<float> joined(const std::vector<std::vector<float>>& samples) {
  std::vector<float> all;
  for (const std::vector<float>& x : samples) all.insert(all.end(), x.begin(), x.end());
  return all;
}

// Returns the sum over all values of (x - real(code(x)))^2. The quantizer is written out, with the scale and zero
// point of TensorFlow Lite's converter.
double squared_error(const std::map<float, int>& values, double low, double high) {
  const auto scale = double(float((high - low) / 255));
  const double zero = std::clamp(128 - low / ((high - low) / 255) < 127 + high / ((high - low) / 255)
                                     ? std::round(-128 - low / ((high - low) / 255))
                                     : std::round(127 - high / ((high - low) / 255)),
                                 -128.0, 127.0);
  double sum = 0;
  for (const auto& [x, count] : values) {
    const double code = std::clamp(std::round(double(x) / scale) + zero, -128.0, 127.0);
    const double difference = double(x) - scale * (code - zero);
    sum += count * difference * difference;
  }
  return sum;
}

// Returns KL(P || Q) for |x| below (kept - 1/2) steps of the grid.
double divergence(const std::vector<int>& bins, int kept) {
  std::vector<double> p(bins.begin(), bins.begin() + kept), q(size_t(kept), 0);
  for (size_t i = size_t(kept); i < bins.size(); ++i) p.back() += bins[i];
  std::map<int, std::vector<int>> levels;
  for (int j = 0; j < kept; ++j) levels[j * 128 / kept].push_back(j);
  for (const auto& [level, members] : levels) {
    int filled = 0, sum = 0;
    for (const int j : members) sum += bins[size_t(j)], filled += p[size_t(j)] > 0 ? 1 : 0;
    for (const int j : members)
      if (p[size_t(j)] > 0) q[size_t(j)] = sum > 0 ? double(sum) / filled : 1e-4;
  }
  double all_p = 0, all_q = 0, result = 0;
  for (const double v : p) all_p += v;
  for (const double v : q) all_q += v > 1e-4 ? v : 0;
  for (size_t j = 0; j < p.size(); ++j)
    if (p[j] > 0) result += p[j] / all_p * std::log(p[j] / all_p / (q[j] / all_q));
  return result;
}

}  // namespace

std::vector<std::vector<float>> skewed_samples() {
  constexpr int kSamples = 12, kElements = 12000;  // 80 values per bin, so KL merges none
  std::mt19937 rng(7);
  const auto unit = [&] { return (double(rng() >> 8) + 0.5) * 0x1p-24; };
  std::vector<std::vector<float>> samples(kSamples);
  for (std::vector<float>& x : samples) {
    for (int i = 0; i < kElements; ++i) {
      const double tail = -std::log(unit());                        // exponential, mean 1
      const double steps = unit() < 0.3 ? -40 * tail : 110 * tail;  // the right side is longer
      x.push_back(float(std::clamp(std::round(steps), kLeast * 0.8, kMost * 0.6) * kGrid));
    }
  }
  samples[3][5] = float(kLeast * kGrid);
  samples[8][9] = float(kMost * kGrid);
  return samples;
}

Range brute_min_max(const std::vector<std::vector<float>>& samples) {
  std::vector<float> all = joined(samples);
  std::sort(all.begin(), all.end());
  return {all.front(), all.back()};
}

// Computes the weighted sum: sample t of T has the weight (1 - d) d^(T - 1 - t) / (1 - d^T).
Range brute_moving_average(const std::vector<std::vector<float>>& samples, double decay) {
  double low = 0, high = 0, weights = 0;
  for (size_t t = 0; t < samples.size(); ++t) {
    const double weight = (1 - decay) * std::pow(decay, double(samples.size() - 1 - t));
    low += weight * double(std::min(0.0f, *std::min_element(samples[t].begin(), samples[t].end())));
    high += weight * double(std::max(0.0f, *std::max_element(samples[t].begin(), samples[t].end())));
    weights += weight;
  }
  return {float(low / weights), float(high / weights)};
}

Range brute_percentile(const std::vector<std::vector<float>>& samples, double percentile) {
  std::vector<float> all = joined(samples);
  std::sort(all.begin(), all.end());
  const auto cut = size_t(double(all.size()) * (100 - percentile) / 200);
  return {all[cut], all[all.size() - 1 - cut]};
}

Range brute_mse(const std::vector<std::vector<float>>& samples) {
  const Range whole = brute_min_max(samples);
  std::map<float, int> values;
  for (const float x : joined(samples)) ++values[x];
  Range best;
  double least = std::numeric_limits<double>::infinity();
  for (int a = 128; a >= 0; --a)
    for (int b = 128; b >= 0; --b) {
      if (a + b == 0) continue;
      const Range range = {whole.low * float(a) / 128, whole.high * float(b) / 128};
      const double error = squared_error(values, double(range.low), double(range.high));
      if (error < least) best = range, least = error;
    }
  return best;
}

Range brute_entropy(const std::vector<std::vector<float>>& samples) {
  std::vector<int> bins(size_t(std::max(-kLeast, kMost)) + 1);
  for (const float x : joined(samples))
    if (x != 0) ++bins[size_t(std::lround(std::abs(double(x)) / kGrid))];
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int kept = 128; kept <= int(bins.size()); ++kept) {
    const double found = divergence(bins, kept);
    if (found < least) best = kept, least = found;
  }
  const Range whole = brute_min_max(samples);
  const auto threshold = float((best - 0.5) * kGrid);
  return {std::max(whole.low, -threshold), std::min(whole.high, threshold)};
}

Range found_range(RangeMethod method, const std::vector<std::vector<float>>& samples) {
  std::vector<Range> ends;
  size_t count = 0;
  for (const std::vector<float>& x : samples) ends.push_back(range_of(x)), count += x.size();
  Histogram histogram(min_max_range(ends));
  Tails tails(kPercentile, count);
  for (const std::vector<float>& x : samples) histogram.add(x), tails.add(x);
  switch (method) {
    case RangeMethod::kMovingAverage: return moving_average_range(ends, kDecay);
    case RangeMethod::kPercentile: return percentile_range(tails);
    case RangeMethod::kMse: return mse_range(histogram);
    case RangeMethod::kEntropy: return entropy_range(histogram, min_max_range(ends));
    default: return min_max_range(ends);
  }
}

std::vector<MethodResult> compare_methods() {
  const std::vector<std::vector<float>> samples = skewed_samples();
  const Range expected[] = {brute_min_max(samples), brute_moving_average(samples, kDecay),
                            brute_percentile(samples, kPercentile), brute_mse(samples), brute_entropy(samples)};
  std::vector<MethodResult> results;
  for (size_t m = 0; m < size_t(RangeMethod::kCount); ++m)
    results.push_back({name_of(RangeMethod(m)), found_range(RangeMethod(m), samples), expected[m]});
  return results;
}

bool all_different(const std::vector<MethodResult>& methods) {
  for (size_t i = 0; i < methods.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (methods[i].found == methods[j].found) return false;
  return true;
}

}  // namespace nacre::tools
