// Metrics of a model's outputs on a labelled set, with their formulas. NaN and infinity are counted, never ranked.
//
//   topK      share of samples whose label is among the K largest outputs; of equal outputs the first is the larger
//   accuracy  one output: share of samples with (y > 1/2) == label; more outputs: top1
//   auc       area under the ROC curve by ranks, Mann and Whitney 1947 (doi:10.1214/aoms/1177730491); see auc()
//   mse, mae  mean over all elements of (y - target)^2, |y - target|
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

struct Metric {
  enum class Kind { kTop, kAccuracy, kAuc, kMse, kMae };
  Kind kind = Kind::kTop;
  int k = 1;

  bool higher_is_better() const { return kind != Kind::kMse && kind != Kind::kMae; }
  bool counts() const { return kind == Kind::kTop || kind == Kind::kAccuracy; }
  bool wants_targets() const { return !higher_is_better(); }
};

// Reads "top1", "top5", "accuracy", "auc", "mse" or "mae"; throws Error(kUsage) for other names.
Metric parse_metric(const std::string& name);

// Outputs of all samples, one after the other, and the inputs that gave them (for reconstruction errors).
struct ScoredSamples {
  uint64_t samples = 0;
  std::vector<double> outputs, inputs;

  size_t width() const { return samples == 0 ? 0 : outputs.size() / size_t(samples); }
  std::span<const double> row(uint64_t sample) const {
    return std::span(outputs).subspan(size_t(sample) * width(), width());
  }
};

struct Labels {
  std::vector<int64_t> classes;  // for counting metrics and auc
  std::vector<double> targets;   // for mse and mae, as many as outputs
};

struct Score {
  double value = 0;  // for auc, mse and mae NaN if any output is not finite
  uint64_t right = 0, total = 0;
  uint64_t not_finite = 0;  // samples with outputs that are not finite: wrong for counting metrics
};

// Computes the score. check_labels must have accepted the labels.
Score score(const Metric& metric, const ScoredSamples& samples, const Labels& labels);

// For counting metrics: how often samples of each class were assigned to each class, by the largest output (a single
// output by y > 1/2). Samples with outputs that are not finite are in no cell.
struct Confusion {
  size_t classes = 0;            // 0: the metric does not count, or there are more than 2,048 classes
  std::vector<uint64_t> counts;  // [label, assigned class], classes x classes

  uint64_t at(size_t label, size_t taken_for) const { return counts[label * classes + taken_for]; }
};

Confusion confusion(const Metric& metric, const ScoredSamples& samples, const Labels& labels);

// Throws an Error of one sentence if labels do not fit the outputs. `place` is the labels' file.
void check_labels(const Metric& metric, const ScoredSamples& samples, const Labels& labels, const std::string& place);

// Returns how much worse than the reference the value is; positive is worse. NaN if one of the two is.
double drop(const Metric& metric, double reference, double value);

// Returns P(score of a positive > score of a negative) + P(equal) / 2 over all pairs:
//
//   AUC = (sum of ranks of positives - p (p + 1) / 2) / (p n),   p positives, n negatives, equal scores share their
//   mean rank
double auc(std::span<const double> scores, std::span<const int64_t> labels);

// Returns the scores that auc ranks. A single output per sample is the score; of two outputs the second is. If there
// are more, and as many as inputs, the score is the mean squared reconstruction error, as in MLPerf Tiny's anomaly
// detection. Throws Error for other numbers of outputs.
std::vector<double> anomaly_scores(const ScoredSamples& samples);

// Returns the position of `label` in the outputs sorted from the largest, from 0.
size_t position_of(std::span<const double> outputs, size_t label);

// Returns how far outputs are from reference outputs, to choose between models with equal scores:
//
//   KL(a || b) = sum_i a_i log(a_i / b_i)   if every row of `a` is a distribution; a b_i below 2^-40 counts as 2^-40;
//                                           the mean over samples
//   sum_i (a_i - b_i)^2 / sum_i a_i^2       else, both sums over all samples
//
// Returns infinity if b is not finite.
double output_damage(const ScoredSamples& a, const ScoredSamples& b);

}  // namespace nacre::tools
