// Tests that the tables of `nacre firmware --train` train as Trainer does, to the byte. Each loads the other's
// checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/nacre_c.h"
#include "tests/differentiate/small_networks.h"
#include "tests/refused_with.h"
#include "tests/train/flash.h"
#include "tools/compile/training.h"
#include "tools/model/golden.h"
#include "tools/model/static_tables.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

struct StaticCase {
  const char* name;
  Graph (*network)(int);
  TrainingOptions options;
  CompileOptions compiling = {};
};

TrainingOptions static_options(Optimizer optimizer, bool immediate = false) {
  TrainingOptions options;
  options.optimizer.kind = optimizer;
  options.immediate = immediate;
  return options;
}

std::vector<StaticCase> static_cases() {
  std::vector<StaticCase> cases = {{"sgd", test::perceptron, static_options(Optimizer::kSgd)},
                                   {"adam", test::convolutional, static_options(Optimizer::kAdam)},
                                   {"momentum", test::residual, static_options(Optimizer::kMomentum)},
                                   {"immediate", test::perceptron, static_options(Optimizer::kAdamW, true)},
                                   {"mixed_float16", test::perceptron, static_options(Optimizer::kSgd)},
                                   {"float8", test::perceptron, static_options(Optimizer::kSgd)}};
  cases[1].options.optimizer.clip_norm = 0.5f;
  cases[4].options.loss_scale = loss_scaler(LossScaleSystem::kNacre, LossScale::kDynamic);
  cases[4].compiling.policies = parse_policy_options({.policy = "mixed_float16"});
  cases[5].compiling.policies = parse_policy_options({.policy = "float8_from_float32"});
  return cases;
}

// A model with its Trainer, and its static tables with their trainer.
struct TwoTrainers {
  std::vector<uint8_t> file;
  LoadedModel loaded;
  LoadedTrainer owner;
  Trainer& model;
  StaticTables tables;
  BoundTables bound;
  StaticTrainer fixed;

  explicit TwoTrainers(const StaticCase& c)
      : file(compile_training(c.network(4), c.options, c.compiling).bytes), loaded(file, c.name, ""), owner(loaded),
        model(owner.trainer()), tables(static_training_tables(loaded, "", *find_machine("arm/m4"))), bound(tables),
        fixed(bound.training()) {
    EXPECT_EQ(fixed.start(), Code::kOk);
  }

  // Feeds both trainers the same data: random numbers, and labels of three classes.
  void feed(uint64_t seed) {
    ASSERT_EQ(fixed.input_count(), 2u);
    ASSERT_EQ(fixed.input(0).size(), model.input(0).size());
    const int rows = int(model.input(1).size() / 4);
    const test::LabelledRows data = test::three_classes(seed, rows, int(model.input(0).size() / 4) / rows);
    for (const std::span<std::byte> x : {fixed.input(0), model.input(0)})
      std::memcpy(x.data(), data.x.data(), x.size());
    for (const std::span<std::byte> y : {fixed.input(1), model.input(1)})
      std::memcpy(y.data(), data.labels.data(), y.size());
  }

  void step(uint64_t seed) {
    Trainer::Report a, b;
    for (uint64_t i = 0; i < (model.immediate() ? 1u : 2u); ++i) {
      feed(2 * seed + i);
      ASSERT_TRUE(model.accumulate().ok());
      ASSERT_EQ(fixed.accumulate(), Code::kOk);
    }
    ASSERT_TRUE(model.commit(0.05f, &a).ok());
    ASSERT_EQ(fixed.commit(0.05f, &b), Code::kOk);
    EXPECT_EQ(a.applied, b.applied);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.norm, b.norm);
    EXPECT_EQ(a.loss_scale, b.loss_scale);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.refused_in_row, b.refused_in_row);
    EXPECT_EQ(a.overflow_at_floor, b.overflow_at_floor);
  }

  bool same_state() const { return std::ranges::equal(model.state(), fixed.state()); }

  void expect_same_inference() {
    const std::span<float> x(reinterpret_cast<float*>(fixed.infer().inputs[0].data()),
                             fixed.infer().inputs[0].size() / 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 7) - 3;
    std::memcpy(model.infer().input(0).data(), x.data(), x.size_bytes());
    ASSERT_EQ(fixed.infer().run(), Code::kOk);
    ASSERT_TRUE(model.infer().run().ok());
    EXPECT_TRUE(std::ranges::equal(model.infer().output(0), fixed.infer().outputs[0]));
  }
};

TEST(static_training, learns_what_a_trainer_learns) {
  for (const StaticCase& c : static_cases()) {
    SCOPED_TRACE(c.name);
    TwoTrainers both(c);
    ASSERT_FALSE(both.fixed.state().empty());
    ASSERT_TRUE(both.same_state());
    const std::vector<std::byte> before(both.fixed.state().begin(), both.fixed.state().end());
    for (uint64_t step = 0; step < 12; ++step) both.step(step);
    EXPECT_TRUE(both.same_state());
    EXPECT_FALSE(std::ranges::equal(before, both.fixed.state()));
    both.expect_same_inference();
    ASSERT_EQ(both.fixed.start(), Code::kOk);
    EXPECT_TRUE(std::ranges::equal(before, both.fixed.state()));
  }
}

TEST(static_training, checkpoints_are_those_of_the_model_file) {
  const StaticCase c = static_cases()[1];
  TwoTrainers both(c), other(c);
  for (uint64_t step = 0; step < 3; ++step) both.step(step);
  test::Flash flash(8, 256, 1 << 16);
  Checkpoint checkpoint(flash.storage());
  uint64_t of_model = 0, of_tables = 1;
  ASSERT_TRUE(Checkpoint::measure(both.loaded.model(), flash.storage(), 4, &of_model).ok());
  ASSERT_TRUE(Checkpoint::measure(both.fixed.table(), flash.storage(), 4, &of_tables).ok());
  EXPECT_EQ(of_model, of_tables);
  // A checkpoint saved by the tables is loaded into a trainer, and the other way round.
  ASSERT_TRUE(checkpoint.save(both.fixed.table(), both.fixed.state(), {}).ok());
  Checkpoint::Report report;
  ASSERT_TRUE(checkpoint.load(other.loaded.model(), other.model.state(), &report).ok());
  EXPECT_TRUE(report.same_model && report.same_layout);
  ASSERT_TRUE(other.model.restored().ok());
  EXPECT_TRUE(std::ranges::equal(other.model.state(), both.fixed.state()));
  ASSERT_TRUE(checkpoint.save(other.loaded.model(), other.model.state()).ok());
  ASSERT_TRUE(checkpoint.load(other.fixed.table(), other.fixed.state(), &report).ok());
  EXPECT_TRUE(report.same_model && report.same_layout);
  EXPECT_EQ(report.generation, 2u);
  ASSERT_EQ(other.fixed.restored(), Code::kOk);
  other.expect_same_inference();
  other.step(9);
  EXPECT_TRUE(other.same_state());
}

// A checkpoint of another network gives the tensors that have the same name, type and size.
TEST(static_training, a_checkpoint_of_another_layout_gives_what_matches) {
  TwoTrainers sgd(static_cases()[0]), adam(StaticCase{"adam", test::perceptron, static_options(Optimizer::kAdam)});
  for (uint64_t step = 0; step < 3; ++step) sgd.step(step);
  test::Flash flash(8, 256, 1 << 16);
  Checkpoint checkpoint(flash.storage());
  ASSERT_TRUE(checkpoint.save(sgd.fixed.table(), sgd.fixed.state(), {}).ok());
  Checkpoint::Report by_model, by_tables;
  ASSERT_TRUE(checkpoint.load(adam.loaded.model(), adam.model.state(), &by_model).ok());
  ASSERT_TRUE(checkpoint.load(adam.fixed.table(), adam.fixed.state(), &by_tables).ok());
  EXPECT_FALSE(by_tables.same_layout);
  EXPECT_EQ(by_tables.taken, by_model.taken);
  EXPECT_EQ(by_tables.kept, by_model.kept);
  EXPECT_GT(by_tables.taken, 0u);
  EXPECT_TRUE(adam.same_state());
}

TEST(static_training, what_a_trainer_refuses_is_refused) {
  for (const StaticCase& c : {static_cases()[0], static_cases()[3]}) {
    SCOPED_TRACE(c.name);
    TwoTrainers both(c);
    StaticTrainer& t = both.fixed;
    const std::vector<std::byte> before(t.state().begin(), t.state().end());
    EXPECT_EQ(t.commit(0.1f, nullptr), Code::kNothingAccumulated);
    both.feed(1);
    ASSERT_EQ(t.accumulate(), Code::kOk);
    for (const float rate : {-1.0f, NAN, INFINITY}) EXPECT_EQ(t.commit(rate, nullptr), Code::kLearningRate);
    if (t.immediate()) {
      EXPECT_EQ(t.accumulate(), Code::kOneMicroBatch);
    }
    t.discard();
    EXPECT_EQ(t.commit(0.1f, nullptr), Code::kNothingAccumulated);
    both.feed(1);
    const int32_t label = 3;  // of three classes
    std::memcpy(t.input(1).data(), &label, sizeof label);
    const Code first = t.accumulate();
    EXPECT_EQ(t.immediate() ? t.commit(0.1f, nullptr) : first, Code::kIndex);
    EXPECT_EQ(t.commit(0.1f, nullptr), Code::kNothingAccumulated);
    EXPECT_TRUE(std::ranges::equal(before, t.state()));
    EXPECT_TRUE(t.input(2).empty());
    const StaticTrainer fresh(both.bound.training());
    EXPECT_TRUE(fresh.state().empty());
  }
}

TEST(static_training, self_test_runs_the_pairs_of_the_first_state) {
  TwoTrainers both(static_cases()[2]);
  for (uint64_t step = 0; step < 3; ++step) both.step(step);
  const Program& infer = both.model.infer();
  const std::vector<uint8_t> inputs = seeded_inputs(both.loaded, both.tables.infer().index, 1);
  ASSERT_TRUE(both.model.start().ok());
  std::memcpy(infer.input(0).data(), inputs.data(), inputs.size());
  ASSERT_TRUE(infer.run().ok());
  const auto* outputs = reinterpret_cast<const uint8_t*>(infer.output(0).data());
  const GoldenPairs golden = {inputs.data(), outputs, 1, same_bytes};
  EXPECT_EQ(self_test(both.bound.training(), golden, [](const char*) {}), 0);
  both.tables.steps.back().rounding = Rounding::kFloatEven;
  EXPECT_GT(self_test(both.bound.training(), golden, [](const char*) {}), 0);
}

TEST(static_training, c_trains_too) {
  TwoTrainers both(static_cases()[0]);
  nacre_static_trainer trainer;
  nacre_static_trainer_make(&trainer, &both.bound.training());
  ASSERT_EQ(nacre_static_trainer_start(&trainer), 0);
  both.feed(3);
  ASSERT_EQ(nacre_static_trainer_input_count(&trainer), 2u);
  size_t size = 0;
  EXPECT_EQ(nacre_static_trainer_input(&trainer, 1, &size), both.fixed.input(1).data());
  EXPECT_EQ(size, both.fixed.input(1).size());
  ASSERT_EQ(nacre_static_trainer_accumulate(&trainer), 0);
  EXPECT_GT(nacre_static_trainer_output_count(&trainer), 0u);
  EXPECT_NE(nacre_static_trainer_output(&trainer, 0, &size), nullptr);
  nacre_report report = {};
  report.size = sizeof report;
  EXPECT_EQ(nacre_static_trainer_commit(&trainer, -1, &report), uint8_t(Code::kLearningRate));
  ASSERT_EQ(nacre_static_trainer_commit(&trainer, 0.05f, &report), 0);
  EXPECT_EQ(report.applied, 1u);
  ASSERT_TRUE(both.model.step(0.05f, nullptr).ok());
  const void* const state = nacre_static_trainer_state(&trainer, &size);
  ASSERT_EQ(size, both.model.state().size());
  EXPECT_EQ(std::memcmp(state, both.model.state().data(), size), 0);

  struct Memory {
    std::vector<uint8_t> bytes;
  } memory = {std::vector<uint8_t>(1 << 16, 0xFF)};
  nacre_storage storage = {};
  storage.size = sizeof storage;
  storage.program_bytes = 8, storage.erase_bytes = 256, storage.bytes = memory.bytes.size(), storage.context = &memory;
  storage.read = [](void* m, uint64_t at, void* to, size_t n) {
    std::memcpy(to, static_cast<Memory*>(m)->bytes.data() + at, n);
    return 1;
  };
  storage.program = [](void* m, uint64_t at, const void* from, size_t n) {
    std::memcpy(static_cast<Memory*>(m)->bytes.data() + at, from, n);
    return 1;
  };
  storage.erase = [](void* m, uint64_t at) {
    std::memset(static_cast<Memory*>(m)->bytes.data() + at, 0xFF, 256);
    return 1;
  };
  uint64_t bytes = 0;
  ASSERT_EQ(nacre_static_checkpoint_measure(&trainer, &storage, 0, &bytes).code, 0);
  EXPECT_GT(bytes, 2 * size);
  ASSERT_EQ(nacre_static_checkpoint_save(&trainer, &storage, 0, nullptr, 0).code, 0);
  const std::vector<std::byte> saved(both.fixed.state().begin(), both.fixed.state().end());
  ASSERT_EQ(nacre_static_trainer_start(&trainer), 0);
  nacre_checkpoint_report told = {};
  told.size = sizeof told;
  ASSERT_EQ(nacre_static_checkpoint_load(&trainer, &storage, &told, nullptr, 0).code, 0);
  EXPECT_EQ(told.same_model, 1u);
  EXPECT_TRUE(std::ranges::equal(saved, both.fixed.state()));
  EXPECT_EQ(nacre_static_checkpoint_save(&trainer, &storage, 0, nullptr, 4).code, uint8_t(Code::kNull));
}

TEST(static_training, any_changed_constant_changes_the_crc_of_a_program) {
  TwoTrainers both(static_cases()[0]);
  for (const auto& [entry, program] : both.tables.programs) {
    EXPECT_EQ(table_crc(both.bound.program(entry)), program.crc);
    ASSERT_FALSE(program.calls.empty());
  }
  StaticTables& t = both.tables;
  t.programs.at(Entry::kUpdate).calls[0].operands[0].place.offset += 4;
  EXPECT_NE(table_crc(BoundTables(t).program(Entry::kUpdate)), t.programs.at(Entry::kUpdate).crc);
}

TEST(static_training, a_model_that_only_infers_is_refused) {
  const std::vector<uint8_t> file = compile(test::perceptron(2), {}).bytes;
  const LoadedModel loaded(file, "infers", "");
  EXPECT_NE(refused_with([&] { static_training_tables(loaded, "", *find_machine("arm/m4")); }, kUnsupported)
                .find("has no program that trains"),
            std::string::npos);
}

}  // namespace
}  // namespace nacre::tools
