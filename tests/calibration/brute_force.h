// Oracles of the calibration methods. Each follows its definition on the values themselves, in the plainest way.
#pragma once

#include <string>
#include <vector>

#include "tools/calibration/range_method.h"

namespace nacre::tools {

// Returns `samples` of one skewed tensor: a long-tailed distribution with most values near 0 and a few large ones on
// one side. Every value is a multiple of 2^-10 in [-0.25, 1.749]. Both ends occur, and a histogram bin is exactly
// 2^-10 wide, so values are bins.
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

inline constexpr double kPercentile = 99.5, kDecay = 0.9;  // parameters of the five methods on skewed_samples()
std::vector<MethodResult> compare_methods();
bool all_different(const std::vector<MethodResult>& methods);

}  // namespace nacre::tools
