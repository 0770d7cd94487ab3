// A network deployed in int8 trains its own codes: against the gradients in float64, and against the network that was deployed.
#include "tools/training/trained_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "tests/training/small_networks.h"
#include "tools/calibration/quantize_static.h"
#include "tools/error.h"
#include "tools/training/export.h"
#include "tools/training/training.h"
#include "tools/training/tuned_model.h"

namespace nacre::tools {
namespace {

using tests::convolutional;
using tests::perceptron;

constexpr int kRows = 16;

using Data = tests::LabelledRows;
Data batch(uint64_t seed, int width) { return tests::three_classes(seed, kRows, width); }

// Ranges that hold what the networks compute of it.
const Calibration& calibration() {
  static const Calibration made = [] {
    Calibration c;
    const std::pair<const char*, Range> ranges[] = {{"x", {-2, 3}},      {"relu1:0", {0, 6}}, {"fc2:0", {-6, 6}},
                                                    {"relu2:0", {0, 6}}, {"mean:0", {0, 4}},  {"fc:0", {-8, 8}}};
    for (const auto& [name, range] : ranges) c.ranges[name].range = range;
    return c;
  }();
  return made;
}

CompileOptions in_int8() {
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = "int8/static_from_float32"});
  compiling.calibration = &calibration();
  return compiling;
}

std::vector<uint8_t> deployed(Graph graph) {
  simplify(graph);
  return compile(std::move(graph), in_int8()).bytes;
}

TrainingOptions codes(Optimizer optimizer = Optimizer::kSgd) {
  TrainingOptions options;
  options.codes = true;
  options.optimizer.kind = optimizer;
  return options;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& x) {
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  return {first, first + x.size() * sizeof(T)};
}

class CodeTrainer {
 public:
  explicit CodeTrainer(const TrainingModel& made) : model_(made.bytes, "test", ""), trainer_(model_) {}

  Trainer::Report train(std::span<const uint8_t> x, std::span<const uint8_t> labels, float rate) {
    std::memcpy(trainer().input(0).data(), x.data(), x.size());
    std::memcpy(trainer().input(1).data(), labels.data(), labels.size());
    model_.require(trainer().accumulate());
    Trainer::Report report;
    model_.require(trainer().commit(rate, &report));
    EXPECT_TRUE(report.applied);
    return report;
  }
  Trainer::Report train(const Data& data, float rate) { return train(bytes_of(data.x), bytes_of(data.labels), rate); }
  // Mean losses of the first and the last ten steps.
  std::pair<float, float> train(int steps, int width, float rate) {
    float first = 0, last = 0;
    for (int i = 0; i < steps; ++i) {
      const float loss = train(batch(uint64_t(i), width), rate).loss / 10;
      if (i < 10) first += loss;
      if (i >= steps - 10) last += loss;
    }
    return {first, last};
  }
  std::vector<uint8_t> infer(const std::vector<float>& x) { return infer(bytes_of(x)); }
  std::vector<uint8_t> infer(const std::vector<uint8_t>& x) {
    const Program& program = trainer().infer();
    std::memcpy(program.input(0).data(), x.data(), program.input(0).size());
    model_.require(program.run());
    const auto* y = reinterpret_cast<const uint8_t*>(program.output(0).data());
    return {y, y + program.output(0).size()};
  }
  std::vector<float> state(const std::string& name) {
    for (uint32_t id = 0; id < model_.model().tensors().size(); ++id) {
      const TensorRecord& r = model_.model().tensors()[id];
      if (r.region != Region::kState || model_.tensor_name(id) != name) continue;
      std::vector<float> numbers(size_t(r.bytes) / sizeof(float));
      std::memcpy(numbers.data(), trainer().state().data() + r.offset, r.bytes);
      return numbers;
    }
    return {};
  }
  std::vector<uint8_t> exported() { return tuned_model(trainer_, {}); }
  Trainer& trainer() { return trainer_.trainer(); }
  const LoadedModel& model() const { return model_; }

 private:
  LoadedModel model_;
  LoadedTrainer trainer_;
};

// What a model's program is, but for the bytes of its constants; and these.
struct Anatomy {
  std::vector<std::string> steps;
  std::map<std::string, std::vector<uint8_t>> constants;
  Sizes sizes;
  uint64_t weights = 0;
};
Anatomy anatomy(const std::vector<uint8_t>& bytes) {
  const LoadedModel loaded(bytes, "test", "");
  BoundProgram bound(loaded, loaded.infer_program());
  const Model& model = loaded.model();
  Anatomy a = {{}, {}, bound.sizes(), loaded.weight_bytes()};
  const ProgramView& view = bound.program().view();
  for (uint32_t s = view.first_step; s < view.first_step + view.step_count; ++s) {
    const StepRecord& step = model.steps()[s];
    std::string text = find_rule(step.op)->name;
    const Words words = model.words(step);
    for (int i = 0; i < words.count; ++i) text += " " + std::to_string(words[i]);
    text += " rounding " + std::to_string(int(step.rounding));
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const uint32_t id = model.operands(step)[i] & kOperandIdMask;
      if (id == kNoOperand) continue;
      const TensorRecord& r = model.tensors()[id];
      text += " " + loaded.tensor_name(id) + ":" + std::to_string(int(r.element)) + "@" + std::to_string(int(r.region)) + "+" +
              (r.region == Region::kArena ? std::to_string(r.offset) : "");
      if (r.region != Region::kWeights) continue;
      const auto data = bound.program().bytes(id);
      const auto* first = reinterpret_cast<const uint8_t*>(data.data());
      a.constants[loaded.tensor_name(id)] = {first, first + data.size()};
    }
    a.steps.push_back(text);
  }
  return a;
}

std::vector<std::string> differing(const Anatomy& a, const Anatomy& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a.constants)
    if (!b.constants.contains(name) || b.constants.at(name) != bytes) names.push_back(name);
  return names;
}

std::vector<uint8_t> run(const std::vector<uint8_t>& bytes, const std::vector<float>& x) {
  const LoadedModel model(bytes, "test", "");
  return BoundProgram(model, model.infer_program()).run(bytes_of(x));
}

struct Subject {
  const char* name;
  Graph (*make)(int);
  int width;
};
constexpr Subject kSubjects[] = {{"dense", &perceptron, 6}, {"conv", &convolutional, 72}};

TEST(trained_codes, inference_is_the_deployed_network_at_first) {
  for (const Subject& subject : kSubjects) {
    const Graph graph = subject.make(kRows);
    CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
    const std::vector<uint8_t> before = deployed(graph);
    const std::vector<float> x = batch(99, subject.width).x;
    EXPECT_EQ(trainer.infer(x), run(before, x)) << subject.name;
    const Anatomy a = anatomy(before), b = anatomy(trainer.exported());
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(differing(a, b), std::vector<std::string>());
  }
}

// The same steps, offsets, sizes and constants, but for codes of weights and biases; and it computes what training's own inference does.
TEST(trained_codes, learns_and_exports_the_same_network_with_other_codes) {
  for (const Subject& subject : kSubjects) {
    const Graph graph = subject.make(kRows);
    CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
    const Anatomy before = anatomy(deployed(graph));
    const auto [first, last] = trainer.train(120, subject.width, 0.05f);
    EXPECT_LT(last, 0.5f * first) << subject.name;
    const std::vector<uint8_t> bytes = trainer.exported();
    const Anatomy after = anatomy(bytes);
    EXPECT_EQ(after.steps, before.steps);
    EXPECT_TRUE(std::ranges::equal(after.sizes.bytes, before.sizes.bytes));
    EXPECT_EQ(after.weights, before.weights);
    std::vector<std::string> trained = subject.width == 6
                                           ? std::vector<std::string>{"b1", "b2", "w1", "w2"}
                                           : std::vector<std::string>{"conv1.b", "conv1.w", "conv2.b", "conv2.w", "fc.b", "fc.w"};
    std::vector<std::string> changed = differing(before, after);
    for (std::string& name : changed) name = name.substr(0, name.find('/'));  // of a folded batch norm
    EXPECT_EQ(changed, trained) << subject.name;
    for (uint64_t seed = 1000; seed < 1005; ++seed) {
      const std::vector<float> x = batch(seed, subject.width).x;
      EXPECT_EQ(run(bytes, x), trainer.infer(x));
    }
    std::printf("%-6s loss %.3f -> %.3f\n", subject.name, double(first), double(last));
  }
}

// ---- One step of SGD, in float64 ----

struct Codes {  // real = scale (code - zero)
  double scale, zero;
  double rounded(double v) const { return scale * (std::clamp(std::round(v / scale) + zero, -128.0, 127.0) - zero); }
  double low() const { return scale * (-128 - zero); }
  double high() const { return scale * (127 - zero); }
};
Codes codes_of(const LoadedModel& model, const std::string& name) {
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
    if (model.tensor_name(id) == name)
      if (const std::optional<Scales> s = model.scales(id)) return {double(s->scale[0]), double(s->zero.empty() ? 0 : s->zero[0])};
  ADD_FAILURE() << name;
  return {1, 0};
}

struct Layer {  // [outputs, terms]
  std::vector<double> w, b, w_step, b_step, dw, db;
  size_t terms() const { return w.size() / b.size(); }
  double real(size_t k, size_t i) const { return w_step[k] * w[k * terms() + i]; }

  std::vector<double> run(const std::vector<double>& x) const {
    std::vector<double> y;
    for (size_t k = 0; k < b.size(); ++k) {
      double sum = b_step[k] * b[k];
      for (size_t i = 0; i < terms(); ++i) sum += real(k, i) * x[i];
      y.push_back(sum);
    }
    return y;
  }
  // Gradients of the real weights, and of x.
  std::vector<double> back(const std::vector<double>& x, const std::vector<double>& dy) {
    std::vector<double> dx(x.size(), 0);
    for (size_t k = 0; k < b.size(); ++k) {
      db[k] += dy[k];
      for (size_t i = 0; i < terms(); ++i) {
        dw[k * terms() + i] += dy[k] * x[i];
        dx[i] += dy[k] * real(k, i);
      }
    }
    return dx;
  }
};

// The perceptron on its codes: x, relu and logits rounded, gradients straight through inside of their ranges; the masters move by
// rate dL/dw / step. In float32 sums of 6 terms and 16 rows, each rounded: 4 (6 + 16) 2^-24 of the largest gradient, and the softmax's
// exponentials are within 2 ulp: 1e-5 of the largest is more than all of it. A code of x, relu or logits that falls to the other side in
// float32 would be an error of 1/255 of a range, and is none in these rows.
TEST(trained_codes, one_step_is_the_scaled_rule_in_float64) {
  const Graph graph = perceptron(kRows);
  const std::vector<uint8_t> bytes = deployed(graph);
  const LoadedModel model(bytes, "test", "");
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  Layer layers[2];
  const Codes x_codes = codes_of(model, "x/int8"), h_codes = codes_of(model, "relu1:0"), z_codes = codes_of(model, "fc2:0");
  for (int l = 0; l < 2; ++l) {
    const std::string w = l == 0 ? "w1" : "w2", b = l == 0 ? "b1" : "b2";
    Layer& layer = layers[l];
    for (const float code : trainer.state(w + kMaster)) layer.w.push_back(double(code));
    for (const float code : trainer.state(b + kMaster)) layer.b.push_back(double(code));
    ASSERT_FALSE(layer.b.empty());
    std::optional<Scales> scales;
    for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
      if (model.tensor_name(id) == w) scales = model.scales(id);
    ASSERT_TRUE(scales && scales->scale.size() == layer.b.size());
    for (const float s : scales->scale) {
      layer.w_step.push_back(double(s));
      layer.b_step.push_back(double(s) * (l == 0 ? x_codes : h_codes).scale);
    }
    layer.dw.assign(layer.w.size(), 0);
    layer.db.assign(layer.b.size(), 0);
  }
  const Data data = batch(5, 6);
  double loss = 0;
  for (size_t r = 0; r < kRows; ++r) {
    std::vector<double> x, h, z;
    for (size_t i = 0; i < 6; ++i) x.push_back(x_codes.rounded(double(data.x[r * 6 + i])));
    const std::vector<double> before = layers[0].run(x);
    for (const double v : before) h.push_back(h_codes.rounded(std::max(v, 0.0)));
    const std::vector<double> logits = layers[1].run(h);
    for (const double v : logits) z.push_back(z_codes.rounded(v));
    double sum = 0;
    for (const double v : z) sum += std::exp(v);
    const auto label = size_t(data.labels[r]);
    loss += (std::log(sum) - z[label]) / kRows;
    std::vector<double> dz;
    for (size_t k = 0; k < 3; ++k) {
      const bool inside = logits[k] >= z_codes.low() && logits[k] <= z_codes.high();
      dz.push_back(inside ? (std::exp(z[k]) / sum - (k == label ? 1 : 0)) / kRows : 0);
    }
    std::vector<double> dh = layers[1].back(h, dz);
    for (size_t k = 0; k < 5; ++k)
      if (before[k] <= 0 || before[k] > h_codes.high()) dh[k] = 0;
    layers[0].back(x, dh);
  }
  const float rate = 0.05f;
  EXPECT_NEAR(trainer.train(data, rate).loss, loss, 1e-5 * loss);
  for (int l = 0; l < 2; ++l) {
    const Layer& layer = layers[l];
    const std::vector<float> w = trainer.state((l == 0 ? "w1" : "w2") + std::string(kMaster)),
                             b = trainer.state((l == 0 ? "b1" : "b2") + std::string(kMaster));
    double largest = 0;
    for (const double v : layer.dw) largest = std::max(largest, std::abs(v));
    ASSERT_GT(largest, 0);
    for (size_t i = 0; i < w.size(); ++i) {
      const double step = layer.w_step[i / layer.terms()];
      EXPECT_NEAR(double(w[i]), layer.w[i] - double(rate) * layer.dw[i] / step, double(rate) * 1e-5 * largest / step + 128 * 0x1p-24);
    }
    for (size_t k = 0; k < b.size(); ++k)
      EXPECT_NEAR(double(b[k]), layer.b[k] - double(rate) * layer.db[k] / layer.b_step[k],
                  double(rate) * 1e-5 / layer.b_step[k] + std::abs(layer.b[k]) * 0x1p-23);
  }
}

// Why the gradient is scaled. Without it a master would move by step^2 times as much: as at a rate of step^2 for the largest step at most.
// At the rate that learns, that is not one code in 120 steps.
TEST(trained_codes, without_the_factor_no_code_would_move) {
  const Graph graph = perceptron(kRows);
  CodeTrainer scaled(compile_training(graph, codes(), in_int8())), chain(compile_training(graph, codes(), in_int8()));
  const LoadedModel model(deployed(graph), "test", "");
  double largest = 0;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
    if (model.tensor_name(id) == "w1" || model.tensor_name(id) == "w2")
      for (const std::vector<float> steps = model.scales(id)->scale; const float s : steps) largest = std::max(largest, double(s));
  ASSERT_GT(largest, 0);
  const std::vector<float> at_first = scaled.state("w1/master");
  const auto [first, last] = scaled.train(120, 6, 0.05f);
  const auto [same, still] = chain.train(120, 6, float(0.05 * largest * largest));
  const auto moved = [&](CodeTrainer& trainer) {
    const std::vector<float> now = trainer.state("w1/master");
    return std::ranges::count_if(now, [&, i = size_t{0}](float v) mutable { return std::round(v) != at_first[i++]; });
  };
  EXPECT_LT(last, 0.5f * first);
  EXPECT_GT(moved(scaled), 20);  // of 30
  EXPECT_GT(still, 0.95f * same);
  EXPECT_EQ(moved(chain), 0);
  std::printf("scaled: loss %.3f -> %.3f, %d of 30 codes moved; by the chain rule alone: %.3f -> %.3f, %d\n", double(first), double(last),
              int(moved(scaled)), double(same), double(still), int(moved(chain)));
}

// Frozen layers before the first that trains stay integer steps; their codes, and those behind it, stay.
TEST(trained_codes, of_named_layers) {
  TrainingOptions last = codes();
  last.train.layers = {"fc"};
  const TrainingModel made = compile_training(convolutional(kRows), last, in_int8());
  std::vector<std::string> trained;
  for (const Value& v : made.gradients.values)
    if (v.trainable) trained.push_back(v.name);
  EXPECT_EQ(trained, (std::vector<std::string>{"fc.w/master", "fc.b/master"}));
  for (const Node& node : made.gradients.nodes) {
    if (node.op == Op::kConv2d) {
      EXPECT_EQ(made.gradients.values[size_t(node.outputs[0])].type, ElementType::kInt8);
    }
  }
  EXPECT_EQ(std::ranges::count(made.gradients.nodes, Op::kConv2dGradientX, &Node::op), 0);

  // What is differentiated simulates what is deployed. Before fc both compute the same codes; fc's sums are exact there and within
  // (terms + 1) 2^-24 here, its multiplier within 2^-31: only where a sum falls between two codes one of them may round otherwise.
  CodeTrainer head(made);
  int apart = 0, answers = 0;
  const double step = codes_of(head.model(), "fc:0/int8").scale;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Data data = batch(seed, 72);
    const std::vector<uint8_t> deployed = head.infer(data.x);
    head.train(data, 0.05f);  // what it gives out is of the codes before
    std::vector<float> real(kRows * 3), simulated(kRows * 3);
    ASSERT_EQ(deployed.size(), real.size() * sizeof(float));
    std::memcpy(real.data(), deployed.data(), deployed.size());
    std::memcpy(simulated.data(), head.trainer().output(0).data(), deployed.size());
    for (size_t i = 0; i < real.size(); ++i, ++answers) {
      const double error = std::abs(double(real[i]) - double(simulated[i]));
      EXPECT_LE(error, 1.001 * step);
      apart += error > 0.5 * step ? 1 : 0;
    }
  }
  EXPECT_LT(apart, answers / 50);

  TrainingOptions first = codes();
  first.train.layers = {"conv1"};
  CodeTrainer trainer(compile_training(convolutional(kRows), first, in_int8()));
  const Anatomy before = anatomy(deployed(convolutional(kRows)));
  const auto [start, end] = trainer.train(300, 72, 0.2f);
  EXPECT_LT(end, 0.9f * start) << start;
  const Anatomy after = anatomy(trainer.exported());
  EXPECT_EQ(after.steps, before.steps);
  std::vector<std::string> changed = differing(before, after);
  for (const std::string& name : changed) EXPECT_TRUE(name.starts_with("conv1.")) << name;
  EXPECT_EQ(changed.size(), 2u);

  TrainingOptions biases = codes();
  biases.train.biases_only = true;
  CodeTrainer tuned(compile_training(convolutional(kRows), biases, in_int8()));
  tuned.train(30, 72, 0.05f);
  for (const std::string& name : differing(before, anatomy(tuned.exported()))) EXPECT_NE(name.find(".b"), name.npos) << name;
}

TEST(trained_codes, with_every_optimizer_and_update_at_once) {
  for (const Optimizer optimizer : {Optimizer::kMomentum, Optimizer::kAdam}) {
    CodeTrainer trainer(compile_training(perceptron(kRows), codes(optimizer), in_int8()));
    const auto [first, last] = trainer.train(120, 6, optimizer == Optimizer::kAdam ? 0.5f : 0.02f);  // Adam's rate counts codes
    EXPECT_LT(last, 0.5f * first);
  }
  TrainingOptions at_once = codes();
  at_once.immediate = true;
  CodeTrainer immediate(compile_training(perceptron(kRows), at_once, in_int8())),
      whole(compile_training(perceptron(kRows), codes(), in_int8()));
  immediate.train(batch(1, 6), 0.05f);
  whole.train(batch(1, 6), 0.05f);
  for (const char* name : {"w1/master", "b1/master", "w2/master", "b2/master"}) EXPECT_EQ(immediate.state(name), whole.state(name)) << name;
}

// Codes leave their range: what is exported saturates, as what was trained did.
TEST(trained_codes, saturate) {
  const Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  trainer.train(60, 6, 2.0f);
  const std::vector<float> w = trainer.state("w2/master");
  EXPECT_GT(*std::ranges::max_element(w, {}, [](float v) { return std::abs(v); }), 128.5f);
  const std::vector<float> x = batch(7, 6).x;
  EXPECT_EQ(run(trainer.exported(), x), trainer.infer(x));
}

TEST(trained_codes, into_the_network_s_own_graph) {
  Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, codes(), in_int8()));
  trainer.train(30, 6, 0.05f);
  Graph coded = graph;  // as an int8 file is imported
  simplify(coded);
  resolve_policies(coded, in_int8().policies);
  quantize_static(coded, &calibration());
  EXPECT_EQ(with_parameters(coded, trainer.model(), trainer.trainer().state()), 4);
  Graph plain = graph;  // which has no codes
  EXPECT_THROW(with_parameters(plain, trainer.model(), trainer.trainer().state()), Error);
  const Anatomy a = anatomy(trainer.exported());
  for (const Value& v : coded.values) {
    if (a.constants.contains(v.name) && v.constant()) {
      EXPECT_EQ(*v.data, a.constants.at(v.name)) << v.name;
    }
  }
}

// Files that other tools quantized; bytes at random. The first sample again and again: its loss falls.
TEST(trained_codes, of_networks_from_files) {
  const char* const given = std::getenv("NACRE_SHARED");
  const std::string models = (given != nullptr ? std::string(given) : std::string(NACRE_ROOT) + "/../shared") + "/models/mlperf_tiny/";
  int networks = 0;
  for (const auto& [file, loss, rate] :
       {std::tuple("kws_ref_model.tflite", Loss::kSoftmaxCrossEntropy, 0.01f), std::tuple("ad01_int8.tflite", Loss::kSquaredError, 0.001f),
        std::tuple("pretrainedResnet_quant.tflite", Loss::kSoftmaxCrossEntropy, 0.001f)}) {
    if (!std::filesystem::exists(models + file)) continue;
    TrainingOptions options = codes();
    options.loss.kind = loss;
    const std::vector<uint8_t> bytes = compile(load_network(models + file), {}).bytes;
    CodeTrainer trainer(compile_training(load_network(models + file, {}, {.fold_batch_norm = false}), options, {}));
    const LoadedModel model(bytes, "test", "");
    BoundProgram program(model, model.infer_program());
    std::mt19937_64 random(3);
    std::vector<uint8_t> x(program.program().input(0).size());
    for (uint8_t& v : x) v = uint8_t(random());
    EXPECT_EQ(trainer.infer(x), program.run(x)) << file;
    std::vector<float> losses;
    for (int i = 0; i < 4; ++i)
      losses.push_back(
          trainer.train(x, loss == Loss::kSquaredError ? std::vector<uint8_t>(640 * 4) : std::vector<uint8_t>{3, 0, 0, 0}, rate).loss);
    EXPECT_LT(losses.back(), losses.front()) << file;
    const std::vector<uint8_t> exported = trainer.exported();
    const Anatomy a = anatomy(bytes), b = anatomy(exported);
    EXPECT_EQ(a.steps, b.steps) << file;
    EXPECT_EQ(a.weights, b.weights) << file;
    EXPECT_TRUE(std::ranges::equal(a.sizes.bytes, b.sizes.bytes)) << file;
    const std::vector<std::string> changed = differing(a, b);
    EXPECT_GT(changed.size(), 2u);
    for (const std::string& name : changed) EXPECT_EQ(name.find("requant"), name.npos) << name;
    std::printf("%-30s loss %g -> %g, %zu of %zu constants changed\n", file, double(losses.front()), double(losses.back()), changed.size(),
                a.constants.size());
    ++networks;
  }
  if (networks == 0) GTEST_SKIP() << models << " is not there";
}

TEST(trained_codes, refuse_what_has_none) {
  CompileOptions real;
  real.policies = parse_policy_options({.policy = "float32"});
  EXPECT_THROW(compile_training(perceptron(), codes(), real), Error);
  TrainingOptions named = codes();
  named.train.layers = {"softmax"};
  EXPECT_THROW(compile_training(perceptron(), named, in_int8()), Error);
}

}  // namespace
}  // namespace nacre::tools
