// Compares GPTQ and AWQ with Keras's own, by the table of tests/peers/keras_fits.py, which says what part of Keras gave
// the codes of each layer.
//
// Keras computes in float32, we in float64, so a code may differ where a weight lies near the middle of two codes. It
// is then the first of its output to differ: what GPTQ makes of the following weights depends on it. How near is
// derived: the weight, in steps, is at most 2^bits; it took at most `in` updates, each of numbers rounded to float32
// (the weight, the row of the inverse, the product), so it is off by at most 3 in 2^-24 2^bits 2, the 2 for the step,
// which itself is of rounded weights; AWQ's pow adds 8 units in the last place, as XLA's is that good.
//
// Left out, and counted: outputs with a group of one sign, whose range Keras does not widen to 0.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/calibration/naive_fits.h"
#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/base/split_mix64.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

class KerasDraws {
 public:
  explicit KerasDraws(uint64_t seed) : stream_(seed) {}
  float next() { return float(double(stream_.next() >> 40) / 0x1p24 * 2 - 1); }

 private:
  SplitMix64 stream_;
};

// Keras's numbers. Codes and zero points are lowered by half of their range.
struct KerasFit {
  std::string by, kind;
  NaiveLayer layer;
  int group = 0, bits = 0;
  bool activation_order = false;
  std::vector<int> codes, zero;
  std::vector<float> scale, factors;
  double own_error = 0;
};

// Computes a row of x in float32, each operation rounded, as keras_fits.py does.
std::vector<double> keras_row(const std::string& kind, int row, int in, KerasDraws& draws) {
  std::vector<float> x(size_t(in), 0.0f);
  if (kind == "diagonal") x[size_t(row)] = 0.0625f + std::abs(4 * draws.next());
  if (kind == "pairs") {
    const auto p = size_t(row % (in / 2));
    x[2 * p] = draws.next();
    const float half = 0.5f * draws.next(), rest = 0.75f * x[2 * p];
    x[2 * p + 1] = half + rest;
  }
  if (kind == "full") {
    const float common = 1.5f * draws.next();
    for (size_t i = 0; i < x.size(); ++i) {
      const float sum = draws.next() + common;
      x[i] = std::ldexp(sum, -int(i % 3));
    }
  }
  return wide(x);
}

int hexadecimal(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

KerasFit keras_fit_of(const Json& record) {
  const auto number = [&](const char* key) { return record[key].get<int>(); };
  KerasFit fit;
  fit.by = record["by"].text();
  fit.kind = record["kind"].text();
  fit.bits = number("bits");
  fit.layer = {.in = number("in"), .out = number("out"), .w = {}, .x = {}};
  fit.group = number("group") < 0 ? fit.layer.in : number("group");
  fit.activation_order = number("activation_order") != 0;
  KerasDraws draws(record["seed"].get<uint64_t>());
  fit.layer.w.resize(size_t(fit.layer.in * fit.layer.out));
  for (int i = 0; i < fit.layer.in; ++i)
    for (int k = 0; k < fit.layer.out; ++k) fit.layer.w[size_t(k * fit.layer.in + i)] = draws.next();
  for (int row = 0; row < number("rows"); ++row) fit.layer.x.push_back(keras_row(fit.kind, row, fit.layer.in, draws));
  const int half = 1 << (fit.bits - 1);
  for (size_t k = 0; k < record["codes"].size(); ++k) {
    const std::string text = record["codes"][k].text();
    for (size_t at = 0; at < text.size(); at += fit.bits == 8 ? 2 : 1)
      fit.codes.push_back(
          (fit.bits == 8 ? 16 * hexadecimal(text[at]) + hexadecimal(text[at + 1]) : hexadecimal(text[at])) - half);
  }
  for (size_t i = 0; i < record["scale"].size(); ++i) {
    fit.scale.push_back(float(record["scale"][i].get<double>()));
    fit.zero.push_back(record["zero"][i].get<int>() - half);
  }
  if (record.contains("factors"))
    for (size_t i = 0; i < record["factors"].size(); ++i)
      fit.factors.push_back(float(record["factors"][i].get<double>()));
  if (record.contains("own_error")) fit.own_error = record["own_error"].get<double>();
  return fit;
}

Json keras_fits() {
  std::ifstream file(project_path("tests/peers/keras_fits.json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Json::parse(text)["layers"];
}

struct KerasCount {
  int outputs = 0, equal = 0, near_tie = 0, one_sign = 0;
};

// Returns whether a group of output k had weights of one sign when its step was found.
bool one_sign(const KerasFit& keras, const NaiveCodes& ours, int k) {
  const int groups = (keras.layer.in - 1) / keras.group + 1, half = 1 << (keras.bits - 1);
  for (int g = 0; g < groups; ++g) {
    const int zero = ours.zero[size_t(k * groups + g)];
    if (zero == -half || zero == half - 1) return true;
  }
  return false;
}

// `ours` holds, besides the codes, the number that was rounded to each code.
void compare_outputs(const KerasFit& keras, const NaiveCodes& ours, KerasCount& count) {
  const int in = keras.layer.in, groups = (in - 1) / keras.group + 1;
  const double pow_error = keras.by == "awq" ? 8 : 0;
  const double off = (6.0 * in + pow_error) * 0x1p-24 * double(1 << keras.bits);
  for (int k = 0; k < keras.layer.out; ++k) {
    ++count.outputs;
    if (one_sign(keras, ours, k)) {
      ++count.one_sign;
      continue;
    }
    // Follows the order of rounding: codes after the first difference may differ only because of it.
    int first = -1;
    for (int i = 0; i < in && first < 0; ++i)
      if (ours.codes[size_t(k * in + i)] != keras.codes[size_t(k * in + i)]) first = i;
    if (first >= 0) {
      const double steps = ours.steps[size_t(k * in + first)];
      EXPECT_FALSE(keras.activation_order) << "which code was first is not known here";
      EXPECT_LE(std::abs(std::abs(steps - std::floor(steps)) - 0.5), off)
          << keras.by << ' ' << keras.kind << " output " << k << " term " << first << ": " << steps;
      ++count.near_tie;
      continue;
    }
    ++count.equal;
    for (int g = 0; g < groups; ++g) {
      const auto at = size_t(k * groups + g);
      EXPECT_EQ(ours.zero[at], keras.zero[at]);
      // Keras leaves out the 1e-7 that is added to the range: at most 2e-7 of a range of 1/2 or more.
      EXPECT_NEAR(ours.scale[at], keras.scale[at], keras.scale[at] * (off + 2e-7)) << keras.by;
    }
  }
}

TEST(keras_fits, gptq_has_the_codes_of_keras_where_keras_computes_gptq) {
  KerasCount own, rows;
  double ours_sum = 0, keras_sum = 0;
  for (const Json& record : keras_fits()) {
    const KerasFit keras = keras_fit_of(record);
    if (keras.by == "awq") continue;
    const InputMoments moments = moments_of(keras.layer);
    const FitProblem problem = problem_of(keras.layer, moments, keras.group, keras.bits);
    const Fit fit = gptq_fit(problem, keras.activation_order);
    NaiveCodes ours = naive_gptq(keras.layer, keras.group, keras.bits, keras.activation_order);
    // The fit has the oracle's codes (fit_weights_test.cc), and they are not the nearest codes.
    ASSERT_TRUE(std::ranges::equal(ours.codes, fit.codes.codes)) << record["seed"].dump();
    compare_outputs(keras, ours, keras.by == "gptq" ? own : rows);
    if (keras.own_error > 0) ours_sum += fit.error, keras_sum += keras.own_error;
  }
  std::printf(
      "Keras's GPTQ: %d of %d outputs equal, %d near a tie, %d with a group of one sign; its matrix function with "
      "the rows of the factor: %d of %d, %d, %d\n",
      own.equal, own.outputs, own.near_tie, own.one_sign, rows.equal, rows.outputs, rows.near_tie, rows.one_sign);
  // No weight of these layers is that near to a tie.
  EXPECT_EQ(own.equal, own.outputs);
  EXPECT_EQ(rows.equal, rows.outputs);
  // Keras's own codes come without the elimination, and are worse on the layers of `rows`.
  std::printf("squared errors of those layers: %.4g, by Keras's own GPTQ %.4g\n", ours_sum, keras_sum);
  EXPECT_LT(ours_sum, keras_sum);
}

TEST(keras_fits, awq_has_the_codes_and_the_factors_of_keras) {
  KerasCount count;
  int scaled = 0;
  for (const Json& record : keras_fits()) {
    const KerasFit keras = keras_fit_of(record);
    if (keras.by != "awq") continue;
    const InputMoments moments = moments_of(keras.layer);
    const Fit fit = awq_fit(problem_of(keras.layer, moments, keras.group, keras.bits), ElementType::kFloat32);
    const NaiveAwq ours = naive_awq(keras.layer, keras.group);
    ASSERT_TRUE(std::ranges::equal(ours.codes.codes, fit.codes.codes)) << record["seed"].dump();
    scaled += !fit.factor.empty();
    for (size_t i = 0; i < keras.factors.size(); ++i) {
      const float factor = fit.factor.empty() ? 1 : fit.factor[i];
      // Keras's factor multiplies the weights. Two pow and a division round it in float32.
      EXPECT_NEAR(1 / factor, keras.factors[i], keras.factors[i] * 20 * 0x1p-24f) << record["seed"].dump();
    }
    compare_outputs(keras, ours.codes, count);
  }
  std::printf("Keras's AWQ: %d of %d outputs equal, %d near a tie, %d with a group of one sign\n", count.equal,
              count.outputs, count.near_tie, count.one_sign);
  EXPECT_EQ(count.equal, count.outputs);
  EXPECT_GT(scaled, 0);
}

}  // namespace
}  // namespace nacre::test
