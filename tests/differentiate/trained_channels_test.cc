// Tests training of only some output channels of a layer: its cost, that the other channels keep their bits, and that
// the export has one layer.
#include "tools/differentiate/trained_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/differentiate/small_networks.h"
#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/training_arguments.h"
#include "tools/compile/export.h"
#include "tools/compile/training.h"
#include "tools/evaluate/training_memory.h"
#include "tools/tuner/tuned_model.h"

namespace nacre::tools {
namespace {

using test::convolutional;
using test::perceptron;

constexpr int kBatchRows = 16;

using Data = test::LabelledRows;
Data batch(uint64_t seed, int width) { return test::three_classes(seed, kBatchRows, width); }

TrainingOptions channels(std::vector<TrainedChannels> of, Optimizer optimizer = Optimizer::kSgd) {
  TrainingOptions options;
  options.optimizer.kind = optimizer;
  options.train.channels = std::move(of);
  return options;
}

CompileOptions with_policy(const std::string& policy) {
  CompileOptions compiling;
  if (!policy.empty()) compiling.policies = parse_policy_options({.policy = policy});
  return compiling;
}

class ChannelTrainer {
 public:
  explicit ChannelTrainer(const TrainingModel& made) : model_(made.bytes, "test", ""), trainer_(model_) {}

  float train(const Data& data, float rate) {
    std::memcpy(trainer().input(0).data(), data.x.data(), trainer().input(0).size());
    std::memcpy(trainer().input(1).data(), data.labels.data(), trainer().input(1).size());
    model_.require(trainer().accumulate());
    Trainer::Report report;
    model_.require(trainer().commit(rate, &report));
    EXPECT_TRUE(report.applied);
    return report.loss;
  }
  std::pair<float, float> train(int steps, int width, float rate) {  // mean losses of 10 steps
    float first = 0, last = 0;
    for (int i = 0; i < steps; ++i) {
      const float loss = train(batch(uint64_t(i), width), rate) / 10;
      if (i < 10) first += loss;
      if (i >= steps - 10) last += loss;
    }
    return {first, last};
  }
  std::map<std::string, std::vector<float>> parameters() {
    std::map<std::string, std::vector<float>> all;
    for (uint32_t id = 0; id < model_.model().tensors().size(); ++id) {
      const TensorRecord& r = model_.model().tensors()[id];
      if (r.region != Region::kState || (r.flags & kTrainable) == 0) continue;
      std::vector<float>& numbers = all[model_.tensor_name(id)];
      numbers.resize(size_t(r.bytes) / sizeof(float));
      std::memcpy(numbers.data(), trainer().state().data() + r.offset, r.bytes);
    }
    return all;
  }
  std::vector<uint8_t> exported() { return tuned_model(trainer_, {}); }
  Trainer& trainer() { return trainer_.trainer(); }
  const LoadedModel& model() const { return model_; }

 private:
  LoadedModel model_;
  LoadedTrainer trainer_;
};

std::vector<float> constant(const std::vector<uint8_t>& bytes, const std::string& name) {
  const LoadedModel loaded(bytes, "test", "");
  BoundProgram bound(loaded, loaded.infer_program());
  for (uint32_t id = 0; id < loaded.model().tensors().size(); ++id)
    if (loaded.tensor_name(id) == name && loaded.model().tensors()[id].region == Region::kWeights) {
      const auto data = bound.program().bytes(id);
      std::vector<float> numbers(data.size() / sizeof(float));
      std::memcpy(numbers.data(), data.data(), numbers.size() * sizeof(float));
      return numbers;
    }
  ADD_FAILURE() << name;
  return {};
}

// Returns op, attributes, operands and offsets of every step.
std::vector<std::string> steps(const std::vector<uint8_t>& bytes) {
  const LoadedModel loaded(bytes, "test", "");
  const Model& model = loaded.model();
  const ProgramView view = model.program(loaded.infer_program());
  std::vector<std::string> all;
  for (uint32_t s = view.first_step; s < view.first_step + view.step_count; ++s) {
    const StepRecord& step = model.steps()[s];
    std::string text = std::string(find_rule(step.op)->name) + " of " + loaded.layer(step.layer).name;
    const Words words = model.words(step);
    for (int i = 0; i < words.count; ++i) text += " " + std::to_string(words[i]);
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const uint32_t id = model.operands(step)[i] & kOperandIdMask;
      if (id == kNoOperand) continue;
      const TensorRecord& r = model.tensors()[id];
      text += " " + (r.region == Region::kArena ? "+" + std::to_string(r.offset) : loaded.tensor_name(id)) + ":" +
              std::to_string(r.bytes);
    }
    all.push_back(text);
  }
  return all;
}

// Returns the rows [first, end) of `rows`.
std::vector<float> cut(const std::vector<float>& all, size_t rows, size_t first, size_t end) {
  const size_t row = all.size() / rows;
  return {all.begin() + std::ptrdiff_t(first * row), all.begin() + std::ptrdiff_t(end * row)};
}

TEST(trained_channels, only_these_rows_have_gradients) {
  const TrainingModel made = compile_training(convolutional(kBatchRows), channels({{.pattern = "conv2", .share = 0.5}}),
                                              with_policy("float32"));
  std::vector<std::string> trained;
  for (const Value& v : made.gradients.values)
    if (v.trainable) trained.push_back(v.name);
  EXPECT_EQ(trained, (std::vector<std::string>{"conv1.w", "conv1.b", "bn1.scale", "bn1.bias", "fc.w", "fc.b",
                                               "conv2.w/channels[0:2]", "conv2.b/channels[0:2]"}));
  for (const Node& node : made.gradients.nodes)
    if (node.op == Op::kConv2dGradientW) {
      const Value& sum = made.gradients.values[size_t(node.inputs.back())];
      EXPECT_EQ(sum.dims[0], sum.name.starts_with("conv2") ? 2 : 4) << sum.name;
    }
}

// Runs one SGD step from the same numbers. The layers after the split layer, and its trained rows, move as without
// the split, to the bit. Before it the gradient is a sum of two parts, in another order: 4 channels of 9 terms each,
// 2 * 36 * 2^-24 of the largest gradient.
TEST(trained_channels, the_first_gradient_is_that_of_the_rows) {
  struct Row {
    const char* layer;
    Graph (*make)(int);
    int width;
    int64_t first, end;
    size_t outputs;
    std::string w, b;
    std::vector<std::string> behind, before;
  };
  const Row rows[] = {{"conv2",
                       &convolutional,
                       72,
                       1,
                       3,
                       4,
                       "conv2.w",
                       "conv2.b",
                       {"fc.w", "fc.b"},
                       {"conv1.w", "conv1.b", "bn1.scale", "bn1.bias"}},
                      {"conv1",
                       &convolutional,
                       72,
                       0,
                       1,
                       4,
                       "conv1.w",
                       "conv1.b",
                       {"conv2.w", "conv2.b", "fc.w", "fc.b", "bn1.scale", "bn1.bias"},
                       {}},
                      {"fc1", &perceptron, 6, 2, 4, 5, "w1", "b1", {"w2", "b2"}, {}},
                      {"fc2", &perceptron, 6, 2, 3, 3, "w2", "b2", {}, {"w1", "b1"}}};
  for (const Row& row : rows) {
    ChannelTrainer full(compile_training(row.make(kBatchRows), channels({}), with_policy("float32")));
    ChannelTrainer part(compile_training(row.make(kBatchRows),
                                         channels({{.pattern = row.layer, .first = row.first, .end = row.end}}),
                                         with_policy("float32")));
    const auto start = full.parameters();
    EXPECT_EQ(full.train(batch(3, row.width), 0.1f), part.train(batch(3, row.width), 0.1f));
    const auto want = full.parameters(), got = part.parameters();
    const std::string suffix = "/channels[" + std::to_string(row.first) + ":" + std::to_string(row.end) + "]";
    for (const std::string& name : {row.w, row.b}) {
      ASSERT_TRUE(got.contains(name + suffix)) << name;
      EXPECT_EQ(got.at(name + suffix), cut(want.at(name), row.outputs, size_t(row.first), size_t(row.end)))
          << row.layer;
    }
    EXPECT_NE(got.at(row.w + suffix), cut(start.at(row.w), row.outputs, size_t(row.first), size_t(row.end)))
        << row.layer;
    for (const std::string& name : row.behind) EXPECT_EQ(got.at(name), want.at(name)) << name;
    for (const std::string& name : row.before) {
      float largest = 0;
      for (size_t i = 0; i < want.at(name).size(); ++i)
        largest = std::max(largest, std::abs(want.at(name)[i] - start.at(name)[i]));
      for (size_t i = 0; i < want.at(name).size(); ++i)
        EXPECT_NEAR(got.at(name)[i], want.at(name)[i],
                    2 * 36 * 0x1p-24f * largest + 0x1p-24f * std::abs(want.at(name)[i]))
            << name;
    }
  }
}

TEST(trained_channels, the_others_stay_and_one_layer_comes_out) {
  for (const char* policy : {"float32", "mixed_bfloat16"}) {
    TrainingOptions options =
        channels({{.pattern = "conv2", .first = 1, .end = 3}, {.pattern = "fc", .share = 0.5}}, Optimizer::kMomentum);
    options.train.layers = {"conv2", "fc"};
    ChannelTrainer trainer(compile_training(convolutional(kBatchRows), options, with_policy(policy)));
    ChannelTrainer whole(
        compile_training(convolutional(kBatchRows), channels({}, Optimizer::kMomentum), with_policy(policy)));
    const std::vector<uint8_t> before = whole.exported();
    const auto [first, last] = trainer.train(80, 72, 0.05f);
    EXPECT_LT(last, 0.8f * first) << policy;
    const std::vector<uint8_t> bytes = trainer.exported();
    EXPECT_EQ(steps(bytes), steps(before)) << policy;  // those of the network that was not split
    if (std::string(policy) != "float32") continue;
    for (const auto& [name, rows, begin, end] : {std::tuple("conv2.w", 4, 1, 3), std::tuple("conv2.b", 4, 1, 3),
                                                 std::tuple("fc.w", 3, 0, 2), std::tuple("fc.b", 3, 0, 2)}) {
      const std::vector<float> a = constant(before, name), b = constant(bytes, name);
      for (int row = 0; row < rows; ++row) {
        const bool same =
            cut(a, size_t(rows), size_t(row), size_t(row) + 1) == cut(b, size_t(rows), size_t(row), size_t(row) + 1);
        EXPECT_EQ(same, row < begin || row >= end) << name << " row " << row;
      }
    }
    EXPECT_EQ(constant(before, "conv1.w"), constant(bytes, "conv1.w"));
    Graph network = convolutional(kBatchRows);  // to compile anew
    EXPECT_EQ(with_parameters(network, trainer.model(), trainer.trainer().state()), 4);
    for (const Value& v : network.values) {
      if (v.name == "conv2.w" || v.name == "fc.b") {
        EXPECT_EQ(reals(v), constant(bytes, v.name)) << v.name;
      }
    }
  }
}

TEST(trained_channels, inputs_stay_where_they_did) {
  for (const bool keep : {false, true}) {
    CompileOptions compiling = with_policy("float32");
    compiling.target.keep_inputs = keep;
    TrainingOptions options = channels({{.pattern = "conv2", .share = 0.5}});
    ChannelTrainer trainer(compile_training(convolutional(kBatchRows), options, compiling)),
        whole(compile_training(convolutional(kBatchRows), channels({}), compiling));
    const std::vector<uint8_t> bytes = trainer.exported();
    EXPECT_EQ(steps(bytes), steps(whole.exported())) << keep;
    const LoadedModel model(bytes, "test", "");
    BoundProgram bound(model, model.infer_program());
    const std::vector<float> x = batch(4, 72).x;
    const auto* first = reinterpret_cast<const uint8_t*>(x.data());
    bound.run({first, x.size() * sizeof(float)});
    EXPECT_EQ(std::memcmp(bound.program().input(0).data(), x.data(), x.size() * sizeof(float)) == 0, keep);
  }
}

uint64_t aligned_bytes(uint64_t floats) { return (4 * floats + kAlignment - 1) / kAlignment * kAlignment; }

// The sizes are: conv1 [4, 3, 3, 2] and bias, batch norm 4 and 4, conv2 [4, 3, 3, 4] and bias, fc [3, 4] and bias.
TEST(trained_channels, bytes_are_those_of_the_rows) {
  const auto memory = [](const TrainingOptions& options) {
    const LoadedModel model(compile_training(convolutional(kBatchRows), options, with_policy("float32")).bytes, "test",
                            "");
    return training_memory(model, {});
  };
  const TrainingMemory full = memory(channels({}, Optimizer::kAdam)),
                       part = memory(
                           channels({{.pattern = "conv2", .share = 0.25}, {.pattern = "conv1", .first = 1, .end = 3}},
                                    Optimizer::kAdam));
  const uint64_t frozen = 4 * (3 * 36 + 3 + 2 * 18 + 2);
  EXPECT_EQ(full.parameters, 4u * (72 + 4 + 4 + 4 + 144 + 4 + 12 + 3));
  EXPECT_EQ(full.parameters - part.parameters, frozen);
  EXPECT_EQ(full.moments - part.moments, 2 * frozen);
  const uint64_t rest = 2 * aligned_bytes(4) + aligned_bytes(12) + aligned_bytes(3);  // batch norm, fc
  EXPECT_EQ(full.gradients, rest + aligned_bytes(72) + aligned_bytes(4) + aligned_bytes(144) + aligned_bytes(4));
  EXPECT_EQ(part.gradients, rest + aligned_bytes(36) + aligned_bytes(2) + aligned_bytes(36) + aligned_bytes(1));
}

// The frozen part of an int8 file stays an integer step.
TEST(trained_channels, of_a_quantized_network) {
  Graph graph = perceptron(kBatchRows);
  Calibration calibration;
  for (const char* name : {"x", "relu1:0", "fc2:0"}) calibration.ranges[name].range = {-6, 6};
  resolve_policies(graph, parse_policy_options({.policy = "int8/static_from_float32"}));
  quantize_static(graph, &calibration);
  for (Layer& layer : graph.layers) layer.asked = false;
  TrainingOptions options = channels({{.pattern = "fc2", .first = 0, .end = 2}}, Optimizer::kMomentum);
  options.train.layers = {"fc2"};
  const TrainingModel made = compile_training(graph, options, with_policy(""));
  const auto integer = std::ranges::count_if(made.gradients.nodes, [&](const Node& node) {
    return node.op == Op::kDense && made.gradients.values[size_t(node.inputs[1])].type == ElementType::kInt8;
  });
  EXPECT_EQ(integer, 2);  // fc1, and one output of fc2
  ChannelTrainer trainer(made);
  const auto [first, last] = trainer.train(80, 6, 0.05f);
  EXPECT_LT(last, 0.8f * first);
  trainer.exported();  // equals what the trainer infers, or throws
}

TEST(trained_channels, with_updates_at_once_and_steps_again) {
  TrainingOptions options = channels({{.pattern = "conv.*", .share = 0.5}});
  ChannelTrainer plain(compile_training(convolutional(kBatchRows), options, with_policy("float32")));
  options.arena_limit = 1;
  ChannelTrainer again(compile_training(convolutional(kBatchRows), options, with_policy("float32")));
  options.immediate = true;
  ChannelTrainer at_once(compile_training(convolutional(kBatchRows), options, with_policy("float32")));
  for (ChannelTrainer* trainer : {&plain, &again, &at_once}) trainer->train(batch(2, 72), 0.1f);
  EXPECT_EQ(plain.parameters(), again.parameters());
  EXPECT_EQ(plain.parameters(), at_once.parameters());
}

TEST(trained_channels, refuse_what_cannot_be_split) {
  const auto refused = [](std::vector<TrainedChannels> of, const char* policy = "float32",
                          std::vector<std::string> layers = {}) {
    TrainingOptions options = channels(std::move(of));
    options.train.layers = std::move(layers);
    EXPECT_THROW(compile_training(convolutional(kBatchRows), options, with_policy(policy)), Error);
  };
  refused({{.pattern = "conv2", .first = 2, .end = 5}});
  refused({{.pattern = "nowhere", .share = 0.5}});
  refused({{.pattern = "bn1", .share = 0.5}});
  refused({{.pattern = "conv(", .share = 0.5}});
  refused({{.pattern = "conv2", .share = 0.5}}, "int8/weights_from_float32");
  refused({{.pattern = "conv2", .share = 0.5}}, "float32", {"fc"});
  Graph depthwise = convolutional(kBatchRows);
  for (Node& node : depthwise.nodes)
    if (node.name == "conv2") set_integer(node, "groups", 2);
  EXPECT_THROW(split_channels(depthwise, channels({{.pattern = "conv2", .share = 0.5}}).train), Error);
  const auto parsed = [](const std::string& text) {
    TrainingArguments arguments;
    arguments.loss = "softmax_cross_entropy";
    arguments.channels = {text};
    return parse_training(arguments, {}).train.channels.at(0);
  };
  EXPECT_EQ(parsed("conv.*=0.25").share, 0.25);
  EXPECT_EQ(parsed("a=b=3:7").pattern, "a=b");
  EXPECT_EQ(parsed("a=b=3:7").end, 7);
  for (const char* text : {"conv", "=0.5", "conv=", "conv=0", "conv=1.5", "conv=-1", "conv=3:3", "conv=4:2",
                           "conv=-1:2", "conv=1:", "conv=:2", "conv=1:2:3", "conv=nan"})
    EXPECT_THROW(parsed(text), Error) << text;
}

}  // namespace
}  // namespace nacre::tools
