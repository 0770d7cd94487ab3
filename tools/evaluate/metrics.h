// Metrics of a model's outputs on a labelled set. Formulas stand here; NaN and infinity are counted, never ranked.
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

// "top1", "top5", "accuracy", "auc", "mse", "mae"; throws Error(kUsage) for others.
Metric parse_metric(const std::string& name);

// Outputs of all samples, one after the other, and the inputs that made them (for reconstruction errors).
struct ScoredSamples {
  uint64_t samples = 0;
  std::vector<double> outputs, inputs;

  size_t width() const { return samples == 0 ? 0 : outputs.size() / size_t(samples); }
  std::span<const double> row(uint64_t sample) const {
    return std::span(outputs).subspan(size_t(sample) * width(), width());
  }
};

struct Labels {
  std::vector<int64_t> classes;  // of counting metrics and auc
  std::vector<double> targets;   // of mse and mae, as many as outputs
};

struct Score {
  double value = 0;  // NaN where outputs that are not finite leave none
  uint64_t right = 0, total = 0;
  uint64_t not_finite = 0;  // samples with such outputs: wrong for counting metrics
};

// Labels must have been checked: check_labels.
Score score(const Metric& metric, const ScoredSamples& samples, const Labels& labels);

// How often a sample of each class was taken for each: of counting metrics, by the largest output (of one output by
// y > 1/2). Samples whose outputs are not finite are in no cell.
struct Confusion {
  size_t classes = 0;            // 0: the metric does not count
  std::vector<uint64_t> counts;  // [label, taken for], classes x classes

  uint64_t at(size_t label, size_t taken_for) const { return counts[label * classes + taken_for]; }
};

Confusion confusion(const Metric& metric, const ScoredSamples& samples, const Labels& labels);

// One sentence where labels do not fit the outputs: `place` is the labels' file. Throws Error.
void check_labels(const Metric& metric, const ScoredSamples& samples, const Labels& labels, const std::string& place);

// How much worse than the reference: positive is worse. NaN where one of the two is.
double drop(const Metric& metric, double reference, double value);

// P(score of a positive > score of a negative) + P(equal) / 2 over all pairs:
//
//   AUC = (sum of ranks of positives - p (p + 1) / 2) / (p n),   p positives, n negatives, equal scores share their
//   mean rank
double auc(std::span<const double> scores, std::span<const int64_t> labels);

// Scores that auc ranks. One output per sample is its score; of two the second is. As many outputs as inputs give the
// mean squared reconstruction error, as MLPerf Tiny's anomaly detection does. Throws Error for other widths.
std::vector<double> anomaly_scores(const ScoredSamples& samples);

// Position of `label` in the outputs sorted from the largest, 0 first.
size_t position_of(std::span<const double> outputs, size_t label);

// How far outputs are from reference outputs, for choices between models that score alike: mean over samples of
//
//   KL(a || b) = sum_i a_i log(a_i / b_i)   where every row of `a` and `b` is a distribution, b_i no smaller than 2^-40
//   sum_i (a_i - b_i)^2 / sum_i a_i^2       else, the sums over all samples
//
// Infinite where b is not finite.
double output_damage(const ScoredSamples& a, const ScoredSamples& b);

}  // namespace nacre::tools
