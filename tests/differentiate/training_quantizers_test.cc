// Tests layers that are trained as the integer or float8 layers that they will be deployed as.
#include "tools/differentiate/training_quantizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "engine/numeric/amax_history.h"
#include "tests/differentiate/quantized_training.h"
#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/small_trainer.h"
#include "tools/base/error.h"
#include "tools/compile/deployed.h"
#include "tools/compile/training.h"

namespace nacre::tools {
namespace {

using namespace quantized_training;

using test::convolutional;
using test::perceptron;

std::string steps(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (node.op < Op::kFakeQuantize || node.op > Op::kObserveRange) continue;
    text += find_rule(node.op)->name;
    for (const ValueId id : node.inputs) text += " " + (id == kNone ? std::string("-") : graph.values[size_t(id)].name);
    for (const ValueId id : node.outputs) text += " > " + graph.values[size_t(id)].name;
    text += "\n";
  }
  return text;
}

// Returns the graph with its quantizers, before it is differentiated.
Graph with_quantizers(const Graph& graph, const char* policy, bool trains, const TrainingOptions& training = {}) {
  Graph made = graph;
  resolve_policies(made, parse_policy_options({.policy = full_name(policy)}));
  const QuantizerPlan plan = plan_quantizers(made, nullptr, {});
  add_quantizers(made, plan, training, trains);
  check(made);
  return made;
}

TEST(training_quantizers, static_int8_rounds_what_the_converter_would) {
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8/static", true)),
            "observe_range x x/range/sum x/range/batches > x/range/used\n"
            "fake_quantize x x/range/used - > x/int8\n"
            "fake_quantize w1 - - > w1/int8\n"
            "observe_range relu1:0 relu1:0/range/sum relu1:0/range/batches > relu1:0/range/used\n"
            "fake_quantize relu1:0 relu1:0/range/used - > relu1:0/int8\n"
            "fake_quantize w2 - - > w2/int8\n"
            "observe_range fc2:0 fc2:0/range/sum fc2:0/range/batches > fc2:0/range/used\n"
            "fake_quantize fc2:0 fc2:0/range/used - > fc2:0/int8\n");  // the softmax behind it is the loss's
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8/static", false)),
            "fake_quantize x x/range - > x/int8\n"
            "fake_quantize w1 - - > w1/int8\n"
            "fake_quantize relu1:0 relu1:0/range - > relu1:0/int8\n"
            "fake_quantize w2 - - > w2/int8\n"
            "fake_quantize fc2:0 fc2:0/range - > fc2:0/int8\n");
}

// Nothing is rounded between a convolution and its batch norm. Nothing needs to be rounded after a max pool.
TEST(training_quantizers, batch_norms_count_as_folded) {
  EXPECT_EQ(steps(with_quantizers(convolutional(), "int8/static", false)),
            "fake_quantize x x/range - > x/int8\n"
            "fake_quantize conv1.w - - > conv1.w/int8\n"
            "fake_quantize relu1:0 relu1:0/range - > relu1:0/int8\n"
            "fake_quantize conv2.w - - > conv2.w/int8\n"
            "fake_quantize relu2:0 relu2:0/range - > relu2:0/int8\n"
            "fake_quantize mean:0 mean:0/range - > mean:0/int8\n"
            "fake_quantize fc.w - - > fc.w/int8\n"
            "fake_quantize fc:0 fc:0/range - > fc:0/int8\n");
}

TEST(training_quantizers, other_policies) {
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8/weights", true)),
            "fake_quantize w1 - - > w1/int8\nfake_quantize w2 - - > w2/int8\n");
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8", true)),
            "fake_quantize w1 - - > w1/int8\nfake_quantize x - - > x/int8\nfake_quantize w2 - - > "
            "w2/int8\nfake_quantize relu1:0 - - > relu1:0/int8\n");
  EXPECT_EQ(steps(with_quantizers(perceptron(), "float8", true)),
            "fake_float8 x fc1:0/x/float8_scale fc1:0/x/amax > x/float8\n"
            "fake_float8 w1 fc1:0/w/float8_scale fc1:0/w/amax > w1/float8\n"
            "fake_float8_gradient fc1:0/before_float8 fc1:0/y/float8_scale fc1:0/y/amax > fc1:0\n"
            "fake_float8 relu1:0 fc2:0/x/float8_scale fc2:0/x/amax > relu1:0/float8\n"
            "fake_float8 w2 fc2:0/w/float8_scale fc2:0/w/amax > w2/float8\n"
            "fake_float8_gradient fc2:0/before_float8 fc2:0/y/float8_scale fc2:0/y/amax > fc2:0\n");
  EXPECT_EQ(steps(with_quantizers(perceptron(), "float8/current", false)),
            "fake_float8 x - - > x/float8\nfake_float8 w1 - - > w1/float8\n"
            "fake_float8 relu1:0 - - > relu1:0/float8\nfake_float8 w2 - - > w2/float8\n");
  EXPECT_EQ(steps(with_quantizers(perceptron(), "float32", true)), "");
}

// Keras rounds weights to the compute type before it divides them by a scale of that type. Nacre's own float8 rounds
// them in float32, in a step that belongs to no layer.
TEST(training_quantizers, float8_from_16_bits_rounds_each_operation_as_keras_does) {
  const auto forms = [](const char* policy) {
    std::string text;
    for (const Node& node : with_quantizers(perceptron(), policy, true).nodes)
      if (node.op == Op::kFakeFloat8 || node.op == Op::kFakeFloat8Gradient)
        text += std::to_string(get_integer(node, "form")) + (node.layer == kNone ? "- " : " ");
    return text;
  };
  EXPECT_EQ(forms("float8_from_mixed_bfloat16"), "2 2 2 2 2 2 ");
  EXPECT_EQ(forms("float8/1024_from_mixed_bfloat16"), "0 0- 0 0 0- 0 ");
  EXPECT_EQ(forms("float8_from_mixed_bfloat16;update_order=transformer_engine"), "1 1 1 1 1 1 ");
  EXPECT_EQ(forms("float8"), "0 0 0 0 0 0 ");
}

TEST(training_quantizers, refuses_what_it_cannot_simulate) {
  for (const char* policy : {"int4/32", "gptq/4/32", "gptq/8/-1", "awq/4/32"})
    EXPECT_THROW(with_quantizers(perceptron(), policy, true), Error) << policy;
  TrainingOptions learned;
  learned.quantizers.learned_ranges = true;
  EXPECT_THROW(compiled(perceptron(), "int8/static", learned), Error);
}

TEST(training_quantizers, every_policy_learns) {
  for (const char* policy : {"float32", "int8/static", "int8/weights", "int8", "int4", "float8",
                             "float8/16_from_float32;update_order=transformer_engine", "float8/current",
                             "float8_from_mixed_bfloat16", "mixed_bfloat16;rounding=each"}) {
    TrainingOptions options;
    options.optimizer.kind = Optimizer::kMomentum;
    SmallTrainer dense(compiled(perceptron(16), policy, options).bytes),
        conv(compiled(convolutional(16), policy, options).bytes);
    const std::vector<float> a = train(dense, 120, 16, 6, 0.05f), b = train(conv, 40, 16, 72, 0.05f);
    EXPECT_LT(mean_of(a, 100, 120), 0.4f * mean_of(a, 0, 3)) << policy;
    EXPECT_LT(mean_of(b, 30, 40), 0.6f * mean_of(b, 0, 3)) << policy;
    std::printf("%-16s dense %.3f -> %.3f   conv %.3f -> %.3f\n", policy, double(mean_of(a, 0, 3)),
                double(mean_of(a, 100, 120)), double(mean_of(b, 0, 3)), double(mean_of(b, 30, 40)));
  }
}

// The bias is added after the product whose gradient is rounded, as in Keras layers/core/dense.py, _float8_call.
TEST(training_quantizers, the_gradient_of_a_bias_is_that_before_float8) {
  for (const char* policy : {"float8", "float8/16_from_float32;update_order=transformer_engine", "float8/current"}) {
    const Graph graph = compiled(perceptron(4), policy).gradients;
    const auto from = [&](ValueId x) {
      const auto writes = [&](const Node& node) { return std::ranges::count(node.outputs, x) > 0; };
      return std::ranges::find_if(graph.nodes, writes)->op;
    };
    int biases = 0, weights = 0;
    for (const Node& node : graph.nodes) {
      biases += node.op == Op::kBiasGradient && from(node.inputs[0]) != Op::kFakeFloat8 ? 1 : 0;
      weights += node.op == Op::kDenseGradientW && from(node.inputs[0]) == Op::kFakeFloat8 ? 1 : 0;
    }
    EXPECT_EQ(biases, 2) << policy;
    EXPECT_EQ(weights, 2) << policy;
    // This also holds if only biases are trained: nothing else reads the rounded gradient of the last layer.
    TrainingOptions options;
    options.train.biases_only = true;
    SmallTrainer trainer(compiled(perceptron(16), policy, options).bytes);
    const std::vector<float> losses = train(trainer, 20, 16, 6, 0.05f);
    EXPECT_LT(losses.back(), losses.front());
  }
}

// A running range is the decayed mean of the ends of each step. The exported network takes it as its range.
TEST(training_quantizers, running_ranges_follow_the_data) {
  TrainingOptions options;
  options.quantizers.range_momentum = 0.75f;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options).bytes);
  float low = 0, high = 0;
  for (int i = 0; i < 5; ++i) {
    const Points data = points(uint64_t(i), 16, 6);
    trainer.train(data.x, data.labels, 0.01f);
    const auto [min, max] = std::ranges::minmax(data.x);
    low = i == 0 ? min : 0.75f * low + (1 - 0.75f) * min;
    high = i == 0 ? max : 0.75f * high + (1 - 0.75f) * max;
    EXPECT_EQ(trainer.state<float>("x/range"), (std::vector<float>{low, high})) << i;
  }
}

// Ranges follow the data until they freeze. Then they stay, in the training program and in the inference program.
TEST(training_quantizers, ranges_freeze_after_their_steps) {
  TrainingOptions options, frozen;
  frozen.quantizers.freeze_steps = 2;
  SmallTrainer free(compiled(perceptron(16), "int8/static", options).bytes),
      stays(compiled(perceptron(16), "int8/static", frozen).bytes);
  for (int i = 0; i < 5; ++i) {
    Points data = points(uint64_t(i), 16, 6);
    for (float& v : data.x) v *= float(1 + i);  // each batch exceeds the ranges of the earlier ones
    const std::vector<float> before = stays.state<float>("x/range"), weights = stays.state<float>("w1");
    free.train(data.x, data.labels, 0.01f);
    stays.train(data.x, data.labels, 0.01f);
    EXPECT_EQ(stays.state<float>("x/range") != before, i < 2) << i;
    EXPECT_EQ(stays.state<float>("w1") == free.state<float>("w1"), i < 2) << i;  // clipped from then on
    EXPECT_NE(stays.state<float>("w1"), weights) << i;
  }
}

// The last rows of an epoch make a smaller batch, and the range is that of these rows.
TEST(training_quantizers, running_ranges_take_fewer_rows) {
  for (const bool immediate : {false, true}) {
    TrainingOptions options;
    options.immediate = immediate;
    SmallTrainer trainer(compiled(perceptron(16), "int8/static", options).bytes);
    Points data = points(1, 16, 6);
    for (size_t i = 5 * 6; i < data.x.size(); ++i) data.x[i] = 1000;  // rows outside the batch
    std::memcpy(trainer.trainer().input(0).data(), data.x.data(), data.x.size() * sizeof(float));
    std::memcpy(trainer.trainer().input(1).data(), data.labels.data(), data.labels.size() * sizeof(int32_t));
    ASSERT_TRUE(trainer.trainer().accumulate(5).ok()) << immediate;
    ASSERT_TRUE(trainer.trainer().commit(0.01f, nullptr).ok()) << immediate;
    const auto [min, max] = std::ranges::minmax(std::span(data.x).first(30));
    EXPECT_EQ(trainer.state<float>("x/range"), (std::vector<float>{min, max})) << immediate;
  }
}

// Compares with the formulas over the amaxes of the data, in both orders.
TEST(training_quantizers, float8_state_is_the_formulas) {
  for (const char* policy : {"float8/8", "float8/8_from_float32;update_order=transformer_engine;margin=1"}) {
    Graph graph = perceptron(16);
    resolve_policies(graph, parse_policy_options({.policy = full_name(policy)}));
    const Policy& p = graph.layers[0].policy;
    const size_t length = std::max<size_t>(p.amax_history_length, 1);
    SmallTrainer trainer(compiled(perceptron(16), policy).bytes);
    std::vector<float> amaxes(length);
    float scale = 1;
    ScaleCounters counters;
    for (int i = 0; i < 50; ++i) {
      Points data = points(uint64_t(i), 16, 6);
      for (float& v : data.x) v *= 1 + 0.1f * float(i % 7);
      trainer.train(data.x, data.labels, 0.01f);
      const float amax = amax_value(amax_bits(std::span<const float>(data.x)));
      AmaxHistory{amaxes, &scale, &counters}.update(
          amax, {.format_max = 448, .order = p.update_order, .rule = p.amax_rule, .margin = p.margin});
      ASSERT_EQ(trainer.state<float>("fc1:0/x/float8_scale"), std::vector<float>{scale}) << policy << ' ' << i;
      ASSERT_EQ(trainer.state<float>("fc1:0/x/amax_history"), amaxes) << policy << ' ' << i;
    }
    EXPECT_NE(scale, 1);
    const std::vector<float> gradient = trainer.state<float>("fc2:0/y/float8_scale");
    ASSERT_EQ(gradient.size(), 1u);
    EXPECT_NE(gradient[0], 1);
  }
}

// The exported integer network computes what training simulated: y differs by the roundings of its bias codes and its
// requantization, at most 2 of its 255 steps.
void check_export(Graph graph, const char* policy, float steps_apart, int width) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kMomentum;
  SmallTrainer trainer(compiled(graph, policy, options).bytes);
  train(trainer, 40, 16, width, 0.03f);
  const Deployed made =
      deploy(graph, parse_policy_options({.policy = full_name(policy)}), trainer.model(), trainer.trainer().state());
  EXPECT_TRUE(made.fallbacks.empty()) << policy << (made.fallbacks.empty() ? "" : made.fallbacks[0]);
  const LoadedModel model(made.bytes, "exported", "");
  BoundProgram bound(model, model.infer_program());
  float apart = 0, largest = 0;
  for (int i = 0; i < 10; ++i) {
    const Points data = points(uint64_t(1000 + i), 16, width);
    const std::vector<float> want = trainer.infer(data.x);
    const auto* first = reinterpret_cast<const uint8_t*>(data.x.data());
    const std::vector<uint8_t> bytes = bound.run({first, data.x.size() * sizeof(float)});
    ASSERT_EQ(bytes.size(), want.size() * sizeof(float));
    for (size_t k = 0; k < want.size(); ++k) {
      float y;
      std::memcpy(&y, bytes.data() + k * sizeof y, sizeof y);
      apart = std::max(apart, std::abs(y - want[k]));
      largest = std::max(largest, std::abs(want[k]));
    }
  }
  const std::vector<float> range = trainer.state<float>("fc:0/range");
  const float step = range.empty() ? 1 : (range[1] - range[0]) / 255;
  std::printf("%-16s exported network at most %g from the one that was trained, of %g\n", policy, double(apart),
              double(largest));
  EXPECT_LE(apart, steps_apart * step) << policy;
}

TEST(training_quantizers, exports_what_was_trained) {
  check_export(convolutional(16), "int8/static", 2.01f, 72);
  // The sums differ in their order only: at most 36 products in float32, outputs up to 16. 36 2^-24 16 = 4e-5.
  for (const char* policy : {"int8/weights", "int4", "int8"}) check_export(convolutional(16), policy, 4e-5f, 72);
  // The float8 network has no batch norms, because folding one changes which weights are rounded.
  check_export(perceptron(16), "float8/current", 4e-5f, 6);
}

// The perceptron with another last op, whose int8 codes have a fixed quantizer.
Graph ends_with(Op op) {
  Graph graph = perceptron(16);
  graph.nodes.back().op = op;
  if (op != Op::kSoftmax) graph.nodes.back().words.clear();
  return graph;
}

TrainingOptions regression() {
  TrainingOptions training;
  training.loss.kind = Loss::kSquaredError;
  training.optimizer.kind = Optimizer::kMomentum;
  return training;
}

TEST(training_quantizers, round_a_fixed_output_that_the_loss_reads) {
  const std::string last = "fake_quantize softmax:0 softmax:0/range - > softmax:0/int8\n";
  for (const Op op : {Op::kTanh, Op::kSigmoid, Op::kSoftmax})
    for (const bool trains : {true, false}) {
      const Graph graph = with_quantizers(ends_with(op), "int8/static", trains, regression());
      EXPECT_TRUE(steps(graph).ends_with(last)) << steps(graph);
      EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].name, "softmax:0/int8");
    }
  for (const auto& [op, loss] :
       {std::pair(Op::kSoftmax, Loss::kSoftmaxCrossEntropy), std::pair(Op::kSoftmax, Loss::kDenseCrossEntropy),
        std::pair(Op::kSigmoid, Loss::kSigmoidCrossEntropy)}) {
    TrainingOptions training;
    training.loss.kind = loss;
    const Graph graph = with_quantizers(ends_with(op), "int8/static", true, training);
    EXPECT_EQ(steps(graph).find("softmax:0 "), std::string::npos) << steps(graph);
    EXPECT_EQ(graph.values[size_t(graph.outputs[0].value)].name, "softmax:0");
  }
}

// An output of the exported network differs where its input does: by at most 2 of the 255 steps of fc2:0, whose slope
// here is at most 1. Both round to codes, so the outputs differ by half a code more on each side.
TEST(training_quantizers, exports_an_output_of_the_codes_that_were_trained) {
  for (const auto& [op, codes] : {std::pair(Op::kTanh, 128.0f), std::pair(Op::kSigmoid, 256.0f)}) {
    const Graph graph = ends_with(op);
    SmallTrainer trainer(compiled(graph, "int8/static", regression()).bytes);
    for (int i = 0; i < 40; ++i) {
      const Points data = points(uint64_t(i), 16, 6);
      std::vector<int32_t> targets;
      for (const int32_t label : data.labels)
        for (int32_t k = 0; k < 3; ++k) targets.push_back(std::bit_cast<int32_t>(k == label ? 0.9f : 0.1f));
      EXPECT_TRUE(trainer.train(data.x, targets, 0.03f).applied);
    }
    const Deployed made = deploy(graph, parse_policy_options({.policy = full_name("int8/static")}), trainer.model(),
                                 trainer.trainer().state());
    EXPECT_TRUE(made.fallbacks.empty());
    const LoadedModel model(made.bytes, "exported", "");
    BoundProgram bound(model, model.infer_program());
    const std::vector<float> range = trainer.state<float>("fc2:0/range");
    ASSERT_EQ(range.size(), 2u);
    const float most = 2.01f * (range[1] - range[0]) / 255 + 1 / codes;
    int equal = 0, all = 0;
    for (int i = 0; i < 10; ++i) {
      const Points data = points(uint64_t(1000 + i), 16, 6);
      const std::vector<float> want = trainer.infer(data.x);
      const auto* first = reinterpret_cast<const uint8_t*>(data.x.data());
      const std::vector<uint8_t> bytes = bound.run({first, data.x.size() * sizeof(float)});
      ASSERT_EQ(bytes.size(), want.size() * sizeof(float));
      for (size_t k = 0; k < want.size(); ++k) {
        float y;
        std::memcpy(&y, bytes.data() + k * sizeof y, sizeof y);
        EXPECT_EQ(want[k] * codes, std::round(want[k] * codes)) << find_rule(op)->name << " is no code";
        EXPECT_LE(std::abs(y - want[k]), most) << find_rule(op)->name;
        equal += y == want[k], ++all;
      }
    }
    EXPECT_GT(equal * 2, all) << find_rule(op)->name;
  }
}

// The exported layer gets the input scale that training ended with. The scale of the weights is made from the
// weights.
TEST(training_quantizers, exports_float8_scales) {
  for (const char* policy : {"float8/8", "float8/8_from_float32;update_order=transformer_engine;margin=1"}) {
    Graph graph = perceptron(16);
    resolve_policies(graph, parse_policy_options({.policy = full_name(policy)}));
    SmallTrainer trainer(compiled(perceptron(16), policy).bytes);
    train(trainer, 20, 16, 6, 0.03f);
    const Calibration found = trained_calibration(graph, trainer.model(), trainer.trainer().state());
    for (const auto& [value, layer] : {std::pair("x", "fc1:0"), std::pair("relu1:0", "fc2:0")}) {
      const ValueRange* range = found.find(value);
      ASSERT_NE(range, nullptr);
      ASSERT_EQ(range->amaxes.size(), 1u);
      const Policy& p = graph.layers[0].policy;
      const float scale = p.update_order == UpdateOrder::kKeras
                              ? keras_step(range->amaxes[0], 1, 448, p.margin, true).scale
                              : delayed_scale(range->amaxes[0], 1, 448, p.margin, true).scale;
      EXPECT_EQ(trainer.state<float>(std::string(layer) + "/x/float8_scale"), std::vector<float>{scale}) << policy;
    }
  }
}

}  // namespace
}  // namespace nacre::tools
