// Finds the real range [low, high] that int8 codes will cover, from the values of a tensor on calibration samples.
// There are five methods. Each range_<method>.cc holds the formula of one and its source.
//
// statistics.h collects the data that the methods need: the range of every sample, a histogram, or the tails.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "tools/base/names.h"
#include "tools/calibration/statistics.h"

namespace nacre::tools {

enum class RangeMethod : uint8_t { kMinMax, kMovingAverage, kPercentile, kMse, kEntropy, kCount };

template <>
std::span<const char* const> names<RangeMethod>();

Range min_max_range(std::span<const Range> samples);
Range moving_average_range(std::span<const Range> samples, double decay);
Range percentile_range(const Tails& tails);
Range mse_range(const Histogram& histogram);
Range entropy_range(const Histogram& histogram, Range observed);

// Parses a user's text: "mse", or "PATTERN=METHOD". Errors name `place`, the option.
RangeMethod parse_range_method(const std::string& text, const std::string& place);
std::pair<std::string, RangeMethod> parse_range_rule(const std::string& text, const std::string& place);

}  // namespace nacre::tools
