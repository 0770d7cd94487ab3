// Tests training in integers (policy int8/full) against the deployed network, and against float masters of the same
// codes (trained_codes.h).
#include "tools/differentiate/integer/backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "engine/ops/integer_update.h"
#include "tests/differentiate/code_trainer.h"
#include "tests/differentiate/small_networks.h"
#include "tests/project_path.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/compile/export.h"
#include "tools/compile/training.h"
#include "tools/graph/source_training.h"

namespace nacre::tools {
namespace {

using namespace code_trainer;

using test::convolutional;
using test::perceptron;

CompileOptions in_full() {
  CompileOptions compiling = in_int8();
  compiling.policies = parse_policy_options({.policy = "int8/full_from_float32"});
  return compiling;
}

TrainingOptions integers() {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kSgd;
  return options;
}

// Returns the masters of a parameter, in units of a code.
std::vector<double> masters(CodeTrainer& trainer, const std::string& name) {
  const Model& model = trainer.model().model();
  for (const StepRecord& step : model.steps()) {
    const uint32_t id = model.operands(step)[0] & kOperandIdMask;
    if (step.op != Op::kRoundCodes || trainer.model().tensor_name(id) != name) continue;
    const TensorRecord& r = model.tensors()[id];
    std::vector<int32_t> stored(size_t(r.bytes) / sizeof(int32_t));
    std::memcpy(stored.data(), trainer.trainer().state().data() + r.offset, r.bytes);
    std::vector<double> codes;
    for (const int32_t m : stored) codes.push_back(std::ldexp(double(m), -model.words(step).integer(0)));
    return codes;
  }
  return {};
}

std::vector<std::string> names_of_masters(CodeTrainer& trainer) {
  const Model& model = trainer.model().model();
  std::vector<std::string> names;
  for (const StepRecord& step : model.steps())
    if (step.op == Op::kRoundCodes)
      names.push_back(trainer.model().tensor_name(model.operands(step)[0] & kOperandIdMask));
  return names;
}

struct IntegerSubject {
  const char* name;
  Graph (*make)(int);
  int width;
  size_t masters;
};
constexpr IntegerSubject kIntegerSubjects[] = {{"dense", &perceptron, 6, 4}, {"conv", &convolutional, 72, 6}};

TEST(integer_training, inference_is_the_deployed_network_at_first) {
  const Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, integers(), in_full()));
  const std::vector<float> x = batch(99, 6).x;
  EXPECT_EQ(trainer.infer(x), run(deployed(graph), x));
  for (const auto& [name, stated] : {std::pair("w1/master", true), {"loss_scale", false}})
    EXPECT_EQ(!masters(trainer, name).empty(), stated);
  const LoadedModel& model = trainer.model();
  EXPECT_EQ(model.layer(0).policy.quantization, Quantization::kInt8Full);
}

// Integer and float training must change each code alike. Errors of 8 bits cost at most 1/256 of their tensor's
// largest each. A small number that rounds to the code of 0 counts as clamped in integers, but not in float32. If one
// of the few pixels is such a number, a batch differs more. So the median of ten is tested, which a wrong step or
// scale would not meet.
TEST(integer_training, moves_masters_as_float_masters_move) {
  if (nacre::test::sanitized()) GTEST_SKIP() << "medians of ten trainings: the plain build's";
  for (const IntegerSubject& subject : kIntegerSubjects) {
    std::map<std::string, std::vector<double>> cosines, ratios;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CodeTrainer whole(compile_training(subject.make(kRows), integers(), in_full())),
          floats(compile_training(subject.make(kRows), codes(), in_int8()));
      const Data data = batch(seed, subject.width);
      for (int i = 0; i < 5; ++i) whole.train(data, 0);  // from then on the ranges of errors are known
      const std::vector<std::string> names = names_of_masters(whole);
      ASSERT_EQ(names.size(), subject.masters);
      std::map<std::string, std::vector<double>> before;
      for (const std::string& name : names) before[name] = masters(whole, name);
      const float loss = whole.train(data, 0.01f).loss, expected = floats.train(data, 0.01f).loss;
      EXPECT_NEAR(loss, expected, 0.02f * expected + 0.01f);
      for (const std::string& name : names) {
        const std::vector<double> after = masters(whole, name);
        const std::vector<float> now = floats.state(name);
        ASSERT_EQ(now.size(), after.size()) << name;
        double dot = 0, mine = 0, theirs = 0;
        for (size_t i = 0; i < after.size(); ++i) {
          const double a = after[i] - before[name][i], b = double(now[i]) - before[name][i];
          dot += a * b, mine += a * a, theirs += b * b;
        }
        ASSERT_GT(theirs, 0) << name;
        cosines[name].push_back(dot / std::sqrt(mine * theirs));
        ratios[name].push_back(std::sqrt(mine / theirs));
      }
    }
    for (auto& [name, values] : cosines) {
      std::ranges::sort(values);
      std::ranges::sort(ratios[name]);
      std::printf("%-6s %-20s cosine %.4f (least %.4f), length %.3f of that of float masters\n", subject.name,
                  name.c_str(), values[5], values[0], ratios[name][5]);
      EXPECT_GT(values[5], 0.99) << subject.name << ' ' << name;
      EXPECT_NEAR(ratios[name][5], 1, 0.06) << subject.name << ' ' << name;
    }
  }
}

TEST(integer_training, learns_and_exports_the_same_network_with_other_codes) {
  for (const IntegerSubject& subject : kIntegerSubjects) {
    CodeTrainer trainer(compile_training(subject.make(kRows), integers(), in_full()));
    const Anatomy before = anatomy(deployed(subject.make(kRows)));
    const auto [first, last] = trainer.train(200, subject.width, 0.05f);
    EXPECT_LT(last, 0.5f * first) << subject.name;
    const std::vector<uint8_t> bytes = trainer.exported();
    const Anatomy after = anatomy(bytes);
    EXPECT_EQ(after.steps, before.steps);
    EXPECT_EQ(after.weights, before.weights);
    EXPECT_EQ(differing(before, after).size(), subject.masters) << subject.name;
    for (uint64_t seed = 1000; seed < 1005; ++seed) {
      const std::vector<float> x = batch(seed, subject.width).x;
      EXPECT_EQ(run(bytes, x), trainer.infer(x)) << subject.name;
    }
    std::printf("%-6s loss %.3f -> %.3f\n", subject.name, double(first), double(last));
  }
}

TEST(integer_training, into_the_network_s_own_graph) {
  const Graph graph = perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, integers(), in_full()));
  trainer.train(30, 6, 0.05f);
  const Anatomy after = anatomy(trainer.exported());
  Graph coded = graph;  // as an int8 file is imported
  simplify(coded);
  resolve_policies(coded, in_int8().policies);
  quantize_static(coded, &calibration());
  EXPECT_EQ(with_parameters(coded, trainer.model(), trainer.trainer().state()), 4);
  for (const Value& v : coded.values) {
    if (after.constants.contains(v.name) && v.constant()) {
      EXPECT_EQ(*v.data, after.constants.at(v.name)) << v.name;
    }
  }
}

// A change of far less than half a code must not be lost.
TEST(integer_training, small_updates_add_up) {
  CodeTrainer trainer(compile_training(perceptron(kRows), integers(), in_full()));
  const std::vector<double> before = masters(trainer, "w2/master");
  const Data data = batch(5, 6);
  std::vector<double> once;
  for (int i = 0; i < 64; ++i) {
    trainer.train(data, 1e-5f);
    if (i == 0) once = masters(trainer, "w2/master");
  }
  const std::vector<double> after = masters(trainer, "w2/master");
  double moved = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_LT(std::abs(once[i] - before[i]), 0.01);
    EXPECT_NEAR(after[i] - before[i], 64 * (once[i] - before[i]), 0.1 * std::abs(after[i] - before[i]) + 1e-3);
    moved = std::max(moved, std::abs(after[i] - before[i]));
  }
  EXPECT_GT(moved, 0.02);
}

TEST(integer_training, a_step_is_a_transaction) {
  CodeTrainer trainer(compile_training(perceptron(kRows), integers(), in_full()));
  trainer.train(5, 6, 0.05f);
  const auto state = [&] {
    const auto bytes = trainer.trainer().state();
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const std::vector<std::byte> before = state();
  Trainer::Report report;
  EXPECT_EQ(trainer.trainer().commit(0.1f, &report).code, Code::kNothingAccumulated);
  const Data data = batch(3, 6);
  std::memcpy(trainer.trainer().input(0).data(), data.x.data(), data.x.size() * sizeof(float));
  std::memcpy(trainer.trainer().input(1).data(), data.labels.data(), data.labels.size() * sizeof(int32_t));
  ASSERT_TRUE(trainer.trainer().accumulate().ok());
  for (const float rate : {-1.0f, HUGE_VALF, std::nanf("")})
    EXPECT_EQ(trainer.trainer().commit(rate, &report).code, Code::kLearningRate);
  EXPECT_EQ(state(), before);
  ASSERT_TRUE(trainer.trainer().commit(0.1f, &report).ok());
  EXPECT_TRUE(report.applied);
  EXPECT_EQ(report.samples, float(kRows));
  EXPECT_NE(state(), before);
}

// A frozen layer after a layer that trains passes the error on.
TEST(integer_training, chooses_layers) {
  TrainingOptions last = integers(), first = integers();
  last.train.last_layers = 1;
  first.train.layers = {"fc1"};
  CodeTrainer behind(compile_training(perceptron(kRows), last, in_full())),
      before(compile_training(perceptron(kRows), first, in_full()));
  behind.train(60, 6, 0.05f);
  before.train(60, 6, 0.05f);
  EXPECT_TRUE(masters(behind, "w1/master").empty());
  EXPECT_TRUE(masters(before, "w2/master").empty());
  EXPECT_FALSE(masters(before, "w1/master").empty());
  const std::vector<std::string> changed = differing(anatomy(deployed(perceptron(kRows))), anatomy(before.exported()));
  EXPECT_EQ(changed, (std::vector<std::string>{"b1", "w1"}));
  CodeTrainer behind_convolutions(compile_training(convolutional(kRows), last, in_full()));
  EXPECT_EQ(names_of_masters(behind_convolutions).size(), 2u);
}

// Trains files that other tools quantized on one sample of random bytes, again and again. The loss must fall.
TEST(integer_training, of_networks_from_files) {
  const std::string models = tools::shared_path("models/mlperf_tiny/");
  int networks = 0;
  for (const char* file : {"kws_ref_model.tflite", "pretrainedResnet_quant.tflite"}) {
    if (!std::filesystem::exists(models + file) || (networks > 0 && nacre::test::sanitized())) continue;
    const std::vector<uint8_t> bytes = compile(load_network(models + file), {}).bytes;
    CodeTrainer trainer(
        compile_training(load_network(models + file, {}, {.fold_batch_norm = false}), integers(), in_full()));
    const LoadedModel model(bytes, "test", "");
    BoundProgram program(model, model.infer_program());
    std::mt19937_64 random(3);
    std::vector<uint8_t> x(program.program().input(0).size());
    for (uint8_t& v : x) v = uint8_t(random());
    EXPECT_EQ(trainer.infer(x), program.run(x)) << file;
    const std::vector<uint8_t> answer = trainer.infer(x);
    const auto best = std::ranges::max_element(answer, {}, [](uint8_t code) { return int8_t(code); });
    const auto classes = int32_t(answer.size()), label = (int32_t(best - answer.begin()) + 1) % classes;
    const std::vector<uint8_t> labels = bytes_of(std::vector<int32_t>{label});
    std::vector<float> losses;
    for (int i = 0; i < 40; ++i) losses.push_back(trainer.train(x, labels, 0.002f).loss);
    EXPECT_LT(losses.back(), 0.5f * losses.front()) << file;
    const Anatomy a = anatomy(bytes), b = anatomy(trainer.exported());
    EXPECT_EQ(a.steps, b.steps) << file;
    EXPECT_EQ(a.weights, b.weights) << file;
    std::printf("%-30s loss %.3f -> %.3f, %zu masters\n", file, double(losses.front()), double(losses.back()),
                names_of_masters(trainer).size());
    ++networks;
  }
  if (networks == 0) GTEST_SKIP() << models << " is not there";
}

void refuses(TrainingOptions options, const std::string& what) {
  try {
    compile_training(perceptron(kRows), options, in_full());
    ADD_FAILURE() << what << " was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(integer_training, refuses_penalties_of_the_file) {
  Graph penalized = perceptron(kRows);
  SourceTraining said;
  said.decays["w1"] = 0.01f;
  penalized.training = std::make_shared<const SourceTraining>(said);
  try {
    compile_training(penalized, integers(), in_full());
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has no L2 penalties"), std::string::npos) << error.what();
  }
}

TEST(integer_training, refuses_what_needs_floats) {
  const auto with = [](auto change) {
    TrainingOptions options = integers();
    change(options);
    return options;
  };
  refuses(with([](TrainingOptions& o) { o.optimizer.kind = Optimizer::kAdam; }), "--optimizer");
  refuses(with([](TrainingOptions& o) { o.optimizer.clip_norm = 1; }), "--clip-norm");
  refuses(with([](TrainingOptions& o) { o.optimizer.weight_decay = 0.1f; }), "weight_decay");
  refuses(with([](TrainingOptions& o) { o.loss.kind = Loss::kSquaredError; }), "softmax_cross_entropy");
  refuses(with([](TrainingOptions& o) { o.loss.label_smoothing = 0.1f; }), "label_smoothing");
  refuses(with([](TrainingOptions& o) { o.immediate = true; }), "--update immediate");
  refuses(with([](TrainingOptions& o) { o.codes = true; }), "--train-codes");
  refuses(with([](TrainingOptions& o) { o.adapters.rank = 2; }), "--lora");
  refuses(with([](TrainingOptions& o) { o.train.layers = {"softmax"}; }), "matches no layer");
}

}  // namespace
}  // namespace nacre::tools
