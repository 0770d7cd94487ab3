// Oracles of the calibration methods: each by its definition, on the values themselves, in the plainest way.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/range_method.h"

namespace nacre::tools {

// One skewed tensor: `samples` of a long-tailed distribution, most values near 0, a few large ones on one side. Every
// value is a multiple of 2^-10 in [-0.25, 1.749], both ends are there and the width of a histogram is exactly 2^-10:
// values are bins.
std::vector<std::vector<float>> skewed_samples();

Range brute_min_max(const std::vector<std::vector<float>>& samples);
Range brute_moving_average(const std::vector<std::vector<float>>& samples, double decay);
Range brute_percentile(const std::vector<std::vector<float>>& samples, double percentile);
Range brute_mse(const std::vector<std::vector<float>>& samples);
Range brute_entropy(const std::vector<std::vector<float>>& samples);

// Returns the range that the collectors and methods of tools/calibration find for the samples.
Range found_range(RangeMethod method, const std::vector<std::vector<float>>& samples);

struct MethodResult {
  std::string name;
  Range found, expected;
};

inline constexpr double kPercentile = 99.5, kDecay = 0.9;  // of the five on skewed_samples()
std::vector<MethodResult> compare_methods();
bool all_different(const std::vector<MethodResult>& methods);

}  // namespace nacre::tools
