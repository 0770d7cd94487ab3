#include "tools/calibration/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/base/progress.h"
#include "tools/calibration/float_network.h"
#include "tools/calibration/input_moments.h"
#include "tools/calibration/method_rules.h"

namespace nacre::tools {
namespace {

// Statistics of one value over all samples.
struct Collected {
  RangeMethod method = RangeMethod::kMinMax;
  std::vector<Range> samples;
  uint64_t elements = 0;
  Histogram histogram;
  Tails tails;
  ValueId value = kNone;
  std::optional<std::string> infinite;  // where the first -inf stands
  std::optional<float> low, high;       // MaskLimits: a softmax cannot use numbers beyond them

  bool needs_histogram() const { return method == RangeMethod::kMse || method == RangeMethod::kEntropy; }
  bool needs_second_run() const { return needs_histogram() || method == RangeMethod::kPercentile; }
};

void check_options(const CalibrationOptions& options) {
  if (!(options.percentile >= 90 && options.percentile <= 100))
    throw Error(kUsage, option("percentile"), fmt::format("{} is not between 90 and 100", options.percentile),
                "99.99 lets one value in 20,000 saturate on each side");
  if (!(options.decay >= 0 && options.decay < 1))
    throw Error(kUsage, option("range-decay"), fmt::format("{} is not in [0, 1)", options.decay));
}

// Returns the range of the finite elements, [0, 0] if there is none.
Range finite_range_of(std::span<const float> x) {
  Range range = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (const float v : x)
    if (std::isfinite(v)) range = {std::min(range.low, v), std::max(range.high, v)};
  return range.low <= range.high ? range : Range{};
}

class Calibrator {
 public:
  Calibrator(const Graph& graph, const Samples& samples, const CalibrationOptions& options)
      : graph_(graph), samples_(samples), options_(options), network_(graph), moments_(graph, options.fitted),
        masks_(graph) {}

  Calibration run() {
    choose_methods();
    first_run();
    apply_masks();
    if (std::ranges::any_of(collected_, &Collected::needs_second_run)) second_run();
    Calibration calibration;
    calibration.samples = samples_.count;
    for (size_t i = 0; i < collected_.size(); ++i)
      calibration.ranges.emplace(network_.taps()[i].name, result(collected_[i]));
    calibration.moments = moments_.result();
    calibration.masks = std::move(limits_);
    return calibration;
  }

 private:
  void choose_methods() {
    const MethodRules rules(graph_, options_);
    collected_.resize(network_.taps().size());
    std::map<std::string, ValueId> ids;
    for (size_t id = 0; id < graph_.values.size(); ++id) ids.emplace(graph_.values[id].name, ValueId(id));
    for (size_t i = 0; i < collected_.size(); ++i) {
      const std::string name = matched_name(network_.taps()[i]);
      collected_[i].method = name.empty() ? options_.method : rules.method(name);
      if (const auto found = ids.find(network_.taps()[i].name); found != ids.end()) collected_[i].value = found->second;
    }
  }

  void first_run() {
    each_sample("calibrate", [&](size_t i, int64_t sample, std::span<const float> x) {
      Collected& c = collected_[i];
      check_finite(network_.taps()[i], sample, x, c);
      c.samples.push_back(c.infinite ? finite_range_of(x) : range_of(x));
      c.elements += x.size();
      masks_.add_rows(c.value, x);
      moments_.add(network_.taps()[i].name, x);
    });
  }

  void apply_masks() {
    std::map<ValueId, Range> ranges;
    for (const Collected& c : collected_) {
      Range range = min_max_range(c.samples);
      if (c.infinite) range.low = -std::numeric_limits<float>::infinity();
      ranges.emplace(c.value, range);
    }
    limits_ = masks_.limits(ranges);
    for (size_t i = 0; i < collected_.size(); ++i) {
      Collected& c = collected_[i];
      const std::string& name = network_.taps()[i].name;
      if (const auto found = limits_.low.find(name); found != limits_.low.end()) c.low = found->second;
      if (const auto found = limits_.high.find(name); found != limits_.high.end()) c.high = found->second;
      if (c.infinite && !c.low && !masks_.only_masks(c.value)) refuse(network_.taps()[i], *c.infinite);
      for (Range& sample : c.samples) {
        if (c.low) sample = {std::max(sample.low, *c.low), std::max(sample.high, *c.low)};
        if (c.high) sample = {std::min(sample.low, *c.high), std::min(sample.high, *c.high)};
      }
    }
  }

  // Returns the numbers of x within the value's mask limit. If `clamped`, numbers beyond it count as the limit itself.
  std::span<const float> within_limits(const Collected& c, std::span<const float> x, bool clamped) {
    if (!c.low && !c.high) return x;
    within_.clear();
    for (const float v : x) {
      const float kept = c.low ? std::max(v, *c.low) : std::min(v, *c.high);
      if (clamped || kept == v) within_.push_back(kept);
    }
    return within_;
  }

  void second_run() {
    for (Collected& c : collected_) {
      if (c.needs_histogram()) c.histogram = Histogram(min_max_range(c.samples));
      if (c.method == RangeMethod::kPercentile) c.tails = Tails(options_.percentile, c.elements);
    }
    each_sample("calibrate, second run", [&](size_t i, int64_t, std::span<const float> x) {
      Collected& c = collected_[i];
      if (c.needs_histogram()) c.histogram.add(within_limits(c, x, false));
      if (c.method == RangeMethod::kPercentile) c.tails.add(within_limits(c, x, true));
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

  void check_finite(const FloatNetwork::Tap& tap, int64_t sample, std::span<const float> x, Collected& c) const {
    const bool mask = c.value != kNone && masks_.may_be_infinite(c.value);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) continue;
      const std::string what = fmt::format("{} has {} at element {} for sample {}", tap.name, x[i], i, sample + 1);
      if (!mask || !(x[i] < 0)) refuse(tap, what);
      if (!c.infinite) c.infinite = what;
    }
  }

  [[noreturn]] void refuse(const FloatNetwork::Tap& tap, const std::string& what) const {
    const std::string layer = tap.layer == kNone ? "" : graph_.layers[size_t(tap.layer)].name;
    throw Error(kBadInput, graph_.source + (layer.empty() ? "" : ": " + layer), what,
                "no range holds that: look at the sample, and at this layer's weights");
  }

  // Returns the name that the patterns of range rules are matched with: that of the value's layer or of the input.
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

  // Returns the range by the value's method. A method may cut numbers off at an end, but an end that a mask limits
  // stays at its limit.
  Range find(const Collected& c) const {
    Range range = found(c);
    if (c.low) range = {*c.low, std::max(range.high, *c.low)};
    if (c.high) range = {std::min(range.low, *c.high), *c.high};
    return range;
  }

  Range found(const Collected& c) const {
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
  std::vector<Collected> collected_;  // in the order of network_.taps()
  SoftmaxMasks masks_;
  MaskLimits limits_;
  std::vector<float> within_;
};

}  // namespace

namespace {

// Makes each dropout a copy of its input, because ranges are those of inference.
Graph without_dropout(Graph graph) {
  for (Node& node : graph.nodes)
    if (node.op == Op::kDropout) node = make_step(Op::kCopy, node, node.name, {node.inputs[0]}, {node.outputs[0]});
  return graph;
}

}  // namespace

Calibration calibrate(const Graph& simplified, const Samples& samples, const CalibrationOptions& options) {
  check_options(options);
  const bool drops = std::ranges::any_of(simplified.nodes, [](const Node& node) { return node.op == Op::kDropout; });
  if (!drops) return Calibrator(simplified, samples, options).run();
  return Calibrator(without_dropout(simplified), samples, options).run();
}

}  // namespace nacre::tools
