// Tests that micro-batches on several machines, joined in order, give the bytes of one machine that takes its sums
// apart, under every kind of policy. NUMERICS.md (57).
#include "engine/train/step_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/differentiate/code_trainer.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

using namespace code_trainer;

constexpr uint32_t kMachines = 4;
constexpr int kImage = 6 * 6 * 2;
constexpr int kFewRows = 8;  // so few that gradients of convolutions are made first and then added

// Inserts a dropout between the mean and the classifier. Which elements it drops depends on the micro-batch.
Graph with_a_dropout(Graph graph) {
  const auto fc = std::ranges::find(graph.nodes, "fc", &Node::name);
  Node dropout;
  dropout.op = Op::kDropout;
  dropout.name = "dropout";
  dropout.layer = graph.add_layer({.name = "dropout", .source_op = "Dropout", .policy = {}});
  Value y = graph.values[size_t(fc->inputs[0])];
  y.name = "dropout:0";
  dropout.inputs = {fc->inputs[0], kNone};
  dropout.outputs = {graph.add(std::move(y))};
  set_real(dropout, "rate", 0.25f);
  fc->inputs[0] = dropout.outputs[0];
  graph.nodes.insert(fc, dropout);
  return graph;
}

TrainingModel trained_in(const std::string& policy) {
  TrainingOptions options;
  CompileOptions compiling;
  compiling.policies = parse_policy_options({.policy = policy});
  compiling.calibration = &calibration();
  if (policy.starts_with("int8/full")) {
    return compile_training(test::perceptron(kFewRows), options, compiling);
  }
  options.optimizer.kind = Optimizer::kAdam;
  options.optimizer.clip_norm = 1;
  options.loss_scale = loss_scaler(LossScaleSystem::kNacre);
  options.loss_scale.initial = 0x1p24f;  // float16 overflows in the first steps
  options.loss_scale.period = 3;
  return compile_training(with_a_dropout(test::convolutional(kFewRows)), options, compiling);
}

// Draws images from `seed` and scales them by a factor that depends on it, so that a step's micro-batches differ.
Data images(uint64_t seed, int width) {
  Data data = batch(seed, width);
  for (float& x : data.x) x *= 1 + 0.125f * float(seed % 5);
  return data;
}

struct Learner {
  explicit Learner(const TrainingModel& made) : trainer(made) {}

  void write(const Data& data) {
    std::memcpy(trainer.trainer().input(0).data(), data.x.data(), trainer.trainer().input(0).size());
    std::memcpy(trainer.trainer().input(1).data(), data.labels.data(), trainer.trainer().input(1).size());
  }
  std::vector<std::byte> sums() { return {trainer.trainer().sums().begin(), trainer.trainer().sums().end()}; }
  std::vector<std::byte> state() { return {trainer.trainer().state().begin(), trainer.trainer().state().end()}; }
  std::vector<std::byte> micro_batch(uint32_t index, const Data& data) {
    EXPECT_TRUE(trainer.trainer().begin_at(index).ok());
    write(data);
    EXPECT_TRUE(trainer.trainer().accumulate().ok());
    return sums();
  }
  Trainer::Report commit(const std::vector<std::byte>& all) {
    std::ranges::copy(all, trainer.trainer().sums().begin());
    EXPECT_TRUE(trainer.trainer().merged(kMachines).ok());
    Trainer::Report report;
    EXPECT_TRUE(trainer.trainer().commit(0x1p-6f, &report).ok());
    return report;
  }

  CodeTrainer trainer;
};

class StepSums : public testing::TestWithParam<const char*> {};

TEST_P(StepSums, of_four_machines_are_those_of_one) {
  const std::string policy = GetParam();
  const TrainingModel made = trained_in(policy);
  const int width = policy.starts_with("int8/full") ? 6 : kImage;
  Learner one(made), two[2] = {Learner(made), Learner(made)};
  std::vector<std::unique_ptr<Learner>> four;
  for (uint32_t m = 0; m < kMachines; ++m) four.push_back(std::make_unique<Learner>(made));
  const Model& model = one.trainer.model().model();
  int applied = 0, refused = 0;
  bool order_matters = false, sum_goes_on_otherwise = false;
  for (uint64_t step = 0; step < 14; ++step) {
    std::vector<Data> data;
    for (uint64_t m = 0; m < kMachines; ++m) data.push_back(images(step * kMachines + m, width));
    Trainer& trainer = one.trainer.trainer();
    // For comparison, one machine adds micro-batch after micro-batch. Then one machine takes its sums apart.
    for (uint32_t m = 0; m < kMachines; ++m) {
      one.write(data[m]);
      ASSERT_TRUE(trainer.accumulate().ok());
    }
    const std::vector<std::byte> going_on = one.sums();
    trainer.discard();
    std::vector<std::byte> keep(trainer.sums().size());
    for (uint32_t m = 0; m < kMachines; ++m) {
      one.write(data[m]);
      ASSERT_TRUE(trainer.accumulate_apart(keep).ok());
    }
    ASSERT_EQ(trainer.micro_batches(), kMachines);
    const std::vector<std::byte> apart = one.sums();
    sum_goes_on_otherwise = sum_goes_on_otherwise || going_on != apart;

    std::vector<std::vector<std::byte>> blocks;
    for (uint32_t m = 0; m < kMachines; ++m) blocks.push_back(four[m]->micro_batch(m, data[m]));
    std::vector<std::byte> all = blocks[0], turned = blocks[kMachines - 1];
    for (uint32_t m = 1; m < kMachines; ++m) ASSERT_TRUE(join_sums(model, all, blocks[m]).ok());
    for (uint32_t m = kMachines - 1; m-- > 0;) ASSERT_TRUE(join_sums(model, turned, blocks[m]).ok());
    ASSERT_EQ(all, apart) << policy << ", step " << step;
    order_matters = order_matters || turned != all;
    // Two machines take turns.
    std::vector<std::byte> by_turns;
    for (uint32_t m = 0; m < kMachines; ++m) {
      const std::vector<std::byte> block = two[m % 2].micro_batch(m, data[m]);
      if (m == 0) by_turns = block;
      else ASSERT_TRUE(join_sums(model, by_turns, block).ok());
    }
    ASSERT_EQ(by_turns, apart) << policy << ", step " << step;

    const Trainer::Report report = one.commit(apart);
    (report.applied ? applied : refused) += 1;
    for (const auto& machine : four) EXPECT_EQ(machine->commit(all).applied, report.applied);
    for (Learner& machine : two) EXPECT_EQ(machine.commit(all).applied, report.applied);
    for (const auto& machine : four) ASSERT_EQ(machine->state(), one.state()) << policy << ", step " << step;
    for (Learner& machine : two) ASSERT_EQ(machine.state(), one.state()) << policy << ", step " << step;
  }
  EXPECT_GT(applied, 0);
  // Shows that a comparison of bytes can fail. Another order gives other bytes, except for integers. A sum that goes
  // on rounds differently, except if weights are quantized: then each micro-batch's gradient is made first and then
  // added.
  EXPECT_EQ(order_matters, !policy.starts_with("int8/full"));
  EXPECT_EQ(sum_goes_on_otherwise, !policy.starts_with("int8") && !policy.starts_with("float8"));
  EXPECT_TRUE(refused > 0 || !policy.starts_with("mixed_float16"));
}

INSTANTIATE_TEST_SUITE_P(policies, StepSums,
                         testing::Values("float32", "float64", "bfloat16", "mixed_bfloat16", "mixed_float16",
                                         "float8_from_float32", "float8/16_from_mixed_bfloat16",
                                         "float8/current_from_float32", "int8_from_float32", "int8/static_from_float32",
                                         "int8/full_from_float32"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(step_sums, a_machine_draws_what_its_micro_batch_draws) {
  const TrainingModel made = trained_in("float32");
  Learner a(made), b(made);
  const Data data = images(3, kImage);
  const std::vector<std::byte> first = a.micro_batch(0, data);
  EXPECT_NE(a.micro_batch(1, data), first) << "the same rows as the second of a step: others are dropped";
  EXPECT_EQ(a.micro_batch(0, data), first);
  EXPECT_EQ(b.micro_batch(1, data), a.micro_batch(1, data));
}

TEST(step_sums, runs_cover_every_number_once) {
  const TrainingModel made = trained_in("float8_from_float32");
  Learner m(made);
  const Model& model = m.trainer.model().model();
  std::vector<SumRun> runs(model.tensors().size());
  const uint32_t count = sum_runs(model, runs);
  ASSERT_LE(count, runs.size());
  EXPECT_EQ(sum_runs(model, std::span(runs).first(1)), count) << "a short list is counted all the same";
  std::set<SumKind> kinds;
  uint64_t end = 0, covered = 0, numbers = 0;
  for (const SumRun& run : std::span(runs).first(count)) {
    EXPECT_GE(run.first, end);
    EXPECT_EQ(run.first % element_bytes(run.kind), 0u);
    end = run.first + run.bytes;
    covered += run.bytes;
    kinds.insert(run.kind);
  }
  EXPECT_LE(end, m.trainer.trainer().sums().size());
  for (const TensorRecord& r : model.tensors())
    if (r.region == Region::kStep && r.alias_of == kNoIndex) numbers += r.bytes;
  EXPECT_EQ(covered, numbers);
  EXPECT_EQ(kinds, (std::set{SumKind::kFloat32, SumKind::kUint32}));
}

TEST(step_sums, joins_slices_as_the_whole) {
  const SumRun runs[] = {{0, 16, SumKind::kFloat32}, {16, 8, SumKind::kInt32}, {24, 8, SumKind::kUint32}};
  const float a[] = {1, 0x1p24f, -3, 0.5f}, b[] = {2, 1, 3, 0x1p-25f};
  const int32_t c[] = {INT32_MAX - 1, INT32_MIN + 1}, d[] = {5, -5};
  const uint32_t e[] = {0x7F800000, 7}, f[] = {3, 0x7FC00000};
  std::byte into[32], from[32], expected[32], cut[32];
  const auto fill = [](std::byte* to, const void* x, const void* y, const void* z) {
    std::memcpy(to, x, 16), std::memcpy(to + 16, y, 8), std::memcpy(to + 24, z, 8);
  };
  fill(into, a, c, e);
  fill(from, b, d, f);
  const float sum[] = {3, 0x1p24f, 0, 0.5f};
  const int32_t saturated[] = {INT32_MAX, INT32_MIN};
  const uint32_t larger[] = {0x7F800000, 0x7FC00000};
  fill(expected, sum, saturated, larger);
  std::memcpy(cut, into, sizeof cut);
  for (const SumRun& run : runs) join(run, 0, 32, into, from);
  EXPECT_EQ(std::memcmp(into, expected, 32), 0);
  for (uint64_t first = 0; first < 32; first += 4)
    for (const SumRun& run : runs) join(run, first, 4, cut + first, from + first);
  EXPECT_EQ(std::memcmp(cut, expected, 32), 0);
}

TEST(step_sums, refusals_leave_what_was_accumulated) {
  const TrainingModel made = trained_in("float32");
  Learner m(made);
  Trainer& trainer = m.trainer.trainer();
  std::vector<std::byte> keep(trainer.sums().size());
  EXPECT_EQ(trainer.merged(0).code, Code::kNothingAccumulated);
  m.write(images(1, kImage));
  ASSERT_TRUE(trainer.accumulate_apart(keep).ok());
  const std::vector<std::byte> one = m.sums();
  EXPECT_EQ(trainer.accumulate_apart(std::span(keep).first(keep.size() - 1)).code, Code::kMemorySize);
  EXPECT_EQ(m.sums(), one);
  EXPECT_EQ(trainer.accumulate_apart(keep, kFewRows + 1).code, Code::kRows);
  EXPECT_EQ(m.sums(), one);
  EXPECT_EQ(trainer.micro_batches(), 1u);
  const std::vector<std::byte> state = m.state();
  Data bad = images(2, kImage);
  bad.labels[3] = 17;
  m.write(bad);
  EXPECT_EQ(trainer.accumulate_apart(keep).code, Code::kIndex);
  EXPECT_EQ(trainer.micro_batches(), 0u) << "a label out of range discards the step, as in accumulate";
  EXPECT_EQ(m.state(), state);
  std::vector<std::byte> small(4);
  EXPECT_EQ(join_sums(m.trainer.model().model(), small, keep).code, Code::kMemorySize);
}

TEST(step_sums, updates_at_once_have_none) {
  TrainingOptions options;
  options.immediate = true;
  CodeTrainer at_once(compile_training(test::perceptron(kFewRows), options, {}));
  EXPECT_TRUE(at_once.trainer().sums().empty());
  EXPECT_EQ(at_once.trainer().begin_at(1).code, Code::kOneMicroBatch);
  EXPECT_TRUE(at_once.trainer().begin_at(0).ok());
  EXPECT_EQ(at_once.trainer().merged(2).code, Code::kNothingAccumulated);
}

}  // namespace
}  // namespace nacre::tools
