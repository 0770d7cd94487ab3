// Layers trained as the integer or float8 layers that they will be.
#include "tools/training/training_quantizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "engine/numeric/amax_history.h"
#include "tests/training/small_networks.h"
#include "tests/training/small_trainer.h"
#include "tools/error.h"
#include "tools/training/deployed.h"
#include "tools/training/training.h"

namespace nacre::tools {
namespace {

using tests::convolutional;
using tests::perceptron;
using tests::SmallTrainer;

std::string full_name(const std::string& mode) { return mode == "float32" || mode.find('_') != mode.npos ? mode : mode + "_from_float32"; }

TrainingModel compiled(const Graph& graph, const char* policy, const TrainingOptions& training = {}, const Calibration* calibration = nullptr) {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = full_name(policy)});
  compiling.calibration = calibration;
  return compile_training(graph, training, compiling);
}

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

// The graph before it is differentiated.
Graph with_quantizers(const Graph& graph, const char* policy, bool trains) {
  Graph made = graph;
  resolve_policies(made, parse_policy_options({.policy = full_name(policy)}));
  const QuantizerPlan plan = plan_quantizers(made, nullptr, {});
  add_quantizers(made, plan, {}, trains);
  check(made);
  return made;
}

TEST(training_quantizers, static_int8_rounds_what_the_converter_would) {
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8/static", true)),
            "observe_range x x/range/sum x/range/batches\n"
            "fake_quantize x x/range - > x/int8\n"
            "fake_quantize w1 - - > w1/int8\n"
            "observe_range relu1:0 relu1:0/range/sum relu1:0/range/batches\n"
            "fake_quantize relu1:0 relu1:0/range - > relu1:0/int8\n"
            "fake_quantize w2 - - > w2/int8\n"
            "observe_range fc2:0 fc2:0/range/sum fc2:0/range/batches\n"
            "fake_quantize fc2:0 fc2:0/range - > fc2:0/int8\n");  // the softmax behind it is the loss's
  EXPECT_EQ(steps(with_quantizers(perceptron(), "int8/static", false)),
            "fake_quantize x x/range - > x/int8\n"
            "fake_quantize w1 - - > w1/int8\n"
            "fake_quantize relu1:0 relu1:0/range - > relu1:0/int8\n"
            "fake_quantize w2 - - > w2/int8\n"
            "fake_quantize fc2:0 fc2:0/range - > fc2:0/int8\n");
}

// Between a convolution and its batch norm nothing is rounded; behind a max pool nothing needs to be.
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
            "fake_quantize w1 - - > w1/int8\nfake_quantize x - - > x/int8\nfake_quantize w2 - - > w2/int8\nfake_quantize relu1:0 - - > relu1:0/int8\n");
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

TEST(training_quantizers, refuses_what_it_cannot_simulate) {
  EXPECT_THROW(with_quantizers(perceptron(), "int4/32", true), Error);
  TrainingOptions learned;
  learned.quantizers.learned_ranges = true;
  EXPECT_THROW(compiled(perceptron(), "int8/static", learned), Error);
}

// Three classes of points around centers; the same for every test.
struct Data {
  std::vector<float> x;
  std::vector<int32_t> labels;
};
Data batch(uint64_t seed, int rows, int width) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  Data data;
  for (int r = 0; r < rows; ++r) {
    const auto label = int32_t(random() % 3);
    data.labels.push_back(label);
    for (int i = 0; i < width; ++i) data.x.push_back(noise(random) + (i % 3 == label ? 1.5f : -0.5f));
  }
  return data;
}

float mean_of(const std::vector<float>& x, size_t first, size_t last) {
  float sum = 0;
  for (size_t i = first; i < last; ++i) sum += x[i];
  return sum / float(last - first);
}

std::vector<float> train(SmallTrainer& trainer, int steps, int rows, int width, float rate) {
  std::vector<float> losses;
  for (int i = 0; i < steps; ++i) {
    const Data data = batch(uint64_t(i), rows, width);
    const Trainer::Report report = trainer.train(data.x, data.labels, rate);
    losses.push_back(report.loss);
    EXPECT_TRUE(report.applied) << i;
  }
  return losses;
}

TEST(training_quantizers, every_policy_learns) {
  for (const char* policy : {"float32", "int8/static", "int8/weights", "int8", "int4", "float8", "float8/16_from_float32;update_order=transformer_engine", "float8/current"}) {
    TrainingOptions options;
    options.optimizer.kind = Optimizer::kMomentum;
    SmallTrainer dense(compiled(perceptron(16), policy, options).bytes), conv(compiled(convolutional(16), policy, options).bytes);
    const std::vector<float> a = train(dense, 120, 16, 6, 0.05f), b = train(conv, 40, 16, 72, 0.05f);
    EXPECT_LT(mean_of(a, 100, 120), 0.4f * mean_of(a, 0, 3)) << policy;
    EXPECT_LT(mean_of(b, 30, 40), 0.6f * mean_of(b, 0, 3)) << policy;
    std::printf("%-16s dense %.3f -> %.3f   conv %.3f -> %.3f\n", policy, double(mean_of(a, 0, 3)), double(mean_of(a, 100, 120)),
                double(mean_of(b, 0, 3)), double(mean_of(b, 30, 40)));
  }
}

// A running range is the mean of the ends of each step, decayed; what the network's exported range will be.
TEST(training_quantizers, running_ranges_follow_the_data) {
  TrainingOptions options;
  options.quantizers.range_decay = 0.75f;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options).bytes);
  float low = 0, high = 0;
  for (int i = 0; i < 5; ++i) {
    const Data data = batch(uint64_t(i), 16, 6);
    trainer.train(data.x, data.labels, 0.01f);
    const auto [min, max] = std::ranges::minmax(data.x);
    low = i == 0 ? min : 0.75f * low + (1 - 0.75f) * min;
    high = i == 0 ? max : 0.75f * high + (1 - 0.75f) * max;
    EXPECT_EQ(trainer.state<float>("x/range"), (std::vector<float>{low, high})) << i;
  }
}

// Against the formulas over the amaxes of the data, in both orders.
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
      Data data = batch(uint64_t(i), 16, 6);
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

// What training simulated is what the exported integer network computes: y differs by what its bias codes and requantization
// round, at most 2 of its 255 steps.
void check_export(Graph graph, const char* policy, float steps_apart, int width) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kMomentum;
  SmallTrainer trainer(compiled(graph, policy, options).bytes);
  train(trainer, 40, 16, width, 0.03f);
  const Deployed made = deploy(graph, parse_policy_options({.policy = full_name(policy)}), trainer.model(), trainer.trainer().state());
  EXPECT_TRUE(made.fallbacks.empty()) << policy << (made.fallbacks.empty() ? "" : made.fallbacks[0]);
  const LoadedModel model(made.bytes, "exported", "");
  BoundProgram bound(model, model.infer_program());
  float apart = 0, largest = 0;
  for (int i = 0; i < 10; ++i) {
    const Data data = batch(uint64_t(1000 + i), 16, width);
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
  std::printf("%-16s exported network at most %g from the one that was trained, of %g\n", policy, double(apart), double(largest));
  EXPECT_LE(apart, steps_apart * step) << policy;
}

TEST(training_quantizers, exports_what_was_trained) {
  check_export(convolutional(16), "int8/static", 2.01f, 72);
  // The same products in another order: sums of at most 36 terms in float32, outputs up to 16. 36 2^-24 16 = 4e-5.
  for (const char* policy : {"int8/weights", "int4", "int8"}) check_export(convolutional(16), policy, 4e-5f, 72);
  // Of float8 where no batch norm is folded: that changes which weights are rounded.
  check_export(perceptron(16), "float8/current", 4e-5f, 6);
}

// The exported layer gets the scale of its input that training ended with. (That of the weights is made of the weights.)
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
      const float scale = p.update_order == UpdateOrder::kKeras ? keras_step(range->amaxes[0], 1, 448, p.margin, true).scale
                                                                : delayed_scale(range->amaxes[0], 1, 448, p.margin, true).scale;
      EXPECT_EQ(trainer.state<float>(std::string(layer) + "/x/float8_scale"), std::vector<float>{scale}) << policy;
    }
  }
}

// The program `gradients` of a model, run step by step beside its trainer: operands of a step as they are when it runs.
class Steps {
 public:
  explicit Steps(SmallTrainer& trainer) : loaded_(trainer.model()) {
    static const KernelSet* const kSets[] = {&reference::kernels(), &reference::training_kernels()};
    loaded_.require(model().find(Entry::kGradients, nullptr, &index_));
    Sizes sizes;
    loaded_.require(Program::measure(model(), index_, kSets, &sizes));
    block_.resize(size_t(sizes.total()));
    Memory memory;
    loaded_.require(Memory::cut(block_.bytes(), sizes, &memory));
    loaded_.require(program_.bind(model(), index_, kSets, memory));
    for (uint32_t id = 0; id < model().tensors().size(); ++id) {
      const TensorRecord& r = model().tensors()[id];
      if (r.region == Region::kDerived) std::ranges::copy(trainer.trainer().infer().bytes(id), program_.bytes(id).begin());
      if (r.region == Region::kState) std::ranges::copy(trainer.trainer().state().subspan(size_t(r.offset), size_t(r.bytes)), program_.bytes(id).begin());
    }
  }

  const Model& model() const { return loaded_.model(); }
  const Program& program() const { return program_; }
  std::string name(uint32_t tensor) const { return loaded_.tensor_name(tensor); }
  std::vector<float> numbers(uint32_t tensor) const {
    const std::span<const std::byte> bytes = program_.bytes(tensor);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  // f(operands) before each step of `op`.
  void run(Op op, auto f) {
    const ProgramView& view = program_.view();
    for (uint32_t step = 0; step < view.step_count; ++step) {
      const StepRecord& record = model().steps()[view.first_step + step];
      if (record.op == op) f(model().operands(record));
      loaded_.require(program_.run(step, step + 1, 0));
    }
  }

 private:
  const LoadedModel& loaded_;
  uint32_t index_ = 0;
  AlignedBytes block_;
  Program program_;
};

// The ends of a range are trained by the formula of engine/ops/fake_quantize.h, here in float64 over the activations and gradients
// that the program holds:  d low = sum dy over x < l,  d high = sum dy over x > h,  l and h the ends that codes reach.
TEST(training_quantizers, learned_ranges_are_trained_by_the_formula) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions options;
  options.quantizers.learned_ranges = true;
  options.optimizer.kind = Optimizer::kSgd;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options, &calibration).bytes);
  ASSERT_EQ(trainer.state<float>("relu1:0/range"), (std::vector<float>{-0.5f, 0.75f}));
  Steps steps(trainer);
  const Data data = batch(1, 16, 6);
  std::memcpy(steps.program().input(0).data(), data.x.data(), data.x.size() * sizeof(float));
  std::memcpy(steps.program().input(1).data(), data.labels.data(), data.labels.size() * sizeof(int32_t));
  struct End {
    double sum[2] = {0, 0}, size[2] = {0, 0};  // of the gradient, and of the magnitudes in it
    size_t elements = 0, cut = 0;
    uint32_t gradient = 0;
  };
  std::map<std::string, End> ends;
  steps.run(Op::kFakeQuantizeGradientScale, [&](const uint32_t* operands) {
    const uint32_t dy_id = operands[0] & kOperandIdMask, x_id = operands[1] & kOperandIdMask, range_id = operands[2] & kOperandIdMask;
    const std::vector<float> dy = steps.numbers(dy_id), x = steps.numbers(x_id), range = steps.numbers(range_id);
    // [-0.5, 0.75]: scale 1.25 / 255, zero round(-128 + 0.5 / scale) = round(-26) = -26.
    const double scale = double(float(1.25 / 255)), low = scale * (-128 + 26), high = scale * (127 + 26);
    EXPECT_EQ(range, (std::vector<float>{-0.5f, 0.75f}));
    EXPECT_EQ(steps.name(range_id), steps.name(x_id) + "/range");
    End& end = ends[steps.name(range_id)];
    end.gradient = operands[3] & kOperandIdMask;
    end.elements += x.size();
    ASSERT_EQ(x.size(), dy.size());
    for (size_t i = 0; i < x.size(); ++i)
      for (const int side : {0, 1}) {
        const double gap = side == 0 ? low - double(x[i]) : double(x[i]) - high;
        ASSERT_GT(std::abs(gap), 1e-6);  // none so near an end that float32 might see it on the other side
        if (gap <= 0) continue;
        end.sum[side] += double(dy[i]);
        end.size[side] += std::abs(double(dy[i]));
        ++end.cut;
      }
  });
  ASSERT_EQ(ends.size(), 3u);
  const float rate = 0.04f;
  const Trainer::Report report = trainer.train(data.x, data.labels, rate);
  ASSERT_TRUE(report.applied);
  for (const auto& [name, end] : ends) {
    const std::vector<float> found = steps.numbers(end.gradient), after = trainer.state<float>(name);
    const float before[] = {-0.5f, 0.75f};
    EXPECT_GT(end.cut, 0u) << name;
    for (const size_t side : {0u, 1u}) {
      const double rounding = double(end.elements) * 0x1p-24 * end.size[side];  // of a float32 sum, one rounding per addition
      EXPECT_NEAR(double(found[side]), end.sum[side], rounding) << name;
      // sgd over the mean of the samples: range -= rate sum / samples, a few roundings of numbers below 1
      EXPECT_NEAR(double(after[side]), double(before[side]) - double(rate) * end.sum[side] / double(report.samples), rounding + 4 * 0x1p-24) << name;
    }
    EXPECT_GT(end.size[0] + end.size[1], 0) << name;
    std::printf("%-14s %zu of %zu cut, d low %.6g, d high %.6g\n", name.c_str(), end.cut, end.elements, end.sum[0], end.sum[1]);
  }
}

TEST(training_quantizers, learned_ranges_learn) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions options;
  options.quantizers.learned_ranges = true;
  SmallTrainer trainer(compiled(perceptron(16), "int8/static", options, &calibration).bytes);
  const std::vector<float> losses = train(trainer, 400, 16, 6, 0.04f);
  EXPECT_LT(mean_of(losses, 380, 400), 0.7f * mean_of(losses, 0, 3));
}

TEST(training_quantizers, learned_ranges_are_refused_where_they_cannot_be) {
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-0.5f, 0.75f};
  TrainingOptions learned;
  learned.quantizers.learned_ranges = true;
  for (const auto& [policy, words] : {std::pair("int8/static_from_float64", "computes in float64"), std::pair("float32", "layers under int8/static")}) {
    try {
      compiled(perceptron(), policy, learned, &calibration);
      ADD_FAILURE() << policy;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace nacre::tools
