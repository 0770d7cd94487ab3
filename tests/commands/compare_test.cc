// Tests nacre compare: its measures, its matching of tensors, and its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/evaluate/decode.h"
#include "tools/evaluate/error_measure.h"
#include "tools/evaluate/tensor_match.h"
#include "tools/files/npy.h"
#include "tools/model/writer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

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
    std::vector<std::string> arguments = {"convert", project_path("tools/samples/digits.onnx"), "-o", model};
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
  const std::string a_ = directory_ / "a.nacre", b_ = directory_ / "b.nacre", pixels_ = directory_ / "pixels.npy";
};

TEST_F(compare, indices_choose_the_samples) {
  convert(b_, {"--policy", "int8_from_float32"});
  const NpyArray all = random_array({5, 1, 8, 8}, 0, 16);
  NpyArray chosen = {.type = all.type, .dims = {2, 1, 8, 8}, .data = {}};
  const size_t bytes = all.data.size() / 5;
  chosen.data.resize(2 * bytes);
  std::memcpy(chosen.data.data(), all.data.data() + 3 * bytes, bytes);
  std::memcpy(chosen.data.data() + bytes, all.data.data(), bytes);
  write_npy(directory_ / "chosen.npy", chosen);
  NpyArray rows = {.type = ElementType::kInt32, .dims = {2}, .data = std::vector<uint8_t>{3, 0, 0, 0, 0, 0, 0, 0}};
  write_npy(directory_ / "rows.npy", rows);
  const std::vector<std::string> words = {"--indices", directory_ / "rows.npy"};
  EXPECT_EQ(json(a_, b_, pixels_, words), json(a_, b_, directory_ / "chosen.npy"));
  rows.data.data()[0] = 5;
  write_npy(directory_ / "rows.npy", rows);
  expect_refusal(run_tool({"compare", a_, b_, "--data", pixels_, words[0], words[1]}), 3, "");
}

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
  // Folding rounds each weight once more, 2^-24 relative. Over at most 288 terms in each of 6 layers that is far
  // below 1e-4 of the largest magnitude, or 80 dB.
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

TEST_F(compare, the_most_damaged_layer_stands_first) {
  convert(b_, {"--no-fold-bn"});
  const Json result = json(a_, b_, pixels_);
  double last = -std::numeric_limits<double>::infinity();
  for (const Json& tensor : result["tensors"]) {
    const bool equal = tensor["equal"] == true;
    const double now = equal ? std::numeric_limits<double>::infinity() : tensor["sqnr_db"].get<double>();
    EXPECT_GE(now, last);
    last = now;
  }
  const Json executed = json(a_, b_, pixels_, {"--sort", "execution"});
  ASSERT_EQ(executed["tensors"].size(), result["tensors"].size());
  for (size_t i = 1; i < executed["tensors"].size(); ++i)
    EXPECT_GE(executed["tensors"][i]["step"], executed["tensors"][i - 1]["step"]);
}

TEST_F(compare, a_table_can_go_to_standard_output) {
  const ToolRun run = run_tool({"compare", a_, a_, "--data", pixels_, "--csv", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.rfind("kind,step,layer,", 0), 0u);
  size_t lines = 0;
  std::set<ptrdiff_t> commas;  // every line must have the same number
  std::istringstream text(run.out);
  for (std::string line; std::getline(text, line); ++lines) commas.insert(std::ranges::count(line, ','));
  EXPECT_EQ(commas.size(), 1u);
  EXPECT_EQ(lines, 1 + json(a_, a_, pixels_)["tensors"].size() + 1);
}

TEST_F(compare, whole_numbers_are_cast_where_asked_for) {
  NpyArray pixels = {.type = ElementType::kUint8, .dims = {3, 1, 8, 8}, .data = std::vector<uint8_t>(192, 7)};
  write_npy(directory_ / "whole.npy", pixels);
  expect_refusal(run_tool({"compare", a_, a_, "--data", directory_ / "whole.npy"}), 3, "--cast-inputs");
  EXPECT_EQ(json(a_, a_, directory_ / "whole.npy", {"--cast-inputs"})["samples"], 3);
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
  EXPECT_EQ(size_t(std::ranges::count(bytes, '\n')), 1 + result["tensors"].size() + result["outputs"].size());
  EXPECT_TRUE(has(run_tool({"compare", a_, b_, "--data", pixels_}).out, "SQNR dB"));
}

TEST_F(compare, arrays_are_found_by_name) {
  const std::string npz = directory_ / "data.npz";
  write_npz(npz, {{"pixels", random_array({2, 1, 8, 8}, 0, 16)}, {"labels", random_array({2}, 0, 9)}});
  const Json result = json(a_, a_, npz);
  EXPECT_EQ(result["samples"], 2);
  EXPECT_EQ(result["notes"].size(), 1u);
  write_npz(npz, {{"images", random_array({2, 1, 8, 8}, 0, 16)}, {"labels", random_array({2}, 0, 9)}});
  expect_refusal(run_tool({"compare", a_, a_, "--data", npz}), 3, "no array for the input pixels");
}

TEST_F(compare, refuses_what_does_not_fit_in_one_sentence) {
  convert(b_, {"--io-layout", "nhwc"});
  expect_refusal(run_tool({"compare", a_, b_, "--data", pixels_}), 3, "[1, 8, 8, 1]");
  write_npy(directory_ / "wide.npy", random_array({2, 1, 8, 9}, 0, 1));
  expect_refusal(run_tool({"compare", a_, a_, "--data", directory_ / "wide.npy"}), 3, "wide.npy");
  NpyArray codes = {.type = ElementType::kInt8, .dims = {1, 1, 8, 8}, .data = std::vector<uint8_t>(64)};
  write_npy(directory_ / "codes.npy", codes);
  expect_refusal(run_tool({"compare", a_, a_, "--data", directory_ / "codes.npy"}), 3, "int8");
  expect_refusal(run_tool({"compare", a_, a_, "--data", a_}), 2, "neither .npz nor .npy");
  expect_refusal(run_tool({"compare", a_, directory_ / "none", "--data", pixels_}), 5, "cannot be opened");
  EXPECT_EQ(run_tool({"compare", a_, a_}).exit_code, 2);
}

TEST_F(compare, an_int8_network_is_judged_by_its_float_sibling) {
  const std::string models = shared_path("models/mlperf_tiny/");
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "NACRE_SHARED has no " << models;
  const std::string f = directory_ / "f.nacre", q = directory_ / "q.nacre", data = directory_ / "images.npy";
  ASSERT_EQ(run_tool({"convert", models + "vww_96_float.tflite", "-o", f}).exit_code, 0);
  ASSERT_EQ(run_tool({"convert", models + "vww_96_int8.tflite", "-o", q}).exit_code, 0);
  write_npy(data, random_array({1, 96, 96, 3}, 0, 1));
  const Json result = json(f, q, data, {"--sort", "execution"});
  ASSERT_EQ(result["notes"].size(), 1u);
  EXPECT_TRUE(has(result["notes"][0], "quantized, code = round(x / 0.00392")) << result["notes"];
  EXPECT_GE(result["tensors"].size(), 28u);
  // The first convolution's inputs are rounded to 1/255, and its outputs are 8-bit codes: some 6 dB a bit, less its
  // clamp.
  EXPECT_GT(result["tensors"][0]["sqnr_db"].get<double>(), 15);
  EXPECT_GT(result["outputs"][0]["cosine"].get<double>(), 0.9);
  uint64_t saturated = 0;
  for (const Json& tensor : result["tensors"]) saturated += tensor["saturated"].get<uint64_t>();
  EXPECT_GT(saturated, 0u);  // noise of full range exceeds the ranges that images gave
  // With the models exchanged the same samples are compared, and the errors are as large.
  const Json reverse = json(q, f, data, {"--sort", "execution"});
  ASSERT_EQ(reverse["tensors"].size(), result["tensors"].size());
  for (size_t i = 0; i < result["tensors"].size(); ++i)
    EXPECT_EQ(reverse["tensors"][i]["largest_error"], result["tensors"][i]["largest_error"]);
}

// Makes an activation of 8 values per row.
Value eight(const std::string& name, ElementType type = ElementType::kFloat32) {
  Value value;
  value.name = name;
  value.type = type;
  value.dims = {1, 8};
  value.batched = true;
  return value;
}

// Makes a model with one chain of steps over [1, 8] float32 values: {layer of the op, name of its output}.
std::vector<uint8_t> path_model(const std::vector<std::pair<std::string, std::string>>& steps) {
  Graph graph = parse("");
  const auto value = [&](const std::string& name) { return graph.add(eight(name)); };
  ValueId x = value("x");
  graph.inputs = {{"x", x, ""}};
  for (const auto& [layer, name] : steps) {
    const auto known = std::ranges::find(graph.layers, layer, &Layer::name);
    Node node = {.op = Op::kAdd, .name = name, .words = {}, .inputs = {x, x}, .outputs = {value(name)}};
    node.layer = known != graph.layers.end() ? int(known - graph.layers.begin()) : graph.add_layer({layer, "Add", {}});
    x = node.outputs[0];
    graph.nodes.push_back(node);
  }
  graph.outputs = {{"y", x, ""}};
  plan_memory(graph, {});
  const ProgramSource source = {.graph = &graph};
  return write_model({&source, 1});
}

TEST(match_tensors, the_layers_final_value_counts_whatever_stands_beside_it) {
  const LoadedModel plain(path_model({{"one", "y"}, {"two", "z"}}), "plain", "");
  const LoadedModel other(path_model({{"one", "x/bfloat16"},  // the input in another type: nobody compares it
                                      {"one", "y/bfloat16"},  // what layer one makes first
                                      {"one", "y"},           // and gives out
                                      {"two", "y/codes"},     // in the form that layer two reads
                                      {"two", "y/codes/real"},
                                      {"two", "z/float16"}}),
                          "other", "");
  const ProgramReport a(plain, 0), b(other, 0);
  const TensorMatch match = match_tensors(a, b);
  ASSERT_EQ(match.pairs.size(), 2u);
  EXPECT_TRUE(match.unmatched.empty());
  EXPECT_EQ(other.tensor_name(match.pairs[0].b), "y");
  EXPECT_EQ(other.tensor_name(match.pairs[1].b), "z/float16");
  const TensorMatch reverse = match_tensors(b, a);
  ASSERT_EQ(reverse.pairs.size(), 2u);
  EXPECT_EQ(reverse.pairs[0].a, match.pairs[0].b);
}

TEST(source_name, leaves_what_the_network_said) {
  EXPECT_EQ(source_name("conv1"), "conv1");
  EXPECT_EQ(source_name("conv1/bfloat16"), "conv1");
  EXPECT_EQ(source_name("conv1/codes/real"), "conv1");
  EXPECT_EQ(source_name("model/conv1/Conv2D"), "model/conv1/Conv2D");
  EXPECT_EQ(source_name("block/float16/conv1"), "block/float16/conv1");
  EXPECT_EQ(source_name("/float32"), "/float32");  // no name would be left
  EXPECT_EQ(source_name(""), "");
}

TEST(decode, every_type_means_what_it_says) {
  const auto of = [](ElementType type, std::vector<uint8_t> bytes, int64_t count, std::optional<Scales> scales = {}) {
    return decode({.type = type, .dims = {count}, .bytes = bytes, .scales = std::move(scales)});
  };
  using Reals = std::vector<double>;
  EXPECT_EQ(of(ElementType::kInt8, {0x80, 0x7F}, 2), (Reals{-128, 127}));
  EXPECT_EQ(of(ElementType::kInt8, {0x80, 0x7F}, 2, Scales{{0.5f}, {-128}}), (Reals{0, 127.5}));
  EXPECT_EQ(of(ElementType::kInt4, {0x87, 0x01}, 3), (Reals{7, -8, 1}));  // low nibble first
  EXPECT_EQ(of(ElementType::kUint4, {0x87}, 2), (Reals{7, 8}));
  EXPECT_EQ(of(ElementType::kFloat16, {0x00, 0x3C, 0xFF, 0x7B}, 2), (Reals{1, 65504}));
  EXPECT_EQ(of(ElementType::kBfloat16, {0x80, 0xBF}, 1), (Reals{-1}));
  EXPECT_EQ(of(ElementType::kFloat8E4M3, {0x7E}, 1, Scales{{0.25f}, {0}}), (Reals{112}));  // 448 / 4
  EXPECT_EQ(of(ElementType::kInt8, {1, 1, 1, 1}, 4, Scales{{1, 2, 4, 8}, {0, 0, 0, 1}, 0}), (Reals{1, 2, 4, 0}));
}

TEST(meaning_of, float8_codes_take_the_scale_of_the_step_that_makes_them) {
  for (const ScaleForm form : {ScaleForm::kStep, ScaleForm::kReciprocal}) {
    Graph graph = parse("");
    const ValueId x = graph.add(eight("x")), q = graph.add(eight("x/float8", ElementType::kFloat8E4M3));
    Node node = {.op = Op::kQuantize, .name = "n", .words = {}, .inputs = {x, kNone}, .outputs = {q}};
    node.inputs[1] = graph.constant("scale", {1}, std::vector<float>{0.25f});
    set_integer(node, "form", int(form));
    graph.nodes = {node};
    graph.inputs = {{"x", x, ""}};
    graph.outputs = {{"q", q, ""}};
    plan_memory(graph, {});
    const ProgramSource source = {.graph = &graph};
    const LoadedModel model(write_model({&source, 1}), "test", "");
    const ProgramReport report(model, 0);
    const std::optional<Scales> scales = meaning_of(report, report.view().outputs[0]);
    ASSERT_TRUE(scales);
    EXPECT_EQ(scales->scale[0], form == ScaleForm::kStep ? 0.25f : 4.0f);
    EXPECT_FALSE(meaning_of(report, report.view().inputs[0]));
  }
}

TEST(saturated, counts_the_ends_of_a_type_but_not_its_zero) {
  const auto of = [](ElementType type, std::vector<uint8_t> bytes, int64_t count, std::optional<Scales> scales = {}) {
    return saturated({.type = type, .dims = {count}, .bytes = bytes, .scales = std::move(scales)});
  };
  EXPECT_EQ(of(ElementType::kInt8, {0x80, 0x7F, 0, 0x81}, 4, Scales{{1}, {0}}), 2u);
  EXPECT_EQ(of(ElementType::kInt8, {0x80, 0x7F, 0, 0x81}, 4, Scales{{1}, {-128}}), 1u);  // -128 is exactly 0
  EXPECT_EQ(of(ElementType::kInt8, {0x80, 0x7F}, 2), 0u);                                // plain integers
  EXPECT_EQ(of(ElementType::kFloat8E4M3, {0x7E, 0xFE, 0x7D, 0x7F}, 4), 2u);              // +-448; the last is NaN
  EXPECT_EQ(of(ElementType::kFloat16, {0xFF, 0x7B, 0x00, 0xFC, 0x00, 0x3C}, 3), 2u);     // 65504, -infinity, 1
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
  const double wide_a[] = {1, 2, 3, 4}, wide_b[] = {1, 2.5, 3, 3};
  ErrorMeasure whole, parts, wide;
  wide.add(wide_a, wide_b);
  whole.add(a, b);
  parts.add(std::span(a).first(1), std::span(b).first(1));
  parts.add(std::span(a).subspan(1), std::span(b).subspan(1));
  EXPECT_EQ(whole.sqnr_db(), parts.sqnr_db());
  EXPECT_EQ(whole.cosine(), parts.cosine());
  EXPECT_EQ(whole.sqnr_db(), wide.sqnr_db());
}

TEST(error_measure, edges) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
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
