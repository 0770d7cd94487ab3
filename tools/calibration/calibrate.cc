#include "tools/calibration/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/base/error.h"
#include "tools/base/progress.h"
#include "tools/calibration/float_network.h"
#include "tools/calibration/input_moments.h"
#include "tools/calibration/method_rules.h"

namespace nacre::tools {
namespace {

// Of one value.
struct Collected {
  RangeMethod method = RangeMethod::kMinMax;
  std::vector<Range> samples;
  uint64_t elements = 0;
  Histogram histogram;
  Tails tails;

  bool needs_histogram() const { return method == RangeMethod::kMse || method == RangeMethod::kEntropy; }
  bool needs_second_run() const { return needs_histogram() || method == RangeMethod::kPercentile; }
};

void check_options(const CalibrationOptions& options) {
  if (!(options.percentile >= 90 && options.percentile <= 100))
    throw Error(kUsage, "--percentile", fmt::format("{} is not between 90 and 100", options.percentile),
                "99.99 lets one value in 20,000 saturate on each side");
  if (!(options.decay >= 0 && options.decay < 1))
    throw Error(kUsage, "--range-decay", fmt::format("{} is not in [0, 1)", options.decay));
}

class Calibrator {
 public:
  Calibrator(const Graph& graph, const Samples& samples, const CalibrationOptions& options)
      : graph_(graph), samples_(samples), options_(options), network_(graph), moments_(graph, options.fitted) {}

  Calibration run() {
    choose_methods();
    first_run();
    if (std::ranges::any_of(collected_, &Collected::needs_second_run)) second_run();
    Calibration calibration;
    calibration.samples = samples_.count;
    for (size_t i = 0; i < collected_.size(); ++i)
      calibration.ranges.emplace(network_.taps()[i].name, result(collected_[i]));
    calibration.moments = moments_.result();
    return calibration;
  }

 private:
  void choose_methods() {
    const MethodRules rules(graph_, options_);
    collected_.resize(network_.taps().size());
    for (size_t i = 0; i < collected_.size(); ++i) {
      const std::string name = matched_name(network_.taps()[i]);
      collected_[i].method = name.empty() ? options_.method : rules.method(name);
    }
  }

  void first_run() {
    each_sample("calibrate", [&](size_t i, int64_t sample, std::span<const float> x) {
      check_finite(network_.taps()[i], sample, x);
      collected_[i].samples.push_back(range_of(x));
      collected_[i].elements += x.size();
      moments_.add(network_.taps()[i].name, x);
    });
  }

  void second_run() {
    for (Collected& c : collected_) {
      if (c.needs_histogram()) c.histogram = Histogram(min_max_range(c.samples));
      if (c.method == RangeMethod::kPercentile) c.tails = Tails(options_.percentile, c.elements);
    }
    each_sample("calibrate, second run", [&](size_t i, int64_t, std::span<const float> x) {
      if (collected_[i].needs_histogram()) collected_[i].histogram.add(x);
      if (collected_[i].method == RangeMethod::kPercentile) collected_[i].tails.add(x);
    });
  }

  template <class Take>
  void each_sample(const char* what, Take take) {
    Progress progress(what, uint64_t(samples_.count));
    for (int64_t sample = 0; sample < samples_.count; ++sample) {
      network_.run(samples_, sample);
      for (size_t i = 0; i < collected_.size(); ++i) take(i, sample, network_.value(network_.taps()[i]));
      progress.show(uint64_t(sample) + 1);
    }
  }

  void check_finite(const FloatNetwork::Tap& tap, int64_t sample, std::span<const float> x) const {
    const auto bad = std::ranges::find_if(x, [](float v) { return !std::isfinite(v); });
    if (bad == x.end()) return;
    const std::string layer = tap.layer == kNone ? "" : graph_.layers[size_t(tap.layer)].name;
    throw Error(kBadInput, graph_.source + (layer.empty() ? "" : ": " + layer),
                fmt::format("{} has {} at element {} for sample {}", tap.name, *bad, bad - x.begin(), sample + 1),
                "no range holds that: look at the sample, and at this layer's weights");
  }

  // What patterns are matched with.
  std::string matched_name(const FloatNetwork::Tap& tap) const {
    if (tap.layer != kNone) return graph_.layers[size_t(tap.layer)].name;
    for (const Binding& b : graph_.inputs)
      if (graph_.values[size_t(b.value)].name == tap.name) return b.name;
    return "";
  }

  ValueRange result(const Collected& c) const {
    ValueRange found = {.range = find(c), .method = c.method, .amaxes = {}};
    for (const Range& sample : c.samples) found.amaxes.push_back(std::max(std::abs(sample.low), std::abs(sample.high)));
    return found;
  }

  Range find(const Collected& c) const {
    const Range observed = min_max_range(c.samples);
    switch (c.method) {
      case RangeMethod::kMovingAverage: return moving_average_range(c.samples, options_.decay);
      case RangeMethod::kPercentile: return percentile_range(c.tails);
      case RangeMethod::kMse: return mse_range(c.histogram);
      case RangeMethod::kEntropy: return entropy_range(c.histogram, observed);
      default: return observed;
    }
  }

  const Graph& graph_;
  const Samples& samples_;
  const CalibrationOptions& options_;
  FloatNetwork network_;
  MomentCollector moments_;
  std::vector<Collected> collected_;  // as network_.taps()
};

}  // namespace

Calibration calibrate(const Graph& simplified, const Samples& samples, const CalibrationOptions& options) {
  check_options(options);
  return Calibrator(simplified, samples, options).run();
}

}  // namespace nacre::tools
