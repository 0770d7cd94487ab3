// Calibration finds the ranges of all float activations of a network over samples. One calibration serves any number
// of policies.
//
// The network runs in float32 over every sample. It runs a second time if a method needs more than the smallest and the
// largest number of each sample (percentile, mse, entropy). Memory: the network's activations, 12 bytes per activation
// and sample, 16 KiB per activation for mse or entropy, and for percentiles the numbers that Tails keeps. A layer whose
// weights are fitted adds 8 bytes per pair of its terms (the inputs of one sum).
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
  // Pairs of pattern and method. A pattern is compared with the name of the layer that writes the value, or of an input
  // of the network: first as an exact name, then as an RE2 expression for the whole name. If two expressions with
  // different methods match one value, that is an error. So is a pattern that matches nothing.
  std::vector<std::pair<std::string, RangeMethod>> overrides = {};
  // Returns true for the matmuls whose weights are fitted to the samples: calibrate() then collects the moments of
  // their inputs. An empty function stands for no matmul.
  std::function<bool(const Node&)> fitted = {};
};

struct ValueRange {
  Range range;
  RangeMethod method = RangeMethod::kMinMax;
  std::vector<float> amaxes;  // max |x| per sample, in order; beyond a mask's limit, the limit
};

struct Calibration {
  std::map<std::string, ValueRange> ranges;                            // by the value's name
  std::map<std::string, std::shared_ptr<const InputMoments>> moments;  // by the name of the matmul's output
  int64_t samples = 0;
  MaskLimits masks;  // `ranges` already keeps to these limits

  const ValueRange* find(const std::string& value) const {
    const auto found = ranges.find(value);
    return found == ranges.end() ? nullptr : &found->second;
  }
};

// Returns the ranges and moments of the network over the samples. Throws an Error naming value, layer and sample if an
// activation is not finite, except that masks of a softmax, and scores that hold one, may have -inf.
Calibration calibrate(const Graph& simplified, const Samples& samples, const CalibrationOptions& options = {});

}  // namespace nacre::tools
