// Tests integer training that writes the codes of only a share of the channels in each step (--train-share).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "engine/ops/integer_share.h"
#include "tests/differentiate/code_trainer.h"
#include "tests/differentiate/small_networks.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/calibration/quantize_static.h"
#include "tools/commands/training_arguments.h"
#include "tools/compile/export.h"
#include "tools/compile/training.h"

namespace nacre::tools {
namespace {

using namespace code_trainer;

CompileOptions in_whole_integers() {
  CompileOptions compiling = in_int8();
  compiling.policies = parse_policy_options({.policy = "int8/full_from_float32"});
  return compiling;
}

TrainingOptions sharing(double share) {
  TrainingOptions options;
  options.optimizer.kind = Optimizer::kSgd;
  options.share = share;
  return options;
}

struct ShareSubject {
  const char* name;
  Graph (*make)(int);
  int width;
};
constexpr ShareSubject kShareSubjects[] = {{"dense", &test::perceptron, 6}, {"conv", &test::convolutional, 72}};

// Codes that a write_codes step writes, by channel, as read from the state.
struct Written {
  std::string name;
  int count = 0;
  std::vector<std::vector<int64_t>> codes, rounded;  // by channel; `rounded`: what the masters round to
};

std::vector<int64_t> integers_at(CodeTrainer& trainer, const TensorRecord& r) {
  const auto state = trainer.trainer().state();
  std::vector<int64_t> numbers;
  for (uint64_t at = 0; at < r.bytes; at += r.element == ElementType::kInt8 ? 1 : 4) {
    int32_t wide = 0;
    int8_t narrow = 0;
    if (r.element == ElementType::kInt8) std::memcpy(&narrow, state.data() + r.offset + at, 1);
    else std::memcpy(&wide, state.data() + r.offset + at, 4);
    numbers.push_back(r.element == ElementType::kInt8 ? narrow : wide);
  }
  return numbers;
}

std::vector<Written> written(CodeTrainer& trainer) {
  const Model& model = trainer.model().model();
  std::vector<Written> all;
  for (const StepRecord& step : model.steps()) {
    if (step.op != Op::kWriteCodes) continue;
    EXPECT_NE(step.guard, kNoIndex) << "a refused step would write";
    const auto tensor = [&](int i) { return model.tensors()[model.operands(step)[i] & kOperandIdMask]; };
    const TensorRecord master = tensor(1), code = tensor(2);
    EXPECT_EQ(code.region, Region::kState);
    const std::vector<int64_t> m = integers_at(trainer, master), c = integers_at(trainer, code);
    const Words words = model.words(step);
    const bool last = words[WriteCodes::kChannelsLast] != 0;
    const int channels = last ? code.dims[code.rank - 1] : code.dims[0], inner = int(c.size()) / channels;
    Written w = {trainer.model().tensor_name(model.operands(step)[2] & kOperandIdMask),
                 words.integer(WriteCodes::kCount) + 1,
                 std::vector<std::vector<int64_t>>(size_t(channels)),
                 {}};
    w.rounded = w.codes;
    for (size_t i = 0; i < c.size(); ++i) {
      const size_t k = last ? i % size_t(channels) : i / size_t(inner);
      const int64_t round = std::llround(std::ldexp(double(m[i]), -words.integer(WriteCodes::kBits)));
      w.codes[k].push_back(c[i]);
      w.rounded[k].push_back(code.element == ElementType::kInt8 ? std::clamp<int64_t>(round, -127, 127) : round);
    }
    all.push_back(std::move(w));
  }
  return all;
}

TEST(train_share, of_one_is_training_without_it) {
  for (const ShareSubject& subject : kShareSubjects)
    EXPECT_EQ(compile_training(subject.make(kRows), sharing(1), in_whole_integers()).bytes,
              compile_training(subject.make(kRows), sharing(0), in_whole_integers()).bytes)
        << subject.name;
}

// If the share of every layer is all of its channels, the steps that write codes give the codes that derive gives.
TEST(train_share, of_all_channels_gives_the_same_codes) {
  for (const ShareSubject& subject : kShareSubjects) {
    CodeTrainer all(compile_training(subject.make(kRows), sharing(0.9999), in_whole_integers())),
        whole(compile_training(subject.make(kRows), sharing(0), in_whole_integers()));
    const std::vector<float> x = batch(999, subject.width).x;
    EXPECT_EQ(all.infer(x), whole.infer(x)) << subject.name;
    for (int i = 0; i < 40; ++i) {
      const Data data = batch(uint64_t(i), subject.width);
      ASSERT_EQ(all.train(data, 0.05f).loss, whole.train(data, 0.05f).loss) << subject.name << ", step " << i;
      ASSERT_EQ(all.infer(x), whole.infer(x)) << subject.name << ", step " << i;
    }
    const Anatomy a = anatomy(all.exported()), b = anatomy(whole.exported());
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_TRUE(differing(a, b).empty()) << subject.name;
  }
}

// Checks that each training step writes only what it may.
class Watched {
 public:
  Watched(CodeTrainer& trainer, const std::string& name) : trainer_(trainer), name_(name), before_(written(trainer)) {}

  // Runs a training step and returns how many channels wait: their codes are not yet what their masters round to.
  // Expects that each layer changed at most its count of channels, a quarter of all. The codes of a changed channel
  // must be what its masters round to.
  size_t step(const std::function<void()>& train) {
    train();
    const std::vector<Written> after = written(trainer_);
    size_t waiting = 0;
    for (size_t l = 0; l < after.size(); ++l) {
      int changed = 0;
      EXPECT_EQ(after[l].count, (int(after[l].codes.size()) + 3) / 4);
      for (size_t k = 0; k < after[l].codes.size(); ++k) {
        waiting += after[l].codes[k] == after[l].rounded[k] ? 0 : 1;
        if (after[l].codes[k] == before_[l].codes[k]) continue;
        ++changed;
        EXPECT_EQ(after[l].codes[k], after[l].rounded[k]) << name_ << ' ' << after[l].name;
      }
      EXPECT_LE(changed, after[l].count) << name_ << ' ' << after[l].name;
    }
    before_ = after;
    return waiting;
  }
  size_t layers() const { return before_.size(); }

 private:
  CodeTrainer& trainer_;
  std::string name_;
  std::vector<Written> before_;
};

// Channels that wait are written by later steps, even by steps that move no master.
TEST(train_share, writes_few_channels_in_a_step_and_all_in_some) {
  for (const ShareSubject& subject : kShareSubjects) {
    CodeTrainer trainer(compile_training(subject.make(kRows), sharing(0.25), in_whole_integers()));
    Watched watched(trainer, subject.name);
    ASSERT_GT(watched.layers(), 0u);
    size_t waited = 0, waiting = 0;
    const auto step = [&](int i, float rate) {
      return watched.step([&] { trainer.train(batch(uint64_t(i), subject.width), rate); });
    };
    for (int i = 0; i < 30; ++i) waited += step(i, 0.05f);
    EXPECT_GT(waited, 30u) << subject.name;
    for (int i = 0; i < 4; ++i) waiting = step(i, 0);
    EXPECT_EQ(waiting, 0u) << subject.name;
  }
}

// Tests a network with depthwise convolutions, whose channels are the last axis.
TEST(train_share, of_a_network_from_a_file) {
  const std::string file = shared_path("models/mlperf_tiny/kws_ref_model.tflite");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  CodeTrainer trainer(
      compile_training(load_network(file, {}, {.fold_batch_norm = false}), sharing(0.25), in_whole_integers()));
  Watched watched(trainer, "kws");
  EXPECT_EQ(watched.layers(), 20u);
  std::mt19937_64 random(3);
  std::vector<uint8_t> x(trainer.trainer().input(0).size());
  for (uint8_t& v : x) v = uint8_t(random());
  size_t waited = 0, waiting = 0;
  const auto step = [&](float rate) {
    return watched.step([&] { trainer.train(x, bytes_of(std::vector<int32_t>{4}), rate); });
  };
  for (int i = 0; i < 8; ++i) waited += step(0.002f);
  EXPECT_GT(waited, 100u);
  for (int i = 0; i < 4; ++i) waiting = step(0);
  EXPECT_EQ(waiting, 0u);
}

TEST(train_share, learns_and_exports_what_it_infers) {
  for (const ShareSubject& subject : kShareSubjects) {
    CodeTrainer trainer(compile_training(subject.make(kRows), sharing(0.25), in_whole_integers()));
    const auto [first, last] = trainer.train(300, subject.width, 0.05f);
    EXPECT_LT(last, 0.5f * first) << subject.name;
    const std::vector<uint8_t> bytes = trainer.exported();
    const Anatomy before = anatomy(deployed(subject.make(kRows))), after = anatomy(bytes);
    EXPECT_EQ(after.steps, before.steps);
    EXPECT_EQ(after.weights, before.weights);
    for (uint64_t seed = 1000; seed < 1005; ++seed) {
      const std::vector<float> x = batch(seed, subject.width).x;
      EXPECT_EQ(run(bytes, x), trainer.infer(x)) << subject.name;
    }
    std::printf("%-8s loss %.3f -> %.3f\n", subject.name, double(first), double(last));
  }
}

// The exported network takes the codes that were written, not those that their masters round to.
TEST(train_share, into_the_network_s_own_graph) {
  const Graph graph = test::perceptron(kRows);
  CodeTrainer trainer(compile_training(graph, sharing(0.25), in_whole_integers()));
  trainer.train(30, 6, 0.05f);
  const Anatomy after = anatomy(trainer.exported());
  Graph coded = graph;
  simplify(coded);
  resolve_policies(coded, in_int8().policies);
  quantize_static(coded, &calibration());
  EXPECT_EQ(with_parameters(coded, trainer.model(), trainer.trainer().state()), 4);
  int compared = 0;
  for (const Value& v : coded.values) {
    if (!after.constants.contains(v.name) || !v.constant()) continue;
    EXPECT_EQ(*v.data, after.constants.at(v.name)) << v.name;
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

TEST(train_share, of_biases_alone) {
  TrainingOptions biases = sharing(0.25);
  biases.train.biases_only = true;
  CodeTrainer trainer(compile_training(test::perceptron(kRows), biases, in_whole_integers()));
  const std::vector<Written> before = written(trainer);
  ASSERT_EQ(before.size(), 2u);
  for (int i = 0; i < 8; ++i) trainer.train(batch(uint64_t(i), 6), 0.05f);
  const std::vector<Written> after = written(trainer);
  for (size_t l = 0; l < 2; ++l) EXPECT_NE(after[l].codes, before[l].codes) << after[l].name;
}

TEST(train_share, is_written_as_a_number_up_to_one) {
  const auto parsed = [](const std::string& text) {
    TrainingArguments arguments;
    arguments.loss = "softmax_cross_entropy";
    arguments.share = text;
    return parse_training(arguments, {}).share;
  };
  EXPECT_EQ(parsed(""), 0);
  EXPECT_EQ(parsed("dynamic=0.1"), 0.1);
  EXPECT_EQ(parsed("dynamic=1"), 1);
  EXPECT_EQ(parsed("dynamic=1e-3"), 1e-3);
  for (const char* text : {"dynamic=", "dynamic", "dynamic=0", "dynamic=-0.5", "dynamic=1.5", "dynamic=nan",
                           "dynamic=inf", "dynamic=1e999", "dynamic=0.5x", "dynamic= 0.5", "static=0.5", "0.5", "="}) {
    try {
      parsed(text);
      ADD_FAILURE() << text << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "--train-share: '" + std::string(text) +
                                               "' is no dynamic=X with a share X above 0, of at most 1\n    "
                                               "write dynamic=0.25 for a quarter of each layer's channels");
    }
  }
}

TEST(train_share, is_of_full_alone) {
  CompileOptions floats;
  try {
    compile_training(test::perceptron(kRows), sharing(0.5), floats);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--train-share"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace nacre::tools
