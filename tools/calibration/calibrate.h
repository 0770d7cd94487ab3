// Calibration: the ranges of all activations of a network over samples, found once and used for any number of policies.
//
// The network runs in float32 over every sample; where a method needs more than the ends of each sample (percentile,
// mse, entropy) it runs a second time. Memory: the network's activations, 12 bytes per value and sample, 16 KiB per
// value, for percentiles what lies outside of them, and 8 bytes per product of two terms of a layer that is fitted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/calibration/range_method.h"
#include "tools/calibration/samples.h"
#include "tools/calibration/softmax_masks.h"

namespace nacre::tools {

struct CalibrationOptions {
  RangeMethod method = RangeMethod::kMinMax;
  double percentile = 99.99;  // in [90, 100]
  double decay = 0.999;       // of the moving average, in [0, 1)
  // Pattern and method: first an exact name, then RE2 full match, of the layer that writes the value, or of an input of
  // the network. Two patterns with different methods for one value are an error, as is a pattern that nothing matches.
  std::vector<std::pair<std::string, RangeMethod>> overrides = {};
  // The matmuls whose weights are fitted to the samples: their inputs' moments are taken. Empty: none.
  std::function<bool(const Node&)> fitted = {};
};

struct ValueRange {
  Range range;
  RangeMethod method = RangeMethod::kMinMax;
  std::vector<float> amaxes;  // max |x| per sample, in order
};

struct Calibration {
  std::map<std::string, ValueRange> ranges;                            // by the value's name
  std::map<std::string, std::shared_ptr<const InputMoments>> moments;  // by the name of the matmul's output
  int64_t samples = 0;
  MaskLimits masks;  // ranges of the activations in it hold already

  const ValueRange* find(const std::string& value) const {
    const auto found = ranges.find(value);
    return found == ranges.end() ? nullptr : &found->second;
  }
};

// Refuses activations that are not finite, by value, layer and sample; -inf is no such one in a mask of a softmax.
Calibration calibrate(const Graph& simplified, const Samples& samples, const CalibrationOptions& options = {});

}  // namespace nacre::tools
