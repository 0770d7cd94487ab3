// Tests nacre eval: metrics against their definitions, the table on the digits network, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/evaluate/evaluation.h"
#include "tools/evaluate/metrics.h"
#include "tools/files/npy.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

// Computes P(positive scores higher) + P(equal) / 2 by comparing every pair.
double auc_by_pairs(const std::vector<double>& scores, const std::vector<int64_t>& labels) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  return won / pairs;
}

TEST(auc, equals_the_share_of_pairs_that_are_in_order) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 2 + random() % 60;
    std::vector<double> scores(count);
    std::vector<int64_t> labels(count);
    for (size_t i = 0; i < count; ++i) {
      scores[i] = double(random() % (round % 2 == 0 ? 5 : 1000));  // many ties, few ties
      labels[i] = int64_t(random() % 2);
    }
    labels[0] = 0;
    labels[1] = 1;
    // Both quotients are of integers and halves far below 2^53, so sums are exact and only the division rounds.
    EXPECT_DOUBLE_EQ(auc(scores, labels), auc_by_pairs(scores, labels)) << round;
  }
}

TEST(auc, ends_and_ties) {
  const std::vector<int64_t> labels = {0, 0, 1, 1};
  EXPECT_EQ(auc(std::vector<double>{1, 2, 3, 4}, labels), 1);
  EXPECT_EQ(auc(std::vector<double>{3, 4, 1, 2}, labels), 0);
  EXPECT_EQ(auc(std::vector<double>{7, 7, 7, 7}, labels), 0.5);
}

TEST(anomaly_scores, are_mean_squared_reconstruction_errors_of_autoencoders) {
  const ScoredSamples coder = {.samples = 2, .outputs = {1, 2, 3, 0, 0, 0}, .inputs = {1, 2, 6, 3, 0, 0}};
  EXPECT_EQ(anomaly_scores(coder), (std::vector<double>{3, 3}));
  const ScoredSamples two = {.samples = 2, .outputs = {0.25, 0.75, 0.5, 0.5}, .inputs = {}};
  EXPECT_EQ(anomaly_scores(two), (std::vector<double>{0.75, 0.5}));
  const ScoredSamples one = {.samples = 2, .outputs = {0.25, 0.75}, .inputs = {}};
  EXPECT_EQ(anomaly_scores(one), (std::vector<double>{0.25, 0.75}));
  const ScoredSamples classes = {.samples = 1, .outputs = {1, 2, 3}, .inputs = {1, 2, 3, 4}};
  EXPECT_THROW(anomaly_scores(classes), Error);
}

TEST(position_of, ties_go_to_the_first) {
  const std::vector<double> outputs = {1, 3, 3, 2};
  EXPECT_EQ(position_of(outputs, 1), 0u);
  EXPECT_EQ(position_of(outputs, 2), 1u);
  EXPECT_EQ(position_of(outputs, 3), 2u);
  EXPECT_EQ(position_of(outputs, 0), 3u);
}

TEST(score, counts_ranks_and_averages_by_definition) {
  const ScoredSamples samples = {.samples = 3, .outputs = {1, 3, 2, 5, 4, 0, 0, 1, 2}, .inputs = {}};
  const Labels labels = {.classes = {1, 1, 0}, .targets = {}};
  EXPECT_EQ(score(parse_metric("top1"), samples, labels).right, 1u);
  EXPECT_EQ(score(parse_metric("top2"), samples, labels).right, 2u);
  EXPECT_EQ(score(parse_metric("top3"), samples, labels).value, 1);
  EXPECT_EQ(score(parse_metric("accuracy"), samples, labels).right, 1u);
  const Labels targets = {.classes = {}, .targets = {1, 3, 2, 5, 4, 0, 0, 1, 5}};
  EXPECT_EQ(score(parse_metric("mse"), samples, targets).value, 1);
  EXPECT_DOUBLE_EQ(score(parse_metric("mae"), samples, targets).value, 1.0 / 3);
  const ScoredSamples binary = {.samples = 4, .outputs = {0.4, 0.6, 0.5, 0.9}, .inputs = {}};
  EXPECT_EQ(score(parse_metric("accuracy"), binary, {.classes = {0, 1, 1, 0}, .targets = {}}).right, 2u);
}

TEST(labels_for, one_hot_rows_are_classes) {
  const ScoredSamples samples = {.samples = 2, .outputs = {1, 3, 2, 5, 4, 0}, .inputs = {}};
  const auto classes = [&](std::vector<float> numbers, std::vector<int64_t> dims) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
    const NpyArray array = {.type = ElementType::kFloat32,
                            .dims = std::move(dims),
                            .data = std::vector<uint8_t>(bytes, bytes + numbers.size() * sizeof numbers[0]),
                            .place = "y.npy"};
    const LabelledSet set = {.data = {}, .labels = array, .metric_name = "top1", .metric = parse_metric("top1")};
    return labels_for(set, samples).classes;
  };
  EXPECT_EQ(classes({0, 0, 1, 1, 0, 0}, {2, 3}), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(classes({2, 0}, {2}), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(classes({2, 0}, {2, 1}), (std::vector<int64_t>{2, 0}));
  EXPECT_THROW(classes({0, 1, 1, 1, 0, 0}, {2, 3}), Error);
  EXPECT_THROW(classes({0, 0, 0, 1, 0, 0}, {2, 3}), Error);
}

TEST(score, outputs_that_are_not_finite_are_wrong_and_never_ranked) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const ScoredSamples samples = {.samples = 2, .outputs = {kNaN, 1, 0, 1}, .inputs = {}};
  const Labels labels = {.classes = {1, 1}, .targets = {}};
  const Score top = score(parse_metric("top1"), samples, labels);
  EXPECT_EQ(top.right, 1u);
  EXPECT_EQ(top.not_finite, 1u);
  EXPECT_TRUE(std::isnan(score(parse_metric("auc"), samples, {.classes = {0, 1}, .targets = {}}).value));
  EXPECT_TRUE(std::isnan(score(parse_metric("mse"), samples, {.classes = {}, .targets = {0, 0, 0, 0}}).value));
}

TEST(drop, is_positive_where_a_model_is_worse) {
  EXPECT_EQ(drop(parse_metric("top1"), 0.75, 0.5), 0.25);
  EXPECT_EQ(drop(parse_metric("mse"), 0.5, 0.75), 0.25);
}

TEST(parse_metric, refuses_what_is_none) {
  EXPECT_EQ(parse_metric("top5").k, 5);
  for (const char* wrong : {"", "top", "top0", "top-1", "top1x", "f1", "to", "TOP1", "top99999999999"})
    EXPECT_THROW(parse_metric(wrong), Error) << wrong;
}

TEST(output_damage, is_zero_for_equals_and_grows_with_distance) {
  const ScoredSamples a = {.samples = 2, .outputs = {0.25, 0.75, 0.5, 0.5}, .inputs = {}};
  ScoredSamples near = a, far = a;
  near.outputs = {0.3, 0.7, 0.5, 0.5};
  far.outputs = {0.75, 0.25, 0.5, 0.5};
  EXPECT_EQ(output_damage(a, a), 0);
  EXPECT_LT(output_damage(a, near), output_damage(a, far));
  // The mean over two samples: KL = 1/4 log(1/3) + 3/4 log 3 = log(3) / 2, and 0.
  EXPECT_DOUBLE_EQ(output_damage(a, far), std::log(3.0) / 4);
  const ScoredSamples reals = {.samples = 1, .outputs = {3, -4}, .inputs = {}},
                      others = {.samples = 1, .outputs = {3, -3}, .inputs = {}};
  EXPECT_DOUBLE_EQ(output_damage(reals, others), 1.0 / 25);
}

class eval : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", model_}).exit_code, 0);
  }

  ToolRun run(std::vector<std::string> models, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"eval"};
    arguments.insert(arguments.end(), models.begin(), models.end());
    arguments.insert(arguments.end(), {"--data", images_, "--cast-inputs"});
    if (std::ranges::find(options, "--labels") == options.end())
      arguments.insert(arguments.end(), {"--labels", labels_});
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_tool(arguments);
  }

  Json json(std::vector<std::string> models, std::vector<std::string> options = {}) {
    options.push_back("--json");
    const ToolRun result = run(std::move(models), std::move(options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? Json::parse(result.out) : Json();
  }

  void expect_refusal(const ToolRun& result, int exit_code, const std::string& part) {
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_EQ(result.err.rfind("nacre: ", 0), 0u) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }

  template <class T>
  std::string write(const std::string& name, std::vector<int64_t> dims, const std::vector<T>& values) {
    NpyArray array = {.type = Element<T>::kType, .dims = std::move(dims), .data = {}};
    array.data.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
    write_npy(directory_ / name, array);
    return directory_ / name;
  }

  const TemporaryDirectory directory_;
  const std::string model_ = directory_ / "digits.nacre", images_ = project_path("tools/samples/digits_images.npy"),
                    labels_ = project_path("tools/samples/digits_labels.npy"),
                    indices_ = project_path("tools/samples/digits_test.npy");
};

TEST_F(eval, reads_444_of_the_450_test_images_right) {
  const Json result = json({model_}, {"--indices", indices_});
  EXPECT_EQ(result["samples"], 450);
  const Json& row = result["models"][0];
  EXPECT_EQ(row["right"], 444);
  EXPECT_EQ(row["total"], 450);
  EXPECT_DOUBLE_EQ(row["value"].get<double>(), 444.0 / 450);
  EXPECT_EQ(row["drop"], 0);
  EXPECT_EQ(row["file_bytes"], std::filesystem::file_size(model_));
  EXPECT_GT(row["arena_bytes"], 0);
  EXPECT_GE(row["median_us"], 0);
  EXPECT_EQ(json({model_}, {"--indices", indices_, "--metric", "top10"})["models"][0]["right"], 450);
}

TEST_F(eval, names_the_kernels_that_run_picks) {
  const auto of_run = [&](const std::string& kernels) {
    return Json::parse(run_tool({"run", model_, "--seed", "1", "--json", "--kernels", kernels}).out)["kernels"];
  };
  for (const std::string& kernels : {std::string("auto"), best_set(), std::string("reference")}) {
    const Json row = json({model_}, {"--indices", indices_, "--kernels", kernels})["models"][0];
    EXPECT_EQ(row["kernels"], of_run(kernels)) << kernels;
    EXPECT_EQ(row["threads"], 1);
    EXPECT_EQ(row["right"], 444);
  }
  EXPECT_EQ(json({model_}, {"--threads", "2"})["models"][0]["threads"], 2);
  const ToolRun unknown = run_tool({"eval", model_, "--data", images_, "--labels", labels_, "--kernels", "sse1"});
  EXPECT_EQ(unknown.exit_code, 2);
}

TEST_F(eval, batches_score_as_single_samples_do) {
  const std::string batched = directory_ / "batched.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", batched, "--batch", "7"}).exit_code,
            0);
  // 450 = 64 * 7 + 2. Fast kernels split sums by a step's shape, so their float results would differ in the last
  // bits.
  const Json result = json({model_, batched}, {"--indices", indices_, "--kernels", "reference"});
  EXPECT_EQ(result["models"][1]["right"], 444);
  EXPECT_EQ(result["models"][1]["output_damage"], 0);
}

// Folding a batch norm rounds weights once more, so the two models' errors differ in the last digits. In one of the
// two orders that is a drop, however small.
TEST_F(eval, a_drop_beyond_the_limit_fails_after_the_table) {
  const std::string other = directory_ / "unfolded.nacre";
  ASSERT_EQ(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", other, "--no-fold-bn"}).exit_code, 0);
  std::vector<float> targets(10, 0.5f);
  const std::vector<std::string> options = {"--indices", write<int32_t>("one.npy", {1}, {0}),
                                            "--metric",  "mse",
                                            "--labels",  write<float>("targets.npy", {1, 10}, targets)};
  const Json result = json({model_, other}, options);
  const double drop = result["models"][1]["drop"].get<double>();
  ASSERT_NE(drop, 0);
  const std::vector<std::string> worse = drop > 0 ? std::vector{model_, other} : std::vector{other, model_},
                                 better = {worse[1], worse[0]};
  std::vector<std::string> limited = options;
  limited.insert(limited.end(), {"--max-drop", "0"});
  const ToolRun failed = run(worse, limited);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.out.find(worse[1].substr(worse[1].size() - 8)), std::string::npos) << "the table comes first";
  EXPECT_NE(failed.err.find("more than 0 is not allowed"), std::string::npos) << failed.err;
  EXPECT_EQ(run(better, limited).exit_code, 0);
  limited.back() = "1";
  EXPECT_EQ(run(worse, limited).exit_code, 0);
}

TEST_F(eval, a_model_over_a_limit_of_bytes_or_time_fails) {
  const std::vector<std::string> one = {"--indices", write<int32_t>("few.npy", {4}, {0, 1, 2, 3})};
  const auto limited = [&](const std::string& name, const std::string& value) {
    std::vector<std::string> options = one;
    options.insert(options.end(), {name, value});
    return run({model_}, options);
  };
  const uint64_t bytes = json({model_}, one)["models"][0]["file_bytes"];
  EXPECT_EQ(limited("--max-bytes", std::to_string(bytes)).exit_code, 0);
  EXPECT_EQ(limited("--max-bytes", "1M").exit_code, 0);
  EXPECT_EQ(limited("--max-time-us", "1e9").exit_code, 0);
  expect_refusal(limited("--max-bytes", std::to_string(bytes - 1)), 1, "are not allowed");
  expect_refusal(limited("--max-bytes", "1K"), 1, "more than 1,024 are not allowed");
  expect_refusal(limited("--max-bytes", "1G"), 2, "expected bytes such as");
  expect_refusal(limited("--max-time-us", "1e-9"), 1, "more than 1e-09 is not allowed");
  expect_refusal(limited("--max-time-us", "0"), 2, "is no time");
  // The first of several models is the reference, which no limit is about.
  std::vector<std::string> options = one;
  options.insert(options.end(), {"--max-bytes", std::to_string(bytes - 1), "--json"});
  const ToolRun both = run({model_, model_}, options);
  EXPECT_EQ(both.exit_code, 1);
  const Json models = Json::parse(both.out)["models"];
  EXPECT_EQ(models[0]["exceeds"], false);
  EXPECT_EQ(models[1]["exceeds"], true);
}

TEST_F(eval, labels_that_do_not_fit_are_refused_in_one_sentence) {
  std::vector<uint8_t> labels(1797, 3);
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--cast-inputs", "--labels",
                           write<uint8_t>("few.npy", {3}, {1, 2, 3})}),
                 3, "holds 3 labels, but the data gives 1,797");
  labels[7] = 10;
  const std::string beyond = write<uint8_t>("beyond.npy", {1797}, labels);
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--cast-inputs", "--labels", beyond}), 3,
                 "label 7 is 10, wanted 0 to 9");
  std::vector<int32_t> negative(1797, 3);
  negative[2] = -1;
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--cast-inputs", "--labels",
                           write<int32_t>("negative.npy", {1797}, negative)}),
                 3, "label 2 is -1");
  const std::vector<float> reals(1797, 1.5f);
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--cast-inputs", "--labels",
                           write<float>("reals.npy", {1797}, reals)}),
                 3, "wanted integers");
  std::vector<float> targets(17970, 0);
  targets[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--cast-inputs", "--metric", "mse", "--labels",
                           write<float>("targets.npy", {1797, 10}, targets)}),
                 3, "element 5 is nan");
}

TEST_F(eval, indices_name_rows_that_are_there) {
  expect_refusal(run({model_}, {"--indices", write<int32_t>("wild.npy", {2}, {5, 1797})}), 3, "index 1 is 1797");
  expect_refusal(run({model_}, {"--indices", write<int32_t>("below.npy", {1}, {-1})}), 3, "index 0 is -1");
  expect_refusal(run({model_}, {"--indices", write<float>("reals.npy", {1}, {1.5f})}), 3, "wanted integers");
  expect_refusal(run({model_}, {"--indices", write<int32_t>("none.npy", {0}, {})}), 3, "row numbers");
}

TEST_F(eval, nothing_is_cast_unasked_and_metrics_must_fit) {
  expect_refusal(run_tool({"eval", model_, "--data", images_, "--labels", labels_}), 3, "--cast-inputs");
  expect_refusal(run({model_}, {"--metric", "f1"}), 2, "is no metric");
  expect_refusal(run({model_}, {"--metric", "auc"}), 3, "wanted 0 to 1");
  expect_refusal(run({model_}, {"--metric", "top11"}), 2, "10 outputs");
  expect_refusal(run({model_}, {"--judge", "logits"}), 2, "has no output logits");
  expect_refusal(run({model_}, {"--max-drop", "-1"}), 2, "--max-drop");
  expect_refusal(run({directory_ / "none"}), 5, "cannot be opened");
}

TEST_F(eval, mean_squared_errors_are_against_targets) {
  const std::vector<float> zeros(10, 0);
  const std::string one = write<int32_t>("one.npy", {1}, {0});
  const Json result =
      json({model_}, {"--indices", one, "--metric", "mse", "--labels", write<float>("zeros.npy", {1, 10}, zeros)});
  // For ten probabilities that sum to 1, the mean square lies between 1/100 (all equal) and 1/10 (one is 1).
  EXPECT_GE(result["models"][0]["value"].get<double>(), 0.01);
  EXPECT_LE(result["models"][0]["value"].get<double>(), 0.1);
  EXPECT_EQ(result["higher_is_better"], false);
}

TEST(eval_anomalies, an_int8_autoencoder_is_judged_on_float_windows) {
  const std::string models = shared_path("models/mlperf_tiny/");
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "NACRE_SHARED has no " << models;
  const TemporaryDirectory directory;
  const std::string f = directory / "f.nacre", q = directory / "q.nacre", data = directory / "x.npy",
                    labels = directory / "y.npy";
  ASSERT_EQ(run_tool({"convert", models + "ad01_fp32.tflite", "-o", f}).exit_code, 0);
  ASSERT_EQ(run_tool({"convert", models + "ad01_int8.tflite", "-o", q}).exit_code, 0);
  std::mt19937 random(3);
  NpyArray windows = {.type = ElementType::kFloat32, .dims = {24, 640}, .data = std::vector<uint8_t>(24 * 640 * 4)};
  NpyArray anomalies = {.type = ElementType::kUint8, .dims = {24}, .data = std::vector<uint8_t>(24)};
  for (size_t n = 0; n < 24; ++n) {
    anomalies.data[n] = uint8_t(n % 2);
    for (size_t i = 0; i < 640; ++i) {  // louder windows are harder to reconstruct
      const float value = -10 + (float(random() >> 8) * 0x1p-24f - 0.5f) * (n % 2 == 0 ? 2 : 40);
      std::memcpy(windows.data.data() + (n * 640 + i) * 4, &value, 4);
    }
  }
  write_npy(data, windows);
  write_npy(labels, anomalies);
  const ToolRun run = run_tool({"eval", f, q, "--data", data, "--labels", labels, "--metric", "auc", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json result = Json::parse(run.out);
  ASSERT_EQ(result["notes"].size(), 1u);  // the note says that the int8 model's input is quantized
  EXPECT_NE(result["notes"][0].get<std::string>().find("quantized"), std::string::npos);
  for (const Json& model : result["models"]) {
    EXPECT_GE(model["value"].get<double>(), 0);
    EXPECT_LE(model["value"].get<double>(), 1);
  }
  // The amplitude is 20 times larger, so mean squares are some hundred times larger for both networks.
  EXPECT_EQ(result["models"][0]["value"], 1);
  EXPECT_EQ(result["models"][1]["value"], 1);
}

}  // namespace
}  // namespace nacre::tools
