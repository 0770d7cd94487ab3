// Claim: a network learns as well under every policy as in float32.
//
// A small network of two convolutions and a dense layer learns the digits of tools/samples from random initial
// weights. There are ten seeds. Each seed gives the same weights, batches, steps and learning rates to float32,
// mixed_bfloat16, mixed_float16 (dynamic loss scale), float8 (amax histories) and int8/static (quantization-aware,
// running ranges). Accuracies are measured with the program `infer` on the 450 test images, which the training never
// sees. The mean accuracy under each policy must be within 0.5 percentage points of float32's; all fifty are printed.
//
//   policies_train_alike [SEEDS]     with another number of seeds the claim is not shown
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "tests/claims/claims.h"
#include "tests/differentiate/training_run.h"
#include "tests/project_path.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/compile/training.h"
#include "tools/files/npy.h"
#include "tools/graph/batch.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

constexpr int kSeeds = 10, kEpochs = 10, kBatch = 32, kPixels = 64, kClasses = 10;
constexpr double kMostPoints = 0.5;
constexpr float kRate = 0.01f;  // falls linearly to 0

struct Trained {
  const char* name;
  const char* policy;
  bool scales_loss;
};
constexpr Trained kPolicies[] = {{"float32", "float32", false},
                                 {"mixed_bfloat16", "mixed_bfloat16", false},
                                 {"mixed_float16", "mixed_float16", true},
                                 {"float8", "float8/16_from_float32", false},
                                 {"int8 QAT", "int8/static_from_float32", false}};

struct Digits {
  std::vector<float> images;  // 64 pixels for each image, 0..1
  std::vector<int32_t> labels;
  std::vector<int32_t> train, test;
};

Digits read_digits(const std::string& folder) {
  Digits digits;
  for (const uint8_t v : read_npy(folder + "digits_images.npy").values<uint8_t>())
    digits.images.push_back(float(v) / 16);
  for (const uint8_t v : read_npy(folder + "digits_labels.npy").values<uint8_t>()) digits.labels.push_back(v);
  digits.test = read_npy(folder + "digits_test.npy").values<int32_t>();
  const std::set<int32_t> test(digits.test.begin(), digits.test.end());
  for (int32_t i = 0; i < int32_t(digits.labels.size()); ++i)
    if (!test.contains(i)) digits.train.push_back(i);
  return digits;
}

// Makes a parameter with uniform values of variance 2 / terms (He et al. 2015).
ValueId parameter(Graph& graph, SplitMix64& stream, const char* name, const std::vector<int64_t>& dims, int terms) {
  std::vector<float> data(size_t(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>())));
  const float bound = terms == 0 ? 0 : std::sqrt(6 / float(terms));
  for (float& v : data) v = bound * (float(stream.next() >> 40) * 0x1p-23f - 1);
  return graph.constant(name, dims, data);
}

// x [32, 8, 8, 1] -> conv 3x3 stride 2, 8 -> relu -> conv 3x3 stride 2, 16 -> relu -> dense 10
Graph network(uint64_t seed) {
  SplitMix64 stream(seed);
  Graph graph = parse(R"(graph "digits" batch=32
value %x float32 [32, 8, 8, 1] batched
value %conv1 float32 [1]
value %relu1 float32 [1]
value %conv2 float32 [1]
value %relu2 float32 [1]
value %flat float32 [1]
value %logits float32 [1]
input "x" %x
output "logits" %logits
%conv1 = conv2d(%x, none, none) stride_h=2 stride_w=2 pad_bottom=1 pad_right=1
%relu1 = clamp(%conv1) clamp=1 high=inf
%conv2 = conv2d(%relu1, none, none) stride_h=2 stride_w=2 pad_bottom=1 pad_right=1
%relu2 = clamp(%conv2) clamp=1 high=inf
%flat = reshape(%relu2) rank=2 dims=[32, 64]
%logits = dense(%flat, none, none)
)");
  const auto give = [&](size_t node, const char* w, const std::vector<int64_t>& dims, int terms, const char* b) {
    graph.nodes[node].inputs[1] = parameter(graph, stream, w, dims, terms);
    graph.nodes[node].inputs[2] = parameter(graph, stream, b, {dims[0]}, 0);
  };
  give(0, "conv1.w", {8, 3, 3, 1}, 9, "conv1.b");
  give(2, "conv2.w", {16, 3, 3, 8}, 72, "conv2.b");
  give(5, "fc.w", {10, 64}, 64, "fc.b");
  for (Node& node : graph.nodes) {
    node.name = graph.values[size_t(node.outputs[0])].name;
    node.layer = graph.add_layer({.name = node.name, .source_op = find_rule(node.op)->name, .policy = {}});
  }
  infer_shapes(graph);
  mark_batched(graph, true);
  check(graph);
  return graph;
}

void gather(const Digits& digits, const int32_t* rows, std::vector<float>& x, std::vector<int32_t>& labels) {
  for (size_t r = 0; r < size_t(kBatch); ++r) {
    const auto image = size_t(rows[r]);
    std::copy_n(digits.images.begin() + ptrdiff_t(image * kPixels), kPixels, x.begin() + ptrdiff_t(r * kPixels));
    labels[r] = digits.labels[image];
  }
}

int count_right(TrainingRun& run, const Digits& digits) {
  const Program& infer = run.trainer().infer();
  std::vector<float> x(size_t(kBatch * kPixels));
  std::vector<int32_t> labels(size_t{kBatch}), rows(size_t{kBatch});
  int right = 0;
  for (size_t first = 0; first < digits.test.size(); first += size_t(kBatch)) {
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = digits.test[std::min(first + r, digits.test.size() - 1)];
    gather(digits, rows.data(), x, labels);
    std::memcpy(infer.input(0).data(), x.data(), x.size() * sizeof(float));
    run.require(infer.run());
    std::vector<float> y(size_t(kBatch * kClasses));
    std::memcpy(y.data(), infer.output(0).data(), y.size() * sizeof(float));
    for (size_t r = 0; r < rows.size() && first + r < digits.test.size(); ++r) {
      const auto from = y.begin() + ptrdiff_t(r * kClasses);
      right += std::max_element(from, from + kClasses) - from == labels[r] ? 1 : 0;
    }
  }
  return right;
}

struct Result {
  double accuracy = 0;  // percent
  int refused = 0;
};

Result train(const Digits& digits, const Trained& trained, uint64_t seed) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kAdam;
  options.optimizer.epsilon = 1e-7f;
  if (trained.scales_loss) options.loss_scale = loss_scaler(LossScaleSystem::kNacre);
  CompileOptions compiling;
  compiling.policies =
      parse_policy_options({.policy = trained.policy, .set = {}, .file = {}, .only = {}, .except = {}});
  TrainingRun run(compile_training(network(seed), options, compiling).bytes);
  std::vector<int32_t> order = digits.train;
  std::vector<float> x(size_t(kBatch * kPixels));
  std::vector<int32_t> labels(size_t{kBatch});
  SplitMix64 shuffle(1000 + seed);
  const size_t steps = order.size() / size_t(kBatch);
  Result result;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[size_t(shuffle.below(i))]);
    for (size_t step = 0; step < steps; ++step) {
      gather(digits, &order[step * size_t(kBatch)], x, labels);
      run.write(0, x);
      run.write(1, labels);
      run.accumulate();
      const float done = float(size_t(epoch) * steps + step) / float(size_t{kEpochs} * steps);
      result.refused += run.commit(kRate * (1 - done)).applied ? 0 : 1;
    }
  }
  result.accuracy = 100.0 * count_right(run, digits) / double(digits.test.size());
  return result;
}

int claim(const std::string& samples, int seeds) {
  const Digits digits = read_digits(samples);
  std::printf("%zu training images, %zu test images, %d epochs of batches of %d; test accuracy in percent\n%-15s",
              digits.train.size(), digits.test.size(), kEpochs, kBatch, "seed");
  for (int seed = 1; seed <= seeds; ++seed) std::printf(" %6d", seed);
  std::printf("    mean  of float32  refused steps\n");
  double reference = 0, worst = 0;
  std::string means;
  for (const Trained& policy : kPolicies) {
    double sum = 0;
    int refused = 0;
    std::printf("%-15s", policy.name);
    for (int seed = 1; seed <= seeds; ++seed) {
      const Result result = train(digits, policy, uint64_t(seed));
      std::printf(" %6.2f", result.accuracy);
      std::fflush(stdout);
      sum += result.accuracy;
      refused += result.refused;
    }
    const double mean = sum / seeds;
    if (&policy == kPolicies) reference = mean;
    std::printf("  %6.2f  %+9.2f  %d\n", mean, mean - reference, refused);
    worst = std::max(worst, std::abs(mean - reference));
    char text[80];
    std::snprintf(text, sizeof text, "%s%s %.2f", means.empty() ? "" : ", ", policy.name, mean);
    means += text;
  }
  // Networks that learned nothing would be alike too, at 10 % by chance, because there are ten classes.
  const bool learned = reference > 90;
  if (worst > kMostPoints || !learned || seeds != kSeeds) {
    std::printf("CLAIM policies_train_alike NOT SHOWN: %s: %s\n",
                seeds != kSeeds ? "another number of seeds"
                : learned       ? "a mean is more than 0.5 points from float32's"
                                : "float32 did not learn",
                means.c_str());
    return kFailed;
  }
  std::printf(
      "CLAIM policies_train_alike shown: mean test accuracy of ten seeds: %s; at most %.2f points from float32\n",
      means.c_str(), worst);
  return kSuccess;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(policies_train_alike) {
  if (nacre::test::sanitized()) {
    std::puts("fifty trainings: too long in a sanitized build");
    return 77;
  }
  try {
    return nacre::test::claim(nacre::tools::project_path("tools/samples/"),
                              count > 1 ? std::atoi(arguments[1]) : nacre::test::kSeeds);
  } catch (const std::exception& error) {
    std::printf("CLAIM policies_train_alike NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
