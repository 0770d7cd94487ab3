#include "tools/evaluate/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/evaluate/error_measure.h"

namespace nacre::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

bool is_right(const Metric& metric, std::span<const double> outputs, int64_t label) {
  if (metric.kind == Metric::Kind::kAccuracy && outputs.size() == 1) return (outputs[0] > 0.5) == (label == 1);
  return position_of(outputs, size_t(label)) < size_t(metric.k);
}

Score count_right(const Metric& metric, const ScoredSamples& samples, const Labels& labels) {
  Score score = {.total = samples.samples};
  for (uint64_t n = 0; n < samples.samples; ++n) {
    if (!is_finite(samples.row(n))) {
      ++score.not_finite;
    } else if (is_right(metric, samples.row(n), labels.classes[size_t(n)])) {
      ++score.right;
    }
  }
  score.value = double(score.right) / double(score.total);
  return score;
}

double mean_error(const Metric& metric, const ScoredSamples& samples, const Labels& labels) {
  double sum = 0;
  for (size_t i = 0; i < samples.outputs.size(); ++i) {
    const double error = samples.outputs[i] - labels.targets[i];
    sum += metric.kind == Metric::Kind::kMse ? error * error : std::abs(error);
  }
  return sum / double(samples.outputs.size());
}

// Returns whether every row is finite, has no negative element and sums to 1. In 8-bit outputs each element may be
// half a code off.
bool are_distributions(const ScoredSamples& s) {
  constexpr double kCode = 1.0 / 256;
  if (s.width() < 2) return false;
  for (uint64_t n = 0; n < s.samples; ++n) {
    const std::span<const double> row = s.row(n);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    const bool negative = std::ranges::any_of(row, [](double v) { return !(v >= 0); });
    if (negative || !(std::abs(sum - 1) <= kCode / 2 * double(row.size()))) return false;
  }
  return true;
}

double kullback_leibler(const ScoredSamples& a, const ScoredSamples& b) {
  constexpr double kLeast = 0x1p-40;
  double sum = 0;
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (a.outputs[i] > 0) sum += a.outputs[i] * std::log(a.outputs[i] / std::max(b.outputs[i], kLeast));
  return std::max(0.0, sum / double(a.samples));  // rows whose sum is not quite 1 may give less than 0
}

void check_classes(const Metric& metric, size_t width, const std::vector<int64_t>& classes, const std::string& place) {
  const bool binary = metric.kind == Metric::Kind::kAuc || width == 1;
  const int64_t count = binary ? 2 : int64_t(width);
  for (size_t n = 0; n < classes.size(); ++n)
    if (classes[n] < 0 || classes[n] >= count)
      throw Error(kBadInput, place, fmt::format("label {} is {}, wanted 0 to {}", n, classes[n], count - 1),
                  binary ? "this metric takes 0 (normal, negative) and 1 (anomaly, positive)"
                         : fmt::format("the model has {} outputs per sample", width));
}

void require_both_classes(const std::vector<int64_t>& classes, const std::string& place) {
  for (const int64_t wanted : {0, 1})
    if (std::ranges::find(classes, wanted) == classes.end())
      throw Error(kBadInput, place, fmt::format("holds no label {}", wanted),
                  "an area under a curve takes samples of both classes");
}

}  // namespace

Metric parse_metric(const std::string& name) {
  using Kind = Metric::Kind;
  if (name == "accuracy") return {.kind = Kind::kAccuracy};
  if (name == "auc") return {.kind = Kind::kAuc};
  if (name == "mse") return {.kind = Kind::kMse};
  if (name == "mae") return {.kind = Kind::kMae};
  int k = 0;
  const char *first = name.data() + std::min<size_t>(3, name.size()), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(first, end, k);
  if (!name.starts_with("top") || error != std::errc() || rest != end || k < 1)
    throw Error(kUsage, option("metric", name), "is no metric", "use top1, top5, accuracy, auc, mse or mae");
  return {.kind = Kind::kTop, .k = k};
}

size_t position_of(std::span<const double> outputs, size_t label) {
  size_t position = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    position += outputs[i] > outputs[label] || (outputs[i] == outputs[label] && i < label) ? 1 : 0;
  return position;
}

Confusion confusion(const Metric& metric, const ScoredSamples& samples, const Labels& labels) {
  constexpr size_t kMostClasses = 2048;  // its square is held in memory
  const size_t classes = samples.width() == 1 ? 2 : samples.width();
  if (!metric.counts() || classes > kMostClasses) return {};
  Confusion confusion = {.classes = classes, .counts = std::vector<uint64_t>(classes * classes)};
  for (uint64_t n = 0; n < samples.samples; ++n) {
    const std::span<const double> row = samples.row(n);
    if (!is_finite(row)) continue;
    const size_t taken_for =
        row.size() == 1 ? (row[0] > 0.5 ? 1 : 0) : size_t(std::ranges::max_element(row) - row.begin());
    ++confusion.counts[size_t(labels.classes[size_t(n)]) * classes + taken_for];
  }
  return confusion;
}

double auc(std::span<const double> scores, std::span<const int64_t> labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return scores[i]; });
  double ranks = 0, positives = 0;
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && scores[order[end]] == scores[order[first]]) ++end;
    const double mean_rank = double(first + 1 + end) / 2;  // of ranks first + 1 .. end
    for (size_t i = first; i < end; ++i) {
      if (labels[order[i]] != 1) continue;
      ranks += mean_rank;
      positives += 1;
    }
    first = end;
  }
  const double negatives = double(scores.size()) - positives;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

std::vector<double> anomaly_scores(const ScoredSamples& s) {
  std::vector<double> scores;
  const size_t width = s.width();
  const bool reconstructs = width > 2 && s.inputs.size() == s.outputs.size();
  if (width > 2 && !reconstructs)
    throw Error(kUnsupported, option("metric", "auc"),
                fmt::format("the model has {} outputs per sample and another number of inputs", width),
                "it takes one score, two classes, or an autoencoder");
  for (uint64_t n = 0; n < s.samples; ++n) {
    const std::span<const double> y = s.row(n);
    double squares = 0;
    for (size_t i = 0; reconstructs && i < width; ++i) {
      const double error = s.inputs[size_t(n) * width + i] - y[i];
      squares += error * error;
    }
    scores.push_back(reconstructs ? squares / double(width) : y.back());
  }
  return scores;
}

void check_labels(const Metric& metric, const ScoredSamples& samples, const Labels& labels, const std::string& place) {
  const size_t wanted = metric.wants_targets() ? samples.outputs.size() : size_t(samples.samples);
  const size_t given = metric.wants_targets() ? labels.targets.size() : labels.classes.size();
  if (given != wanted)
    throw Error(kBadInput, place,
                fmt::format("holds {} {}, but the data gives {}", grouped(given),
                            metric.wants_targets() ? "targets" : "labels", grouped(wanted)),
                metric.wants_targets() ? "give one target per output of every sample" : "give one label per sample");
  if (metric.wants_targets()) {
    const auto bad = std::ranges::find_if(labels.targets, [](double v) { return !std::isfinite(v); });
    if (bad != labels.targets.end())
      throw Error(kBadInput, place, fmt::format("element {} is {}", bad - labels.targets.begin(), *bad),
                  "targets are finite numbers");
    return;
  }
  if (metric.kind == Metric::Kind::kTop && samples.width() < size_t(metric.k) + (metric.k == 1 ? 1 : 0))
    throw Error(kUsage, fmt::format("{metric} top{}", metric.k, fmt::arg("metric", option("metric"))),
                fmt::format("the model has {} per sample", counted(samples.width(), "output")),
                "use accuracy or auc for one output");
  check_classes(metric, samples.width(), labels.classes, place);
  if (metric.kind == Metric::Kind::kAuc) require_both_classes(labels.classes, place);
}

Score score(const Metric& metric, const ScoredSamples& samples, const Labels& labels) {
  if (metric.counts()) return count_right(metric, samples, labels);
  Score result = {.total = samples.samples};
  for (uint64_t n = 0; n < samples.samples; ++n) result.not_finite += is_finite(samples.row(n)) ? 0 : 1;
  if (result.not_finite > 0) {
    result.value = kNaN;
  } else if (metric.kind == Metric::Kind::kAuc) {
    result.value = auc(anomaly_scores(samples), labels.classes);
  } else {
    result.value = mean_error(metric, samples, labels);
  }
  return result;
}

double drop(const Metric& metric, double reference, double value) {
  return metric.higher_is_better() ? reference - value : value - reference;
}

double output_damage(const ScoredSamples& a, const ScoredSamples& b) {
  if (!is_finite(b.outputs)) return kInfinity;
  if (are_distributions(a)) return kullback_leibler(a, b);
  double signal = 0, noise = 0;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    signal += a.outputs[i] * a.outputs[i];
    noise += (a.outputs[i] - b.outputs[i]) * (a.outputs[i] - b.outputs[i]);
  }
  return noise == 0 ? 0 : signal == 0 ? kInfinity : noise / signal;
}

}  // namespace nacre::tools
