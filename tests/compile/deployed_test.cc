// Tests that models deployed after training are as large as nacre convert's models of the same network, and compute
// what was trained.
#include "tools/compile/deployed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/small_trainer.h"
#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/compile/training.h"
#include "tools/differentiate/adapters.h"
#include "tools/differentiate/training_quantizers.h"
#include "tools/model/program_cost.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

using test::convolutional;
using test::perceptron;
using test::SmallTrainer;

constexpr int kBatch = 16;

PolicyRequest policies(const std::string& policy) {
  return policy.empty() ? PolicyRequest() : parse_policy_options({.policy = policy});
}

CompileOptions under(const PolicyRequest& request, const Calibration* calibration = nullptr) {
  CompileOptions options;
  options.policies = request;
  options.calibration = calibration;
  return options;
}

using Data = test::LabelledRows;
Data data(uint64_t seed, int width) { return test::three_classes(seed, kBatch, width); }

void train(SmallTrainer& trainer, int width, int steps = 40) {
  for (int i = 0; i < steps; ++i) {
    const Data d = data(uint64_t(i), width);
    EXPECT_TRUE(trainer.train(d.x, d.labels, 0.03f).applied);
  }
}

// Runs row after row through a program of batch 1.
std::vector<float> run_rows(const std::vector<uint8_t>& bytes, const std::vector<float>& x, int width) {
  const LoadedModel model(bytes, "deployed", "");
  BoundProgram bound(model, model.infer_program());
  std::vector<float> y;
  for (size_t at = 0; at < x.size(); at += size_t(width)) {
    const std::vector<uint8_t> out =
        bound.run({reinterpret_cast<const uint8_t*>(&x[at]), size_t(width) * sizeof(float)});
    y.resize(y.size() + out.size() / sizeof(float));
    std::memcpy(y.data() + y.size() - out.size() / sizeof(float), out.data(), out.size());
  }
  return y;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float apart = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) apart = std::max(apart, std::abs(a[i] - b[i]));
  return apart;
}

// The deployed model takes one row and has folded batch norms, whatever batch was trained. Its size is, to the byte,
// the size of the converter's own model of the network.
TEST(deployed, is_as_large_as_what_convert_makes) {
  for (const char* policy : {"", "float32", "mixed_bfloat16", "int8/static_from_float32", "int8/weights_from_float32",
                             "float8/8_from_float32"})
    for (const bool conv : {false, true}) {
      const int width = conv ? 72 : 6;
      const auto network = [&](int batch) { return conv ? convolutional(batch) : perceptron(batch); };
      SmallTrainer trainer(compile_training(network(kBatch), {}, under(policies(policy))).bytes);
      train(trainer, width, 5);
      const Deployed made = deploy(network(1), policies(policy), trainer.model(), trainer.trainer().state());
      // For conv: three w, one b, gamma, beta, mean, variance, conv2.b.
      EXPECT_EQ(made.parameters, conv ? 10 : 4) << policy;
      EXPECT_TRUE(made.fallbacks.empty()) << policy;
      Graph graph = network(1);
      resolve_policies(graph, policies(policy));
      const Calibration calibration = trained_calibration(graph, trainer.model(), trainer.trainer().state());
      Graph untrained = network(1);
      simplify(untrained);
      const Compiled usual = compile(untrained, under(policies(policy), &calibration));
      const LoadedModel a(made.bytes, "deployed", ""), b(usual.bytes, "converted", "");
      const Statistics of_a = statistics(a, 0), of_b = statistics(b, 0);
      EXPECT_EQ(of_a.file_bytes, of_b.file_bytes) << policy;
      EXPECT_EQ(of_a.arena_bytes, of_b.arena_bytes) << policy;
      EXPECT_EQ(of_a.weight_bytes, of_b.weight_bytes) << policy;
      EXPECT_EQ(of_a.batch, 1u);
      for (const StepRecord& step : a.model().steps()) EXPECT_NE(step.op, Op::kBatchNorm) << policy;
      EXPECT_NE(made.bytes, usual.bytes) << policy;
    }
}

// A folded batch norm multiplies before the sums instead of after them. Two sums of at most 36 terms follow each
// other, of numbers up to 16, each rounded at 2^-24. The softmax at the end only makes differences smaller.
TEST(deployed, computes_what_was_trained) {
  for (const char* policy : {"", "float32", "int8/weights_from_float32"})
    for (const bool conv : {false, true}) {
      if (conv && *policy == 'i') continue;  // folded weights are rounded to other codes
      const int width = conv ? 72 : 6;
      SmallTrainer trainer(
          compile_training(conv ? convolutional(kBatch) : perceptron(kBatch), {}, under(policies(policy))).bytes);
      train(trainer, width);
      const Deployed made =
          deploy(conv ? convolutional(1) : perceptron(1), policies(policy), trainer.model(), trainer.trainer().state());
      const Data d = data(1000, width);
      EXPECT_LE(largest_difference(run_rows(made.bytes, d.x, width), trainer.infer(d.x)), 3 * 36 * 16 * 0x1p-24f)
          << policy;
    }
}

// Inserts a dropout before fc2.
Graph with_dropout(int batch) {
  Graph graph = perceptron(batch);
  const auto fc2 = std::ranges::find_if(graph.nodes, [&](const Node& node) {
    return is_matmul(node.op) && graph.layers[size_t(node.layer)].name == "fc2";
  });
  Value y = graph.values[size_t(fc2->inputs[0])];
  y.name = "dropped";
  const ValueId dropped = graph.add(std::move(y));
  Node dropout = make_step(Op::kDropout, Node(), "dropout", {fc2->inputs[0]}, {dropped});
  set_real(dropout, "rate", 0.25f);
  fc2->inputs[0] = dropped;
  graph.nodes.insert(fc2, std::move(dropout));
  return graph;
}

// A deployed model has no dropout, but keeps the ranges and scales that training found after it. Reals are compared
// as above.
TEST(deployed, dropout_is_left_out_and_what_was_found_behind_it_stays) {
  for (const char* policy : {"", "mixed_bfloat16", "int8/static_from_float32", "int8_from_float32",
                             "float8/8_from_float32", "int8/weights_from_float32"}) {
    SmallTrainer trainer(compile_training(with_dropout(kBatch), {}, under(policies(policy))).bytes);
    train(trainer, 6);
    const Deployed made = deploy(with_dropout(1), policies(policy), trainer.model(), trainer.trainer().state());
    const LoadedModel model(made.bytes, "deployed", "");
    for (const StepRecord& step : model.model().steps()) EXPECT_NE(step.op, Op::kDropout) << policy;
    if (*policy != 0) continue;
    const Data d = data(1000, 6);
    EXPECT_LE(largest_difference(run_rows(made.bytes, d.x, 6), trainer.infer(d.x)), 3 * 36 * 16 * 0x1p-24f) << policy;
  }
}

TEST(deployed, refuses_another_network) {
  SmallTrainer trainer(compile_training(perceptron(kBatch), {}, {}).bytes);
  EXPECT_THROW(deploy(convolutional(1), {}, trainer.model(), trainer.trainer().state()), Error);
  // This also holds for a network that shares all names but one.
  Graph other = perceptron(1);
  const auto weights = std::ranges::find_if(other.values, [](const Value& v) { return v.constant(); });
  ASSERT_NE(weights, other.values.end());
  weights->name += "_of_another";
  EXPECT_THROW(deploy(other, {}, trainer.model(), trainer.trainer().state()), Error);
}

// ---- Adapters ----

TrainingOptions adapters_of_fc2() {
  TrainingOptions options;
  options.adapters = {.rank = 2, .alpha = 4};
  options.train.layers = {"fc2"};
  options.optimizer.kind = Optimizer::kAdam;
  return options;
}

std::vector<float> constant(const Graph& graph, const std::string& name) {
  return reals(*std::ranges::find(graph.values, name, &Value::name));
}

// Returns the largest sum_i |h_i| over rows of x, h = relu(x w1' + b1), in float64. A difference of w2 is multiplied
// by h.
double input_of_fc2(const Graph& network, const std::vector<float>& x) {
  const std::vector<float> w = constant(network, "w1"), b = constant(network, "b1");
  double most = 0;
  for (size_t row = 0; row < x.size() / 6; ++row) {
    double sum = 0;
    for (size_t k = 0; k < 5; ++k) {
      double h = double(b[k]);
      for (size_t i = 0; i < 6; ++i) h += double(w[k * 6 + i]) * double(x[row * 6 + i]);
      sum += std::max(h, 0.0);
    }
    most = std::max(most, sum);
  }
  return most;
}

float largest(const std::vector<float>& x) {
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::abs(v));
  return amax;
}

Graph merged_graph(const Graph& network, SmallTrainer& trainer) {
  Graph merged = network;
  EXPECT_EQ(merge_adapters(merged, trainer.model(), trainer.trainer().state()), 1);
  return merged;
}

// A merged network has the steps and the bytes of the network without adapters.
TEST(deployed, merged_adapters_are_gone) {
  for (const char* policy : {"", "float32", "mixed_bfloat16", "int8/weights_from_float32", "int4_from_float32",
                             "int8/static_from_float32", "float8/8_from_float32"}) {
    SmallTrainer trainer(compile_training(perceptron(kBatch), adapters_of_fc2(), under(policies(policy))).bytes);
    train(trainer, 6, 10);
    const Deployed made = deploy(perceptron(1), policies(policy), trainer.model(), trainer.trainer().state());
    EXPECT_EQ(made.parameters, 0) << policy;
    EXPECT_EQ(made.adapters, 1) << policy;
    Graph graph = perceptron(1);
    resolve_policies(graph, policies(policy));
    const Calibration calibration = trained_calibration(graph, trainer.model(), trainer.trainer().state());
    const Compiled usual = compile(perceptron(1), under(policies(policy), &calibration));
    EXPECT_EQ(made.bytes.size(), usual.bytes.size()) << policy;
    const LoadedModel a(made.bytes, "deployed", ""), b(usual.bytes, "converted", "");
    ASSERT_EQ(a.model().steps().size(), b.model().steps().size()) << policy;
    for (size_t i = 0; i < a.model().steps().size(); ++i)
      EXPECT_EQ(a.model().steps()[i].op, b.model().steps()[i].op) << policy;
  }
}

// For floats, W + c B A is rounded once per weight, and sums of 5 terms have another order. For codes, the frozen
// layer computes with Q(W) + c B A, the merged one with Q(W + c B A). A weight differs from its code by at most half
// a step: amax / 127 / 2 in int8/weights, amax / 7 / 2 in int4 (clipping at -8 .. 7 adds nothing). A logit differs by
// both times sum |h|, and a softmax's number by at most half of its logits' difference: sum_j |dp_i / dz_j| = 2 p_i
// (1 - p_i) <= 1/2.
TEST(deployed, merged_adapters_compute_what_was_trained) {
  const Graph network = perceptron(kBatch);
  const Data d = data(1000, 6);
  const double h = input_of_fc2(network, d.x);
  for (const auto& [policy, codes] : {std::pair("float32", 0.0), std::pair("int8/weights_from_float32", 127.0),
                                      std::pair("int4_from_float32", 7.0)}) {
    SCOPED_TRACE(policy);
    const PolicyRequest asked = parse_policy_options({.policy = "float32", .set = {std::string("fc2=") + policy}});
    SmallTrainer trainer(compile_training(network, adapters_of_fc2(), under(asked)).bytes);
    train(trainer, 6);
    const Deployed made = deploy(perceptron(1), asked, trainer.model(), trainer.trainer().state());
    const float before = largest(constant(network, "w2")),
                after = largest(constant(merged_graph(network, trainer), "w2"));
    const double rounding = 16 * 0x1p-24 * double(before + after) * h;
    const double bound = rounding + (codes > 0 ? 0.5 * h * double(before + after) / (2 * codes) : 0);
    const std::vector<float> want = trainer.infer(d.x);
    const float apart = largest_difference(run_rows(made.bytes, d.x, 6), want);
    const float changed = largest_difference(run_rows(compile(perceptron(1), under(asked)).bytes, d.x, 6), want);
    std::printf("%-26s merged apart %.3g, at most %.3g; the network without its adapters %.3g\n", policy, double(apart),
                bound, double(changed));
    EXPECT_LE(double(apart), bound);
    EXPECT_GT(double(changed), bound);  // the adapters learned more than that
  }
}

// A network whose file holds int8 codes, as a deployed one does: the merged weights get new codes, and the
// activations' ranges stay. Besides the weights' differences, y of each network is rounded to its step, s_y / 2, and
// the softmax's output to 1/256.
TEST(deployed, adapters_merge_into_int8_codes_of_the_source) {
  Calibration calibration;
  // The ranges are wide, so that nothing is clipped.
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-12, 12};
  const auto coded = [&](int batch) {
    Graph graph = perceptron(batch);
    resolve_policies(graph, policies("int8/static_from_float32"));
    quantize_static(graph, &calibration);
    for (Layer& layer : graph.layers) layer.asked = false, layer.policy = {};
    return graph;
  };
  const Graph network = coded(kBatch);
  const Data d = data(1000, 6);
  SmallTrainer trainer(compile_training(network, adapters_of_fc2(), {}).bytes);
  train(trainer, 6);
  const Deployed made = deploy(coded(1), {}, trainer.model(), trainer.trainer().state());
  EXPECT_EQ(made.adapters, 1);
  EXPECT_TRUE(made.fallbacks.empty());
  const Compiled usual = compile(coded(1), {});
  EXPECT_EQ(made.bytes.size(), usual.bytes.size());
  const LoadedModel model(made.bytes, "deployed", "");
  int integer_layers = 0;
  for (const StepRecord& step : model.model().steps())
    integer_layers +=
        step.op == Op::kDense &&
                model.model().tensors()[model.model().operands(step)[1] & kOperandIdMask].element == ElementType::kInt8
            ? 1
            : 0;
  EXPECT_EQ(integer_layers, 2);
  const double before = double(largest(constant(network, "w2"))),
               after = double(largest(constant(merged_graph(network, trainer), "w2")));
  const double step = 24.0 / 255, h = input_of_fc2(network, d.x) + 5 * 1.5 * step;  // x, w1 and relu1:0 are codes too
  const double bound = 0.5 * (h * (before + after) / (2 * 127) + 2 * step) + 2.0 / 256;
  const std::vector<float> want = trainer.infer(d.x);
  const float apart = largest_difference(run_rows(made.bytes, d.x, 6), want);
  const float changed = largest_difference(run_rows(usual.bytes, d.x, 6), want);
  std::printf("codes of the source: merged apart %.3g, at most %.3g; the network without its adapters %.3g\n",
              double(apart), bound, double(changed));
  EXPECT_LE(double(apart), bound);
  EXPECT_GT(double(changed), bound);
}

}  // namespace
}  // namespace nacre::tools
