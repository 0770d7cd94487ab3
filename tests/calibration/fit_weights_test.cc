// Tests GPTQ and AWQ against their definitions (naive_fits.h) and against every assignment of codes, and what every
// fit keeps.
#include "tools/passes/policy/fit_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/calibration/naive_fits.h"
#include "tests/graph/run_graph.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/calibration/calibrate.h"
#include "tools/calibration/input_moments.h"
#include "tools/calibration/quantize_static.h"
#include "tools/compile/compile.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

float uniform_weight(std::mt19937& random) { return float(random() >> 8) * 0x1p-23f - 1; }

// Makes correlated inputs of different magnitudes. With `dead`, about one in eight is always 0.
NaiveLayer random_fit_layer(std::mt19937& random, int in, int out, int rows, bool dead) {
  NaiveLayer layer = {.in = in, .out = out, .w = {}, .x = {}};
  for (int i = 0; i < in * out; ++i) layer.w.push_back(uniform_weight(random));
  std::vector<double> size;
  for (int i = 0; i < in; ++i) size.push_back(dead && random() % 8 == 0 ? 0 : std::ldexp(1, int(random() % 5) - 2));
  for (int r = 0; r < rows; ++r) {
    const double common = double(uniform_weight(random));
    layer.x.emplace_back();
    for (int i = 0; i < in; ++i)
      layer.x.back().push_back(size[size_t(i)] * (double(uniform_weight(random)) + 1.5 * common));
  }
  return layer;
}

std::string shape_of(const NaiveLayer& layer, int block, int bits, int trial) {
  return std::to_string(layer.out) + " x " + std::to_string(layer.in) + ", " + std::to_string(layer.x.size()) +
         " rows, block " + std::to_string(block) + ", " + std::to_string(bits) + " bits, trial " +
         std::to_string(trial);
}

template <class A, class B>
bool equal_numbers(const std::vector<A>& a, const std::vector<B>& b) {
  return std::ranges::equal(a, b, [](A x, B y) { return double(x) == double(y); });
}

constexpr int kFitBits[] = {2, 3, 4, 8};

// Both sides compute in float64, in another order. A code can differ only if a weight is within 1e-12 of the middle
// of two codes, and a scale only if a weight is as near to the middle of two float32 numbers. No weight of these 400
// layers is.
TEST(fit_weights, gptq_has_the_codes_of_obq_with_an_explicit_inverse) {
  std::mt19937 random(1);
  int64_t codes = 0, unlike_nearest = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int in = 1 + int(random() % 40), out = 1 + int(random() % 4), rows = 1 + int(random() % 60);
    const int block = 1 + int(random() % unsigned(in)), bits = kFitBits[random() % 4];
    const bool order = trial % 2 == 1;
    const NaiveLayer layer = random_fit_layer(random, in, out, rows, trial % 3 == 0);
    const InputMoments moments = moments_of(layer);
    const Fit fit = gptq_fit(problem_of(layer, moments, block, bits), order);
    const NaiveCodes naive = naive_gptq(layer, block, bits, order), nearest = naive_nearest(layer, block, bits);
    const double error = naive_error(layer, naive_reals(layer, naive, block));
    const double of_nearest = naive_error(layer, naive_reals(layer, nearest, block));
    const NaiveCodes& expected = error > of_nearest ? nearest : naive;
    EXPECT_TRUE(equal_numbers(fit.codes.codes, expected.codes)) << shape_of(layer, block, bits, trial);
    EXPECT_TRUE(equal_numbers(fit.codes.scale, expected.scale)) << shape_of(layer, block, bits, trial);
    EXPECT_TRUE(equal_numbers(fit.codes.zero, expected.zero)) << shape_of(layer, block, bits, trial);
    // Sums in^2 products of either sign. float64 keeps 1e-12 of the largest.
    EXPECT_NEAR(fit.error, std::min(error, of_nearest), 1e-10 * (1 + of_nearest))
        << shape_of(layer, block, bits, trial);
    EXPECT_NEAR(fit.nearest_error, of_nearest, 1e-10 * (1 + of_nearest)) << shape_of(layer, block, bits, trial);
    EXPECT_LE(fit.error, fit.nearest_error);
    codes += int64_t(naive.codes.size());
    for (size_t i = 0; i < naive.codes.size(); ++i) unlike_nearest += naive.codes[i] != nearest.codes[i];
  }
  EXPECT_GT(unlike_nearest, codes / 10) << "of " << codes;
}

// The Cholesky factor is made in chunks of 128 terms. A group's steps are found within a chunk and across chunks.
TEST(fit_weights, gptq_of_more_terms_than_a_chunk_is_obq_too) {
  std::mt19937 random(2);
  for (const int block : {32, 100, 128, 150, 300})
    for (const bool order : {false, true}) {
      if (nacre::test::sanitized() && (block != 128 || order)) continue;
      const NaiveLayer layer = random_fit_layer(random, nacre::test::sanitized() ? 150 : 300, 1, 400, true);
      const Fit fit = gptq_fit(problem_of(layer, moments_of(layer), block, 4), order);
      const NaiveCodes naive = naive_gptq(layer, block, 4, order);
      EXPECT_TRUE(equal_numbers(fit.codes.codes, naive.codes)) << block << ' ' << order;
      EXPECT_TRUE(equal_numbers(fit.codes.zero, naive.zero)) << block << ' ' << order;
      EXPECT_TRUE(equal_numbers(fit.codes.scale, naive.scale)) << block << ' ' << order;
    }
}

// Tries all 4^in codes with the same step, for one output, up to 4 inputs and 2 bits, to find the least error.
TEST(fit_weights, gptq_lies_between_the_best_codes_of_all_and_the_nearest) {
  std::mt19937 random(3);
  double best_sum = 0, gptq_sum = 0, nearest_sum = 0;
  int optimal = 0, optimal_nearest = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    const int in = 3 + trial % 2;
    const NaiveLayer layer = random_fit_layer(random, in, 1, 12, false);
    const InputMoments moments = moments_of(layer);
    const FitProblem problem = problem_of(layer, moments, in, 2);
    const Fit fit = gptq_fit(problem, false);
    double best = INFINITY;
    for (int code = 0; code < 1 << (2 * in); ++code) {
      WeightCodes codes = fit.codes;
      for (int i = 0; i < in; ++i) codes.codes[size_t(i)] = int8_t((code >> (2 * i) & 3) - 2);
      best = std::min(best, naive_error(layer, wide(grouped_reals(codes, problem.layout, in))));
    }
    EXPECT_LE(best, fit.error * (1 + 1e-12)) << trial;
    EXPECT_LE(fit.error, fit.nearest_error) << trial;
    best_sum += best, gptq_sum += fit.error, nearest_sum += fit.nearest_error;
    optimal += fit.error <= best * (1 + 1e-12);
    optimal_nearest += fit.nearest_error <= best * (1 + 1e-12);
  }
  // Summed over the trials: GPTQ is greedy, so it is worse than the best codes; rounding each term by itself is worse
  // still, and is optimal less often.
  EXPECT_LT(best_sum, gptq_sum);
  EXPECT_LT(gptq_sum, nearest_sum);
  EXPECT_GT(optimal, optimal_nearest);
}

TEST(fit_weights, awq_has_the_codes_of_the_search_over_rows) {
  std::mt19937 random(4);
  int scaled = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int in = 2 + int(random() % 30), out = 1 + int(random() % 6), block = 1 + int(random() % unsigned(in));
    const NaiveLayer layer = random_fit_layer(random, in, out, 1 + int(random() % 50), trial % 3 == 0);
    const InputMoments moments = moments_of(layer);
    const Fit fit = awq_fit(problem_of(layer, moments, block, 4), ElementType::kFloat32);
    const NaiveAwq naive = naive_awq(layer, block);
    const std::string shape = shape_of(layer, block, 4, trial);
    EXPECT_TRUE(equal_numbers(fit.codes.codes, naive.codes.codes)) << shape;
    EXPECT_TRUE(equal_numbers(fit.codes.scale, naive.codes.scale)) << shape;
    EXPECT_TRUE(equal_numbers(fit.codes.zero, naive.codes.zero)) << shape;
    const std::vector<float> ones(size_t(in), 1.0f);
    EXPECT_TRUE(equal_numbers(fit.factor.empty() ? ones : fit.factor, naive.factor)) << shape;
    EXPECT_NEAR(fit.error, naive.error, 1e-10 * (1 + naive.error)) << shape;
    EXPECT_LE(fit.error, fit.nearest_error) << shape;
    scaled += !fit.factor.empty();
  }
  EXPECT_GT(scaled, 30);
}

// Tests weights and inputs that leave nothing, or almost nothing, to fit.
TEST(fit_weights, no_layer_is_worse_than_its_nearest_codes) {
  std::mt19937 random(5);
  const auto weights = [](auto f) { return [f](NaiveLayer& l) { std::ranges::transform(l.w, l.w.begin(), f); }; };
  const auto inputs = [](auto f) {
    return [f](NaiveLayer& l) {
      for (auto& row : l.x) std::ranges::transform(row, row.begin(), f);
    };
  };
  const std::function<void(NaiveLayer&)> changes[] = {
      weights([](float) { return 0.0f; }),
      weights([](float) { return 0.75f; }),
      weights([](float w) { return std::abs(w) * 1e30f; }),
      weights([](float w) { return w * 1e-30f; }),
      inputs([](double) { return 0.0; }),
      inputs([](double) { return 3.0; }),
      inputs([](double x) { return x * 1e-18; }),
      inputs([](double x) { return x * 1e18; }),
      [](NaiveLayer& l) { l.x.resize(1); },
      [](NaiveLayer& l) { l.w[3] = 1000; },
  };
  for (size_t c = 0; c < std::size(changes); ++c)
    for (const int bits : kFitBits)
      for (const int block : {1, 5, 16}) {
        NaiveLayer layer = random_fit_layer(random, 16, 3, 20, false);
        changes[c](layer);
        const InputMoments moments = moments_of(layer);
        const FitProblem problem = problem_of(layer, moments, block, bits);
        for (const Fit& fit :
             {gptq_fit(problem, false), gptq_fit(problem, true), awq_fit(problem, ElementType::kBfloat16)}) {
          EXPECT_LE(fit.error, fit.nearest_error) << c << ' ' << bits << ' ' << block;
          EXPECT_TRUE(std::isfinite(fit.error));
          for (const int8_t q : fit.codes.codes) EXPECT_TRUE(q >= -(1 << (bits - 1)) && q < 1 << (bits - 1));
          for (const float scale : fit.codes.scale) EXPECT_GT(scale, 0);
        }
      }
}

TEST(fit_weights, the_nearest_codes_stand_where_a_group_spans_more_than_float32) {
  std::mt19937 random(10);
  NaiveLayer layer = random_fit_layer(random, 16, 3, 20, false);
  for (size_t i = 0; i < layer.w.size(); ++i) layer.w[i] = i % 2 == 0 ? 3e38f : -3e38f;
  const InputMoments moments = moments_of(layer);
  const FitProblem problem = problem_of(layer, moments, 8, 4);
  const WeightCodes nearest = grouped_codes(layer.w, problem.layout, 8);
  for (const Fit& fit : {gptq_fit(problem, false), gptq_fit(problem, true), awq_fit(problem, ElementType::kFloat32)})
    EXPECT_EQ(fit.codes.codes, nearest.codes);
}

// ---- Moments of a network's inputs, and the codes that a policy makes by them ----

NpyArray array_of(std::vector<int64_t> dims, const std::vector<float>& x) {
  return {.type = ElementType::kFloat32, .dims = std::move(dims), .data = bytes_of(x), .place = "test"};
}

std::string numbers_text(std::mt19937& random, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(uniform_weight(random));
  return text;
}

struct ConvShape {
  const char *x, *w, *y, *step;
};
constexpr ConvShape kConvs[] = {
    {"[1, 5, 6, 4]", "[3, 2, 3, 4]", "[1, 3, 3, 3]", "conv2d(%x, %w) stride_h=2 stride_w=2 pad_top=1 pad_right=1"},
    {"[1, 7, 5, 4]", "[4, 3, 2, 2]", "[1, 3, 5, 4]", "conv2d(%x, %w) groups=2 dilation_h=2 pad_left=1"},
    {"[1, 4, 4, 3]", "[3, 3, 6]", "[1, 4, 4, 6]",
     "depthwise_conv2d(%x, %w) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1"},
    {"[1, 3, 7]", "[2, 7]", "[1, 3, 2]", "dense(%x, %w)"},
};

int64_t elements_of(const std::string& dims) {
  int64_t count = 1;
  for (size_t at = 1; at < dims.size();
       at = dims.find(' ', at) == std::string::npos ? dims.size() : dims.find(' ', at) + 1)
    count *= std::stoi(dims.substr(at));
  return count;
}

Graph conv_graph(const ConvShape& s, std::mt19937& random) {
  const std::string data = numbers_text(random, elements_of(s.w));
  return parse("graph \"t\" batch=1\nlayer \"l\" source=\"OP\"\nvalue %x float32 " + std::string(s.x) +
               " batched\nvalue %w float32 " + s.w + " region=weights data=float32 {" + data + "}\nvalue %y float32 " +
               s.y + " batched\ninput \"x\" %x\noutput \"y\" %y\n%y = " + s.step + " name=\"l\" layer=\"l\"\n");
}

// Each output has one weight of 1 and otherwise 0, so y is that term of every row. The engine computes it.
TEST(fit_weights, moments_are_those_of_what_the_steps_read) {
  std::mt19937 random(6);
  constexpr int kSamples = 3;
  for (const ConvShape& s : kConvs) {
    Graph graph = conv_graph(s, random);
    const Node& node = graph.nodes[0];
    std::vector<int64_t> dims = graph.values[size_t(node.inputs[0])].dims;
    dims[0] = kSamples;
    std::vector<float> x(size_t(kSamples * elements_of(s.x)));
    for (float& v : x) v = uniform_weight(random);
    const CalibrationOptions options = {.fitted = [](const Node&) { return true; }};
    const Calibration found = calibrate(graph, make_samples(graph, {array_of(dims, x)}), options);
    ASSERT_TRUE(found.moments.contains("y")) << s.step;
    const InputMoments& moments = *found.moments.at("y");
    const Value w = graph.values[size_t(node.inputs[1])];
    const WeightLayout layout = layout_of(node.op, w.dims);
    const auto m = size_t(layout.terms), groups = moments.hessian.size(), outputs = size_t(layout.channels);
    ASSERT_EQ(size_t(moments.terms), m) << s.step;
    std::vector<std::vector<float>> terms(m);  // of every term: y of all samples, [pixels, outputs]
    for (size_t term = 0; term < m; ++term)
      for (int sample = 0; sample < kSamples; ++sample) {
        std::vector<float> one(size_t(w.elements()));
        for (size_t k = 0; k < outputs; ++k) one[layout.at(int64_t(k), int64_t(term))] = 1;
        set_reals(graph.values[size_t(node.inputs[1])], one);
        const auto first = x.begin() + sample * elements_of(s.x);
        const Graph run = run_graph(graph, {bytes_of(std::vector<float>(first, first + elements_of(s.x)))});
        const std::vector<float> y = reals(run.values[size_t(node.outputs[0])]);
        terms[term].insert(terms[term].end(), y.begin(), y.end());
      }
    const size_t rows = terms[0].size() / outputs;
    EXPECT_EQ(size_t(moments.rows), rows) << s.step;
    for (size_t group = 0; group < groups; ++group)
      for (size_t a = 0; a < m; ++a)
        for (size_t b = 0; b < m; ++b) {
          double sum = 0;
          for (size_t r = 0; r < rows; ++r) {
            const size_t k = r * outputs + group * (outputs / groups);
            sum += 2 * double(terms[a][k]) * double(terms[b][k]) / double(rows);
          }
          EXPECT_NEAR(moments.hessian[group][a * m + b], sum, 1e-13 * double(rows)) << s.step;
        }
    std::vector<double> mean(moments.mean_magnitude.size());
    for (size_t i = 0; i < x.size(); ++i)
      mean[i % mean.size()] += std::abs(double(x[i])) * double(mean.size()) / double(x.size());
    for (size_t c = 0; c < mean.size(); ++c) EXPECT_NEAR(moments.mean_magnitude[c], mean[c], 1e-14) << s.step;
  }
}

Compiled compiled_fit(const Graph& graph, const Calibration* calibration, const std::string& policy) {
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
  options.calibration = calibration;
  return compile(graph, options);
}

const Value* constant_named(const Graph& graph, const std::string& name) {
  for (const Value& v : graph.values)
    if (v.name == name && v.constant()) return &v;
  return nullptr;
}

TEST(fit_weights, a_policy_leaves_the_fitted_codes_in_the_program) {
  std::mt19937 random(7);
  for (const ConvShape& s : kConvs) {
    const Graph graph = conv_graph(s, random);
    std::vector<int64_t> dims = graph.values[size_t(graph.nodes[0].inputs[0])].dims;
    dims[0] = 4;
    std::vector<float> x(size_t(4 * elements_of(s.x)));
    for (size_t i = 0; i < x.size(); ++i) x[i] = uniform_weight(random) * float(1 + i % 3 * 4);
    const CalibrationOptions options = {.fitted = [](const Node&) { return true; }};
    const Calibration found = calibrate(graph, make_samples(graph, {array_of(dims, x)}), options);
    const std::vector<float> w = reals(graph.values[size_t(graph.nodes[0].inputs[1])]);
    const WeightLayout layout = layout_of(graph.nodes[0].op, graph.values[size_t(graph.nodes[0].inputs[1])].dims);
    for (const std::string policy : {"gptq/2/3", "gptq/4/-1", "gptq/8/4", "awq/4/4"}) {
      const int bits = policy[5] == '/' ? 4 : policy[5] - '0';
      const Compiled made = compiled_fit(graph, &found, policy + "_from_float32");
      EXPECT_TRUE(made.graph.fallbacks.empty()) << s.step << policy << made.graph.fallbacks[0];
      const int64_t block = std::min<int64_t>(policy == "gptq/4/-1"  ? layout.terms
                                              : policy == "gptq/2/3" ? 3
                                                                     : 4,
                                              layout.terms);
      const FitProblem problem = {.w = w,
                                  .layout = layout,
                                  .moments = *found.moments.at("y"),
                                  .block = block,
                                  .bits = bits == 0 ? 4 : bits,
                                  .name = "test"};
      const bool awq = policy.starts_with("awq");
      const Fit fit = awq ? awq_fit(problem, ElementType::kFloat32) : gptq_fit(problem, false);
      const Value* codes = constant_named(made.graph, policy.starts_with("gptq/8") ? "w/int8" : "w/int4");
      ASSERT_NE(codes, nullptr) << s.step << policy;
      EXPECT_EQ(*codes->data, policy.starts_with("gptq/8")
                                  ? std::vector<uint8_t>(fit.codes.codes.begin(), fit.codes.codes.end())
                                  : packed_int4(fit.codes.codes));
      EXPECT_EQ(reals(*constant_named(made.graph, "y/w_scale")), fit.codes.scale);
      const Value* factor = constant_named(made.graph, "y/x_factor");
      ASSERT_EQ(factor != nullptr, !fit.factor.empty()) << s.step << policy;
      if (factor != nullptr) {
        EXPECT_EQ(reals(*factor), fit.factor);
      }
      EXPECT_EQ(made.graph.nodes.size(), fit.factor.empty() ? 1u : 2u);
      // The program computes with these weights, in float32 sums of at most 18 terms.
      std::vector<float> v = grouped_reals(fit.codes, layout, block);
      const auto first = bytes_of(std::vector<float>(x.begin(), x.begin() + elements_of(s.x)));
      const std::vector<float> y = reals(run_graph(made.graph, {first}).values[size_t(made.graph.outputs[0].value)]);
      for (int64_t k = 0; k < layout.channels && !fit.factor.empty(); ++k)
        for (int64_t r = 0; r < layout.terms; ++r) {
          const size_t per_group = fit.factor.size() / problem.moments.hessian.size();
          const size_t group = size_t(k) / (size_t(layout.channels) / problem.moments.hessian.size());
          v[layout.at(k, r)] *= fit.factor[group * per_group + size_t(r) % per_group];
        }
      Graph direct = graph;
      set_reals(direct.values[size_t(direct.nodes[0].inputs[1])], v);
      const std::vector<float> expected = reals(run_graph(direct, {first}).values[size_t(direct.outputs[0].value)]);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 20 * 18 * 0x1p-22) << s.step << policy;
    }
  }
}

// Codes are fitted to one layer's inputs, so two layers that share weights have codes of their own.
TEST(fit_weights, layers_that_share_weights_have_codes_of_their_own) {
  std::mt19937 random(9);
  const Graph graph = parse(
      "graph \"t\" batch=1\nlayer \"a\" source=\"OP\"\nlayer \"b\" source=\"OP\"\nvalue %x float32 [1, 3, 8] batched\n"
      "value %w float32 [8, 8] region=weights data=float32 {" +
      numbers_text(random, 64) +
      "}\nvalue %h float32 [1, 3, 8] batched\nvalue %y float32 [1, 3, 8] batched\ninput \"x\" %x\noutput \"y\" %y\n"
      "%h = dense(%x, %w) name=\"a\" layer=\"a\"\n%y = dense(%h, %w) name=\"b\" layer=\"b\"\n");
  std::vector<float> x(4 * 24);
  for (float& v : x) v = uniform_weight(random);
  const CalibrationOptions options = {.fitted = [](const Node&) { return true; }};
  const Calibration found = calibrate(graph, make_samples(graph, {array_of({4, 3, 8}, x)}), options);
  const Compiled made = compiled_fit(graph, &found, "gptq/2/8_from_float32");
  const std::vector<float> w = reals(graph.values[size_t(graph.nodes[0].inputs[1])]);
  ASSERT_EQ(made.graph.nodes.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const InputMoments& moments = *found.moments.at(i == 0 ? "h" : "y");
    const Fit fit =
        gptq_fit({.w = w, .layout = {8, 8, 8, 1}, .moments = moments, .block = 8, .bits = 2, .name = "t"}, false);
    EXPECT_EQ(*made.graph.values[size_t(made.graph.nodes[i].inputs[1])].data, packed_int4(fit.codes.codes)) << i;
  }
  EXPECT_NE(*made.graph.values[size_t(made.graph.nodes[0].inputs[1])].data,
            *made.graph.values[size_t(made.graph.nodes[1].inputs[1])].data);
}

TEST(fit_weights, a_policy_without_samples_is_refused_in_one_sentence) {
  std::mt19937 random(8);
  const Graph graph = conv_graph(kConvs[3], random);
  for (const char* policy : {"gptq/4/32_from_float32", "awq/4/-1_from_bfloat16"}) {
    try {
      compiled_fit(graph, nullptr, policy);
      FAIL() << policy;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("l: policy " + std::string(policy, 3)), std::string::npos) << text;
      EXPECT_NE(text.find("needs samples of its input"), std::string::npos) << text;
      EXPECT_NE(text.find("--calibrate FILE"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace nacre::test
