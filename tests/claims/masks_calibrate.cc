// Claim: a softmax's mask has no influence on the ranges of codes, however it is written.
//
// Attention has masks of -inf, -1e4, -1e9, the lowest float and -100. They are added, chosen by Where, or computed
// from an input. tests/peers/masks_calibrate.json, written by the script beside it, holds the networks and
// onnxruntime's float32 outputs. Under int8/static, with each range method, every output is within 4 times E of
// onnxruntime's, where E is the error of the network without a mask. The bound follows from the ranges: codes of
// masked scores span (s + D) / s times as much, with D = ln(512 x 8) = 8.3 below the least peak and s above 6 the
// span of the scores, and the sum with the mask rounds once more. That is 2 (1 + D / s) E < 5 E at worst, and the
// error of scores is one of several. The largest output of a row is the same one if it leads by more than twice the
// bound. The bound is not idle: with ranges of the values with masks, networks exceed it or are refused.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/keras_tables.h"
#include "tests/claims/stored_networks.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/float_network.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr size_t kTokens = 8, kClasses = 4, kWidth = 16;
constexpr double kTimesTwin = 4;

struct MaskedRun {
  double error = 0;  // the largest error
  int other_best = 0, rows = 0;
};

struct MaskSamples {
  std::vector<float> x, m;
  size_t calibrated = 0, judged = 0;

  std::vector<float> part(const std::vector<float>& of, size_t first, size_t count) const {
    const size_t each = of.size() / (calibrated + judged);
    return {of.begin() + ptrdiff_t(first * each), of.begin() + ptrdiff_t((first + count) * each)};
  }
};

NpyArray npy_of(const std::vector<float>& numbers, std::vector<int64_t> dims) {
  NpyArray array;
  array.type = ElementType::kFloat32;
  array.dims = std::move(dims);
  array.data.resize(numbers.size() * sizeof(float));
  std::memcpy(array.data.data(), numbers.data(), numbers.size() * sizeof(float));
  return array;
}

MaskedRun judge(const std::vector<float>& found, const std::vector<float>& expected, double bound) {
  MaskedRun run;
  for (size_t row = 0; row < expected.size() / kClasses; ++row) {
    const auto of = [&](const std::vector<float>& y) { return std::span(y).subspan(row * kClasses, kClasses); };
    for (size_t i = 0; i < kClasses; ++i) {
      const double e = std::abs(double(of(found)[i]) - double(of(expected)[i]));
      run.error = std::isfinite(e) ? std::max(run.error, e) : INFINITY;
    }
    const auto best = std::ranges::max_element(of(expected)) - of(expected).begin();
    std::vector<float> sorted(of(expected).begin(), of(expected).end());
    std::ranges::sort(sorted, std::greater());
    if (double(sorted[0]) - double(sorted[1]) <= 2 * bound) continue;
    ++run.rows;
    run.other_best += std::ranges::max_element(of(found)) - of(found).begin() != best ? 1 : 0;
  }
  return run;
}

// Returns the ranges of all values, masks included, as before the calibration knew masks.
Calibration with_masks(Calibration calibration, const Graph& graph, const Samples& samples) {
  calibration.masks = {};
  FloatNetwork network(graph);
  for (int64_t i = 0; i < samples.count; ++i) {
    network.run(samples, i);
    for (const FloatNetwork::Tap& tap : network.taps()) {
      Range& range = calibration.ranges.at(tap.name).range;
      for (const float v : network.value(tap)) range = {std::min(range.low, v), std::max(range.high, v)};
    }
  }
  return calibration;
}

struct MaskClaim {
  const MaskSamples samples;
  double twin = 0;
  int networks = 0, rows = 0, idle = 0, runs = 0;
  double worst = 0;
  std::string wrong = "";

  void compare(const Json& record, RangeMethod method) {
    const std::string name = record.at("name");
    const Bytes bytes = decode_base64(record.at("file"));
    StoredNetwork network = {.name = name, .file = {bytes.begin(), bytes.end()}, .policy = "int8/static_from_float32"};
    const Graph graph = load_network(network.file, name, {}, {}, {});
    const bool takes_mask = record.at("takes_mask");
    const auto arrays = [&](size_t first, size_t count) {
      std::vector<std::vector<float>> inputs = {samples.part(samples.x, first, count)};
      if (takes_mask) inputs.push_back(samples.part(samples.m, first, count));
      return inputs;
    };
    const std::vector<std::vector<float>> given = arrays(0, samples.calibrated + samples.judged);
    const auto stacked_rows = int64_t(samples.calibrated + samples.judged);
    std::vector<NpyArray> stacked = {npy_of(given[0], {stacked_rows, kTokens, kWidth})};
    if (takes_mask) stacked.push_back(npy_of(given[1], {stacked_rows, 1, kTokens}));
    const Samples calibrating = make_samples(graph, std::move(stacked));
    const Calibration calibration = calibrate(graph, calibrating, {.method = method});
    network.calibration = &calibration;
    const std::vector<std::vector<float>> judged = arrays(samples.calibrated, samples.judged);
    const std::vector<float> y = elements_of<float>(decode_base64(record.at("y")));
    const double bound = kTimesTwin * twin;
    const MaskedRun run = judge(run_stored(network, judged, samples.judged), y, bound);
    ++runs;
    if (name == "none") {
      twin = std::max(twin, run.error);
      return;
    }
    rows_and_worst(run);
    std::printf("%-18s %-14s error %.4f, %.2f of the bound; %d of %d rows have another best\n", name.c_str(),
                name_of(method), run.error, run.error / bound, run.other_best, run.rows);
    if (!(run.error <= bound) || run.other_best > 0)
      wrong += (wrong.empty() ? "" : ", ") + name + " " + name_of(method);
    if (method != RangeMethod::kMinMax) return;
    ++networks;
    const Calibration before = with_masks(calibration, graph, calibrating);
    network.calibration = &before;
    try {
      idle += judge(run_stored(network, judged, samples.judged), y, bound).error <= bound ? 1 : 0;
    } catch (const Error&) {
    }
  }

  void rows_and_worst(const MaskedRun& run) {
    rows += run.rows;
    worst = std::max(worst, run.error);
  }
};

}  // namespace

NACRE_CLAIM(masks_calibrate) {
  const Json table = read_table(project_path("tests/peers/masks_calibrate.json"));
  const std::vector<float> m = elements_of<float>(decode_base64(table.at("m")));
  const size_t calibrated = table.at("calibrated");
  MaskClaim masks = {.samples = {.x = elements_of<float>(decode_base64(table.at("x"))),
                                 .m = m,
                                 .calibrated = calibrated,
                                 .judged = m.size() / kTokens - calibrated}};
  for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kMovingAverage, RangeMethod::kPercentile,
                                   RangeMethod::kMse, RangeMethod::kEntropy}) {
    masks.twin = 0;
    for (const Json& record : table.at("networks")) masks.compare(record, method);
  }
  if (!masks.wrong.empty()) return std::printf("CLAIM masks_calibrate NOT SHOWN: %s\n", masks.wrong.c_str()), 1;
  if (masks.idle == masks.networks)
    return std::printf("CLAIM masks_calibrate NOT SHOWN: ranges with masks pass the bound too\n"), 1;
  std::printf(
      "CLAIM masks_calibrate shown: %d masked networks by 5 range methods within %g times the error of the "
      "unmasked one, the best class equal in %d rows; with ranges that have masks %d networks are not\n",
      masks.networks, kTimesTwin, masks.rows, masks.networks - masks.idle);
  return 0;
}

}  // namespace nacre::test
