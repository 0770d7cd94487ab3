// nacre compare: the measures, the matching, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/tools/run_tool.h"
#include "tools/npy.h"
#include "tools/report/error_measure.h"

namespace nacre::tools {
namespace {

using Json = nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

NpyArray random_array(std::vector<int64_t> dims, float low, float high, uint32_t seed = 1) {
  std::mt19937 random(seed);
  NpyArray array = {.type = ElementType::kFloat32, .dims = std::move(dims), .data = {}};
  array.data.resize(size_t(array.elements()) * sizeof(float));
  for (int64_t i = 0; i < array.elements(); ++i) {
    const float value = low + (high - low) * (float(random() >> 8) * 0x1p-24f);
    std::memcpy(array.data.data() + size_t(i) * sizeof value, &value, sizeof value);
  }
  return array;
}

class compare : public testing::Test {
 protected:
  void SetUp() override {
    convert(a_, {});
    write_npy(pixels_, random_array({5, 1, 8, 8}, 0, 16));
  }

  void convert(const std::string& model, std::vector<std::string> options) {
    std::vector<std::string> arguments = {"convert", project_path("tools/samples/digits.onnx"),
                                          "-o", model};
    arguments.insert(arguments.end(), options.begin(), options.end());
    ASSERT_EQ(run_tool(arguments).exit_code, 0);
  }

  Json json(const std::string& a, const std::string& b, const std::string& data,
            std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"compare", a, b, "--data", data, "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ToolRun run = run_tool(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? Json::parse(run.out) : Json();
  }

  void expect_refusal(const ToolRun& run, int exit_code, const std::string& part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_EQ(run.err.rfind("nacre: ", 0), 0u) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
  }

  const TemporaryDirectory directory_;
  const std::string a_ = directory_ / "a.nacre", b_ = directory_ / "b.nacre",
                    pixels_ = directory_ / "pixels.npy";
};

TEST_F(compare, a_model_equals_itself_everywhere) {
  const Json result = json(a_, a_, pixels_);
  EXPECT_EQ(result["samples"], 5);
  EXPECT_GE(result["tensors"].size(), 10u);
  EXPECT_TRUE(result["unmatched"].empty());
  for (const Json& tensor : result["tensors"]) {
    EXPECT_EQ(tensor["equal"], true);
    EXPECT_TRUE(tensor["sqnr_db"].is_null());
    EXPECT_EQ(tensor["largest_error"], 0);
    EXPECT_NEAR(tensor["cosine"].get<double>(), 1, 1e-12);
  }
  EXPECT_EQ(result["outputs"][0]["same_largest"], 5);
}

TEST_F(compare, batch_norm_folded_or_not_differs_by_rounding_only) {
  convert(b_, {"--no-fold-bn"});
  const Json result = json(a_, b_, pixels_);
  ASSERT_EQ(result["outputs"].size(), 1u);
  // Folding rounds each weight once more: 2^-24 relative, added up over at most 288 terms in each
  // of 6 layers, which is far below 1e-4 of the largest magnitude, or 80 dB.
  EXPECT_GT(result["outputs"][0]["sqnr_db"].get<double>(), 80);
  EXPECT_LT(result["outputs"][0]["relative_error"].get<double>(), 1e-4);
  EXPECT_EQ(result["outputs"][0]["equal"], false);
  EXPECT_FALSE(result["tensors"].empty());
}

TEST_F(compare, layers_match_by_name_where_tensor_names_were_stripped) {
  convert(b_, {"--strip-names"});
  const Json result = json(a_, b_, pixels_);
  EXPECT_GE(result["tensors"].size(), 10u);
  for (const Json& tensor : result["tensors"]) EXPECT_EQ(tensor["equal"], true) << tensor.dump();
}

TEST_F(compare, batches_give_what_single_samples_give) {
  convert(b_, {"--batch", "2"});
  const Json single = json(a_, a_, pixels_);
  const Json batched = json(b_, b_, pixels_);  // the last run has one row
  EXPECT_EQ(batched["samples"], 5);
  EXPECT_EQ(batched["outputs"][0]["elements"], single["outputs"][0]["elements"]);
}

TEST_F(compare, sorts_by_error_and_writes_a_table) {
  convert(b_, {"--no-fold-bn"});
  const std::string csv = directory_ / "errors.csv";
  const Json result = json(a_, b_, pixels_, {"--sort", "error", "--csv", csv});
  double last = std::numeric_limits<double>::infinity();
  for (const Json& tensor : result["tensors"]) {
    EXPECT_LE(tensor["relative_error"].get<double>(), last);
    last = tensor["relative_error"].get<double>();
  }
  const std::vector<uint8_t> bytes = read_bytes(csv);
  EXPECT_EQ(size_t(std::ranges::count(bytes, '\n')),
            1 + result["tensors"].size() + result["outputs"].size());
  EXPECT_TRUE(has(run_tool({"compare", a_, b_, "--data", pixels_}).out, "SQNR dB"));
}

TEST_F(compare, arrays_are_found_by_name) {
  const std::string npz = directory_ / "data.npz";
  write_npz(npz,
            {{"pixels", random_array({2, 1, 8, 8}, 0, 16)}, {"labels", random_array({2}, 0, 9)}});
  const Json result = json(a_, a_, npz);
  EXPECT_EQ(result["samples"], 2);
  EXPECT_EQ(result["notes"].size(), 1u);
  write_npz(npz,
            {{"images", random_array({2, 1, 8, 8}, 0, 16)}, {"labels", random_array({2}, 0, 9)}});
  expect_refusal(run_tool({"compare", a_, a_, "--data", npz}), 3, "no array for the input pixels");
}

TEST_F(compare, refuses_what_does_not_fit_in_one_sentence) {
  convert(b_, {"--io-layout", "nhwc"});
  expect_refusal(run_tool({"compare", a_, b_, "--data", pixels_}), 3, "[1, 8, 8, 1]");
  write_npy(directory_ / "wide.npy", random_array({2, 1, 8, 9}, 0, 1));
  expect_refusal(run_tool({"compare", a_, a_, "--data", directory_ / "wide.npy"}), 3, "wide.npy");
  NpyArray codes = {
      .type = ElementType::kInt8, .dims = {1, 1, 8, 8}, .data = std::vector<uint8_t>(64)};
  write_npy(directory_ / "codes.npy", codes);
  expect_refusal(run_tool({"compare", a_, a_, "--data", directory_ / "codes.npy"}), 3, "int8");
  expect_refusal(run_tool({"compare", a_, a_, "--data", a_}), 2, "neither .npz nor .npy");
  expect_refusal(run_tool({"compare", a_, directory_ / "none", "--data", pixels_}), 5,
                 "cannot be opened");
  EXPECT_EQ(run_tool({"compare", a_, a_}).exit_code, 2);
}

TEST_F(compare, an_int8_network_is_judged_by_its_float_sibling) {
  const std::string models = shared_path("models/mlperf_tiny/");
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "no shared data";
  const std::string f = directory_ / "f.nacre", q = directory_ / "q.nacre",
                    data = directory_ / "images.npy";
  ASSERT_EQ(run_tool({"convert", models + "vww_96_float.tflite", "-o", f}).exit_code, 0);
  ASSERT_EQ(run_tool({"convert", models + "vww_96_int8.tflite", "-o", q}).exit_code, 0);
  write_npy(data, random_array({1, 96, 96, 3}, 0, 1));
  const Json result = json(f, q, data);
  ASSERT_EQ(result["notes"].size(), 1u);
  EXPECT_TRUE(has(result["notes"][0], "quantized for B")) << result["notes"];
  EXPECT_GE(result["tensors"].size(), 28u);
  // The first convolution sees inputs rounded to 1/255 and gives codes of 8 bits: some 6 dB a bit,
  // less its clamp.
  EXPECT_GT(result["tensors"][0]["sqnr_db"].get<double>(), 15);
  EXPECT_GT(result["outputs"][0]["cosine"].get<double>(), 0.9);
  expect_refusal(run_tool({"compare", q, f, "--data", data}), 4, "but float32");
}

TEST(error_measure, follows_its_formulas) {
  ErrorMeasure e;
  const float a[] = {3, -4, 0}, b[] = {3, -3, 1};
  e.add(a, b);
  EXPECT_NEAR(e.sqnr_db(), 10 * std::log10(25.0 / 2), 1e-12);
  EXPECT_EQ(e.largest(), 1);
  EXPECT_EQ(e.relative(), 0.25);
  EXPECT_NEAR(e.cosine(), 21 / std::sqrt(25.0 * 19), 1e-12);
  EXPECT_EQ(e.elements(), 3u);
}

TEST(error_measure, two_parts_are_one_whole) {
  const float a[] = {1, 2, 3, 4}, b[] = {1, 2.5, 3, 3};
  ErrorMeasure whole, parts;
  whole.add(a, b);
  parts.add(std::span(a).first(1), std::span(b).first(1));
  parts.add(std::span(a).subspan(1), std::span(b).subspan(1));
  EXPECT_EQ(whole.sqnr_db(), parts.sqnr_db());
  EXPECT_EQ(whole.cosine(), parts.cosine());
}

TEST(error_measure, edges) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  ErrorMeasure none, zeros, wrong, same;
  EXPECT_TRUE(none.equal());
  const float zero[] = {0, 0}, one[] = {1, 0};
  zeros.add(zero, one);
  EXPECT_EQ(zeros.sqnr_db(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(zeros.relative(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(zeros.cosine(), 0);
  const float a[] = {kNaN, 1}, b[] = {2, 1}, c[] = {kInfinity, kNaN};
  wrong.add(a, b);
  EXPECT_EQ(wrong.not_finite(), 1u);
  EXPECT_FALSE(wrong.equal());
  same.add(c, c);
  EXPECT_TRUE(same.equal());
}

}  // namespace
}  // namespace nacre::tools
