// Tests random numbers of ONNX files: their distributions, and that every run draws new ones.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "tests/compile/streamed.h"
#include "tests/importers/onnx_builder.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

constexpr int64_t kDrawn = 4096;

Graph network_of(const OnnxBuilder& b) { return import_onnx(b.finish(), "random.onnx", {}); }

struct Spread {
  double mean = 0, deviation = 0, least = INFINITY, greatest = -INFINITY;
};

Spread spread_of(const std::vector<float>& y) {
  Spread m;
  for (const float v : y) {
    m.mean += double(v) / double(y.size());
    m.least = std::min(m.least, double(v));
    m.greatest = std::max(m.greatest, double(v));
  }
  for (const float v : y) m.deviation += (double(v) - m.mean) * (double(v) - m.mean) / double(y.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// Adds the input x [drawn] to the random numbers, so that the network has an input.
OnnxBuilder drawing(const std::string& op, const std::vector<std::string>& inputs,
                    const std::function<void(OnnxNode&)>& attributes) {
  OnnxBuilder b(22);
  b.input("x", {kDrawn});
  OnnxNode node = b.node(op, inputs, {"r"});
  attributes(node);
  b.node("Add", {"x", "r"}, {"y"});
  b.output("y");
  return b;
}

const std::vector<float> kNothing(kDrawn, 0.0f);

// Allows 5 standard errors of mean and deviation. The deviation's is that of a normal variable; a uniform one has a
// smaller one.
void expect_spread(const Spread& m, double mean, double deviation) {
  EXPECT_NEAR(m.mean, mean, 5 * deviation / std::sqrt(double(kDrawn)));
  EXPECT_NEAR(m.deviation, deviation, 5 * deviation / std::sqrt(2.0 * double(kDrawn)));
}

TEST(random_numbers, uniform_and_normal_numbers) {
  const auto shaped = [](OnnxNode& node) { node.ints("shape", {kDrawn}); };
  const auto bounded = [&](OnnxNode& node) { node.real("low", -1).real("high", 3); };
  const auto moved = [&](OnnxNode& node) { node.real("mean", 2).real("scale", 0.5f); };
  const auto both = [](auto a, auto b) { return [a, b](OnnxNode& node) { a(node), b(node); }; };
  for (const bool like : {false, true}) {
    const std::vector<std::string> inputs = like ? std::vector<std::string>{"x"} : std::vector<std::string>{};
    const std::string end = like ? "Like" : "";
    const auto made = [&](const std::string& op, const std::function<void(OnnxNode&)>& attributes) {
      const std::function<void(OnnxNode&)> all = like ? attributes : both(shaped, attributes);
      return spread_of(Streamed(network_of(drawing(op + end, inputs, all))).run(kNothing));
    };
    const Spread unit = made("RandomUniform", [](OnnxNode&) {}), wide = made("RandomUniform", bounded);
    expect_spread(unit, 0.5, std::sqrt(1.0 / 12));
    expect_spread(wide, 1, 4 * std::sqrt(1.0 / 12));
    EXPECT_GE(wide.least, -1);
    EXPECT_LE(wide.greatest, 3);
    expect_spread(made("RandomNormal", [](OnnxNode&) {}), 0, 1);
    expect_spread(made("RandomNormal", moved), 2, 0.5);
  }
}

TEST(random_numbers, every_run_draws_others_and_a_new_stream_the_first) {
  const OnnxBuilder b = drawing("RandomNormalLike", {"x"}, [](OnnxNode&) {});
  Streamed one(network_of(b)), other(network_of(b));
  EXPECT_EQ(one.stream_bytes(), 16u);
  const std::vector<float> first = one.run(kNothing), second = one.run(kNothing);
  EXPECT_NE(first, second);
  EXPECT_EQ(other.run(kNothing), first);
  EXPECT_EQ(other.run(kNothing), second);
  const OnnxBuilder seeded = drawing("RandomNormalLike", {"x"}, [](OnnxNode& node) { node.real("seed", 2); });
  EXPECT_NE(Streamed(network_of(seeded)).run(kNothing), first);
}

TEST(random_numbers, two_nodes_draw_different_numbers) {
  OnnxBuilder b(22);
  b.input("x", {kDrawn});
  b.node("RandomUniformLike", {"x"}, {"a"});
  b.node("RandomUniformLike", {"x"}, {"b"});
  b.node("Sub", {"a", "b"}, {"y"});
  b.output("y");
  expect_spread(spread_of(Streamed(network_of(b)).run(kNothing)), 0, std::sqrt(1.0 / 6));
}

TEST(random_numbers, bernoulli_has_the_probabilities_that_it_is_given) {
  OnnxBuilder b(22);
  b.input("x", {kDrawn});
  b.node("Bernoulli", {"x"}, {"y"});
  b.output("y");
  Streamed streamed(network_of(b));
  for (const float p : {0.0f, 0.25f, 1.0f}) {
    const std::vector<float> y = streamed.run(std::vector<float>(kDrawn, p));
    const int64_t ones = std::ranges::count(y, 1.0f);
    EXPECT_EQ(ones + std::ranges::count(y, 0.0f), kDrawn);
    EXPECT_NEAR(double(ones), p * double(kDrawn), 5 * std::sqrt(p * (1 - p) * double(kDrawn)));
  }
}

TEST(random_numbers, multinomial_takes_logarithms_of_weights) {
  OnnxBuilder b(22);
  b.input("x", {2, 3});
  b.node("Multinomial", {"x"}, {"i"}).integer("sample_size", kDrawn);
  b.node("Cast", {"i"}, {"y"}).integer("to", ::onnx::TensorProto::FLOAT);
  b.output("y");
  const float half = std::log(0.5f), quarter = std::log(0.25f);
  const std::vector<float> y = Streamed(network_of(b)).run(std::vector<float>{half, quarter, quarter, -40, -40, 0});
  ASSERT_EQ(y.size(), size_t(2 * kDrawn));
  for (const auto& [drawn, p] : {std::pair(0.0f, 0.5), std::pair(1.0f, 0.25), std::pair(2.0f, 0.25)})
    EXPECT_NEAR(double(std::count(y.begin(), y.begin() + kDrawn, drawn)), p * double(kDrawn),
                5 * std::sqrt(p * (1 - p) * double(kDrawn)));
  EXPECT_EQ(std::count(y.begin() + kDrawn, y.end(), 2.0f), kDrawn);
}

TEST(random_numbers, policies_of_16_bits_keep_it_below_1) {
  OnnxBuilder b(22);
  b.input("x", {kDrawn});
  b.node("RandomNormalLike", {"x"}, {"r"});
  b.node("Add", {"x", "r"}, {"y"});
  b.output("y");
  for (const char* policy : {"float16", "bfloat16", "mixed_bfloat16"}) {
    CompileOptions options;
    options.policies = parse_policy_options({.policy = policy});
    const Spread m = spread_of(Streamed(network_of(b), options).run(kNothing));
    EXPECT_LT(m.greatest, 6) << policy;
    EXPECT_GT(m.least, -6) << policy;
    EXPECT_NEAR(m.deviation, 1, 0.1) << policy;
  }
}

TEST(random_numbers, what_makes_no_sense_is_refused) {
  const auto expect_refused = [](const OnnxBuilder& b, const char* why) {
    try {
      network_of(b);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  expect_refused(drawing("RandomUniform", {}, [](OnnxNode&) {}), "has no shape");
  OnnxBuilder b(22);
  b.input("x", {3});
  b.node("Multinomial", {"x"}, {"y"});
  b.output("y");
  expect_refused(b, "does not have two axes");
}

}  // namespace
}  // namespace nacre::tools
