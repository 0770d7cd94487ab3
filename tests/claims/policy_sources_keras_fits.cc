// Rows of claim policy_sources: what Keras's dense layers round (keras/src/layers/core/dense.py), and its policies of
// weights that are fitted to samples (keras/src/quantizers/gptq_config.py and awq_config.py).
#include <cmath>

#include "tests/claims/policy_sources.h"
#include "tools/calibration/calibrate.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

constexpr int kWidth = 12, kOutputs = 5, kSamples = 24;

// Makes weights, and samples whose features differ much in size and are correlated, which a fit can use.
Graph network() {
  std::vector<float> w;
  for (int i = 0; i < kWidth * kOutputs; ++i) w.push_back(std::sin(float(3 * i)) * (i % 7 == 0 ? 3.0f : 1.0f));
  return dense(kWidth, kOutputs, w);
}

std::vector<float> sample(int s) {
  std::vector<float> x;
  for (int i = 0; i < kWidth; ++i) x.push_back(std::cos(float(s) + 0.3f * float(i)) * (i % 5 == 0 ? 4.0f : 0.5f));
  return x;
}

Calibration calibrated() {
  const Graph graph = network();
  NpyArray array{ElementType::kFloat32, {kSamples, kWidth}, {}, "samples"};
  for (int s = 0; s < kSamples; ++s) {
    const std::vector<float> x = sample(s);
    const auto* first = reinterpret_cast<const uint8_t*>(x.data());
    array.data.append({first, x.size() * sizeof(float)});
  }
  return calibrate(graph, make_samples(graph, {array}),
                   {.fitted = [](const Node& node) { return node.layer != kNone; }});
}

// Returns the squared error of all outputs over the samples.
double error_of(const std::string& policy) {
  const Calibration calibration = calibrated();
  const Made made({.policy = policy}, network(), &calibration), exact({.policy = "float32"}, network());
  double sum = 0;
  for (int s = 0; s < kSamples; ++s) {
    const std::vector<float> y = made.run(sample(s)), want = exact.run(sample(s));
    for (size_t k = 0; k < y.size(); ++k) sum += double(y[k] - want[k]) * double(y[k] - want[k]);
  }
  return sum;
}

void smaller_error(Checks& c) {
  c.that(error_of("gptq/4/4_from_float32") < error_of("int4/4_from_float32"), "GPTQ's outputs are nearer");
  c.that(error_of("gptq/3/4_from_float32") > error_of("gptq/4/4_from_float32"), "4 bits are nearer than 3");
}

void bits_and_groups(Checks& c) {
  const Calibration calibration = calibrated();
  for (const int bits : {2, 3, 4, 8}) {
    const Made made({.policy = "gptq/" + std::to_string(bits) + "/5_from_float32"}, network(), &calibration);
    c.same(made.types("fc"), bits == 8 ? "float32 int8 float32" : "float32 int4 float32",
           std::to_string(bits) + " bits");
    c.that(made.policy("fc").weight_bits == bits && made.policy("fc").block == 5, "bits and group in the file");
    for (const Value& value : made.graph().values)
      if (value.name.ends_with("w_scale")) c.same(double(value.elements()), double(kOutputs * 3), "scales");
  }
  const Made channels({.policy = "gptq/4/-1_from_float32"}, network(), &calibration);
  for (const Value& value : channels.graph().values)
    if (value.name.ends_with("w_scale")) c.same(double(value.elements()), double(kOutputs), "scales per channel");
}

void activation_order(Checks& c) {
  const Calibration calibration = calibrated();
  const Made plain({.policy = "gptq/2/4_from_float32"}, network(), &calibration),
      ordered({.policy = "gptq/2/4_from_float32;activation_order=1"}, network(), &calibration);
  c.that(plain.constant(plain.weights("fc")) != ordered.constant(ordered.weights("fc")), "other codes");
}

void factors(Checks& c) {
  const Calibration calibration = calibrated();
  const Made made({.policy = "awq/4/4_from_float32"}, network(), &calibration);
  c.same(double(made.count(Op::kMul)), 1.0, "steps that multiply x by the factors");
  c.that(error_of("awq/4/4_from_float32") < error_of("int4/4_from_float32"), "AWQ's outputs are nearer");
}

void needs_samples(Checks& c) {
  for (const char* policy : {"gptq/4/4_from_float32", "awq/4/4_from_float32"}) try {
      const Made made({.policy = policy}, network());
      c.that(false, std::string(policy) + " is made without samples");
    } catch (const std::exception& error) {
      c.that(std::string(error.what()).find("needs samples of its input") != std::string::npos, error.what());
    }
}

// With x = 1, 0.15625 and codes 7, 7 the sum is 8.09375, which is 8.125 in bfloat16; a seventh of that is 1.1640625.
void each_operation(Checks& c) {
  const Graph pair = dense(2, 1, {1, 0.99f});
  const std::vector<float> x = {1, 0.15625f};
  c.same(double(Made({.policy = "int4_from_mixed_bfloat16;rounding=each"}, pair).run(x).at(0)), 1.1640625, "each");
  c.same(double(Made({.policy = "int4_from_mixed_bfloat16"}, pair).run(x).at(0)), 1.15625, "the default, last");
}

void range_of_the_release(Checks& c) {
  const Graph one_sign = dense(4, 1, {1, 1.1f, 1.2f, 1.3f});
  const Made made({.policy = "int4/4_from_float32;group_range=keras"}, one_sign);
  c.same(made.run({1, 1, 1, 1}).at(0), 1.2000002f, "the sum of four weights that became 0.3");
}

const Capability kRows[] = {
    {"Dense._int4_call", "x = ops.cast(x, self.compute_dtype); x = ops.divide(x, output_scale); x = ops.add(x, bias)",
     each_operation},
    {"quantizers.abs_max_quantize_grouped_with_zero_point",
     "min_val = np.min(inputs_reshaped, axis=1): a group of one sign saturates", range_of_the_release},
    {"GPTQConfig", "Uses calibration data to compute the Hessian matrix for each layer", needs_samples, Kind::kHad},
    {"GPTQConfig", "Applies iterative quantization with error correction", smaller_error},
    {"GPTQDTypePolicy", "<weight_bits>: Supported values are 2, 3, 4, and 8. <group_size>: -1 or any positive integer",
     bits_and_groups},
    {"GPTQConfig", "activation_order: Reorders weights based on activation importance (optional)", activation_order},
    {"GPTQDTypePolicy.__init__", "Invalid weight_bits in mode. Supported values are 2, 3, 4, and 8",
     [](Checks& c) {
       refuses(c, {.policy = "gptq/5/128_from_float32"}, "BadWeightBits", "5 bits are not supported");
       refuses(c, {.policy = "gptq/4/0_from_float32"}, "BadGroupSize", "is neither -1 nor positive");
     },
     Kind::kRefused},
    {"GPTQDTypePolicy.__init__", "Invalid mode for GPTQDTypePolicy. Expected format",
     [](Checks& c) { refuses(c, {.policy = "gptq/4_from_float32"}, "BadModeFormat", "is not gptq/BITS/GROUP"); },
     Kind::kRefused},
    {"AWQConfig", "Searches for optimal per-channel scaling factors via grid search", factors},
    {"AWQDTypePolicy.__init__", "Invalid weight_bits in mode. AWQ only supports 4-bit",
     [](Checks& c) { refuses(c, {.policy = "awq/8/128_from_float32"}, "BadWeightBits", "8 bits are not supported"); },
     Kind::kRefused},
};

}  // namespace

Source keras_fits() { return {"Keras's fitted policies", kRows}; }

}  // namespace nacre::test::policy_sources
