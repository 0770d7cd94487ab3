#include "engine/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/train/checkpoint.h"
#include "tests/train/flash.h"
#include "tests/train/regression.h"

namespace nacre::test {
namespace {

// Trains in float64 by the formulas: softmax cross-entropy, momentum 0.5 on w, plain descent on b.
struct Oracle {
  double w[kClasses][kFeatures], b[kClasses] = {}, velocity[kClasses][kFeatures] = {};
  double loss = 0, norm = 0;

  explicit Oracle(const std::vector<float>& first) {
    for (int k = 0; k < kClasses; ++k)
      for (int i = 0; i < kFeatures; ++i) w[k][i] = double(first[size_t(k * kFeatures + i)]);
  }
  void step(const std::vector<Batch>& batches, double rate) {
    double dw[kClasses][kFeatures] = {}, db[kClasses] = {}, squares = 0;
    loss = 0;
    for (const Batch& batch : batches)
      for (int r = 0; r < kRows; ++r) {
        const float* x = batch.x.data() + r * kFeatures;
        double z[kClasses], sum = 0;
        for (int k = 0; k < kClasses; ++k) {
          z[k] = b[k];
          for (int i = 0; i < kFeatures; ++i) z[k] += w[k][i] * double(x[i]);
          sum += std::exp(z[k]);
        }
        loss -= z[batch.labels[size_t(r)]] - std::log(sum);
        for (int k = 0; k < kClasses; ++k) {
          const double dz = std::exp(z[k]) / sum - (k == batch.labels[size_t(r)] ? 1 : 0);
          db[k] += dz;
          for (int i = 0; i < kFeatures; ++i) dw[k][i] += dz * double(x[i]);
        }
      }
    const double n = double(batches.size()) * kRows;
    loss /= n;
    for (int k = 0; k < kClasses; ++k) {
      squares += db[k] * db[k] / n / n;
      b[k] -= rate * db[k] / n;
      for (int i = 0; i < kFeatures; ++i) {
        squares += dw[k][i] * dw[k][i] / n / n;
        velocity[k][i] = 0.5 * velocity[k][i] + dw[k][i] / n;
        w[k][i] -= rate * velocity[k][i];
      }
    }
    norm = std::sqrt(squares);
  }
};

// All numbers are below 4 in magnitude. In a step each number is rounded some 60 times, by at most 4 u, through sums
// of at most 8 samples of 5 terms, exp, log and three divisions. Errors carry over to the next step about unchanged.
double tolerance(int steps) { return steps * 60 * 4 * std::ldexp(1.0, -24); }

TEST(trainer, follows_the_formulas) {
  Training t;
  Oracle oracle(t.get(kW));
  std::mt19937 random(1);
  double first = 0;
  for (int step = 1; step <= 30; ++step) {
    std::vector<Batch> batches;
    for (int i = 0; i < 1 + step % 2; ++i) batches.push_back(random_batch(random));
    for (const Batch& batch : batches) ASSERT_TRUE(t.accumulate(batch).ok());
    Trainer::Report report;
    ASSERT_TRUE(t.trainer.commit(0.25f, &report).ok());
    oracle.step(batches, 0.25);
    if (step == 1) first = oracle.loss;
    EXPECT_TRUE(report.applied);
    EXPECT_FALSE(report.overflow_at_floor);
    EXPECT_EQ(report.samples, float(kRows * batches.size()));
    EXPECT_EQ(report.refused_in_row, 0u);
    EXPECT_EQ(report.loss_scale, std::min(4096.0f, 1024 * std::exp2(float((step - 1) / 6)))) << step;
    EXPECT_NEAR(report.loss, oracle.loss, tolerance(step)) << step;
    EXPECT_NEAR(report.norm, oracle.norm, tolerance(step)) << step;
    const auto w = t.get(kW), b = t.get(kB);
    for (size_t i = 0; i < w.size(); ++i)
      ASSERT_NEAR(w[i], oracle.w[i / kFeatures][i % kFeatures], tolerance(step)) << step;
    for (size_t k = 0; k < b.size(); ++k) ASSERT_NEAR(b[k], oracle.b[k], tolerance(step)) << step;
    EXPECT_EQ(t.get<uint32_t>(kSteps)[0], uint32_t(step));
    EXPECT_EQ(t.get(kCopyOfW), w) << "derived after each step";
    EXPECT_TRUE(t.step_block_is_zero());
  }
  EXPECT_LT(oracle.loss, first / 2) << "it learns";
}

TEST(trainer, rows_of_a_batch_are_samples_of_their_own) {
  Training t;
  std::mt19937 random(2);
  const Batch batch = random_batch(random);
  ASSERT_TRUE(t.accumulate(batch, 3).ok());
  Trainer::Report report;
  ASSERT_TRUE(t.trainer.commit(0.25f, &report).ok());
  EXPECT_EQ(report.samples, 3.0f);
  EXPECT_EQ(t.accumulate(batch, 5).code, Code::kRows);
  ASSERT_TRUE(t.accumulate(batch, 2).ok());
  EXPECT_EQ(t.accumulate(batch, 5).code, Code::kRows) << "what was accumulated is still there";
  ASSERT_TRUE(t.trainer.commit(0.25f, &report).ok());
  EXPECT_EQ(report.samples, 2.0f);
}

// ---- A step is a transaction ----

TEST(trainer, gradients_and_inference_never_write_state) {
  Training t;
  std::mt19937 random(3);
  t.step(random_batch(random));
  const auto before = t.state(), copy = t.get<std::byte>(kCopyOfW);
  const Batch a = random_batch(random), b = random_batch(random);
  ASSERT_TRUE(t.accumulate(a).ok());
  std::fill(t.trainer.infer().input(0).begin(), t.trainer.infer().input(0).end(), std::byte{0});
  ASSERT_TRUE(t.trainer.infer().run().ok());
  ASSERT_TRUE(t.accumulate(b).ok());
  EXPECT_EQ(t.state(), before);
  EXPECT_EQ(t.get<std::byte>(kCopyOfW), copy);
  Trainer::Report report;
  ASSERT_TRUE(t.trainer.commit(0.25f, &report).ok());
  // Another trainer takes the same steps without inference in between.
  Training other;
  std::mt19937 again(3);
  other.step(random_batch(again));
  ASSERT_TRUE(other.accumulate(random_batch(again)).ok());
  ASSERT_TRUE(other.accumulate(random_batch(again)).ok());
  ASSERT_TRUE(other.trainer.commit(0.25f, &report).ok());
  EXPECT_EQ(t.state(), other.state());
}

TEST(trainer, a_refused_step_changes_the_loss_scale_and_its_counters_alone) {
  Training t;
  std::mt19937 random(4);
  t.step(random_batch(random));
  for (uint32_t row = 1; row <= 12; ++row) {
    Batch bad = random_batch(random);
    bad.x[row % 16] = row % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    auto before = t.state();
    const auto copy = t.get<std::byte>(kCopyOfW);
    const Trainer::Report report = t.step(bad);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.refused_in_row, row);
    EXPECT_EQ(report.loss_scale, std::exp2(float(std::max(0, 11 - int(row)))));
    EXPECT_EQ(report.overflow_at_floor, row > 10) << row;
    EXPECT_TRUE(t.step_block_is_zero());
    EXPECT_EQ(t.get<std::byte>(kCopyOfW), copy);
    const auto after = t.state();
    for (const uint32_t id : {kScale, kCounters}) {
      const TensorRecord& r = t.model.tensors()[id];
      std::memcpy(before.data() + r.offset, after.data() + r.offset, r.bytes);
    }
    EXPECT_EQ(after, before) << row;
  }
  const Trainer::Report good = t.step(random_batch(random));
  EXPECT_TRUE(good.applied);
  EXPECT_EQ(good.refused_in_row, 0u);
  EXPECT_FALSE(good.overflow_at_floor);
}

TEST(trainer, a_label_out_of_range_discards_what_was_accumulated) {
  Training t;
  std::mt19937 random(5);
  t.step(random_batch(random));
  const auto before = t.state();
  for (const int32_t label : {kClasses, -2, INT32_MIN, INT32_MAX}) {
    Batch bad = random_batch(random);
    ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
    bad.labels[3] = label;
    EXPECT_EQ(t.accumulate(bad).code, Code::kIndex) << label;
    EXPECT_TRUE(t.step_block_is_zero());
    Trainer::Report report;
    EXPECT_EQ(t.trainer.commit(0.25f, &report).code, Code::kNothingAccumulated);
    EXPECT_EQ(t.state(), before);
  }
  EXPECT_TRUE(t.step(random_batch(random)).applied);
}

TEST(trainer, commit_refuses_what_is_no_step) {
  Training t;
  std::mt19937 random(6);
  const auto before = t.state();
  Trainer::Report report;
  EXPECT_EQ(t.trainer.commit(0.25f, &report).code, Code::kNothingAccumulated);
  Batch ignored = random_batch(random);
  for (int32_t& label : ignored.labels) label = -1;  // the model's ignore_index
  ASSERT_TRUE(t.accumulate(ignored).ok());
  EXPECT_EQ(t.trainer.commit(0.25f, &report).code, Code::kNothingAccumulated) << "no label counts";
  ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
  for (const float rate : {-0.5f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()}) {
    const Status s = t.trainer.commit(rate, &report);
    EXPECT_EQ(s.code, Code::kLearningRate);
    EXPECT_EQ(s.table, Table::kProgram);
    EXPECT_EQ(t.state(), before);
  }
  ASSERT_TRUE(t.trainer.commit(0, &report).ok()) << "what was accumulated is still there";
  EXPECT_TRUE(report.applied);
  EXPECT_EQ(report.samples, float(kRows)) << "the ignored ones not";
  EXPECT_EQ(t.get(kW), Training().get(kW)) << "at a rate of 0 nothing is learned";
  ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
  t.trainer.discard();
  EXPECT_EQ(t.trainer.commit(0.25f, &report).code, Code::kNothingAccumulated);
}

// ---- Starting, resuming ----

TEST(trainer, start_begins_again) {
  Training t;
  const auto fresh = t.state();
  std::mt19937 random(7);
  t.step(random_batch(random));
  ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
  EXPECT_NE(t.state(), fresh);
  ASSERT_TRUE(t.trainer.start().ok());
  EXPECT_EQ(t.state(), fresh);
  EXPECT_TRUE(t.step_block_is_zero());
  EXPECT_EQ(t.get(kCopyOfW), t.get(kW));
  EXPECT_EQ(t.get(kScale)[0], 1024.0f);
  EXPECT_EQ(t.get(kVelocity), std::vector<float>(12, 0));
}

TEST(trainer, has_no_state_to_save_before_it_starts) {
  Training t;
  Trainer trainer;
  ASSERT_TRUE(trainer.bind(t.model, "host", reference_kernels(), t.blocks->memory).ok());
  Flash flash(8, 256, 1 << 14);
  EXPECT_EQ(Checkpoint(flash.storage()).save(t.model, trainer.state()).code, Code::kMemorySize);
  ASSERT_TRUE(trainer.start().ok());
  EXPECT_TRUE(Checkpoint(flash.storage()).save(t.model, trainer.state()).ok());
}

TEST(trainer, a_resumed_run_equals_the_uninterrupted_one_to_the_bit) {
  Training whole;
  uint64_t bytes = 0;
  Flash flash(8, 256, 1 << 14);
  Checkpoint checkpoint(flash.storage());
  std::mt19937 random(8), same(8);
  for (int i = 0; i < 20; ++i) whole.step(random_batch(random));
  {
    Training first;
    for (int i = 0; i < 10; ++i) first.step(random_batch(same));
    ASSERT_TRUE(Checkpoint::measure(first.model, flash.storage(), 0, &bytes).ok());
    ASSERT_LE(bytes, flash.bytes().size());
    ASSERT_TRUE(checkpoint.save(first.model, first.trainer.state()).ok());
  }
  Training second;
  ASSERT_TRUE(checkpoint.load(second.model, second.trainer.state()).ok());
  ASSERT_TRUE(second.trainer.restored().ok());
  EXPECT_EQ(second.get(kCopyOfW), second.get(kW)) << "derived anew";
  for (int i = 0; i < 10; ++i) second.step(random_batch(same));
  EXPECT_EQ(second.state(), whole.state());
}

// ---- Without a program `gradients` ----

TEST(trainer, immediate_commits_one_micro_batch) {
  Training t(training_immediate()), plain;
  EXPECT_TRUE(t.trainer.immediate());
  EXPECT_FALSE(plain.trainer.immediate());
  EXPECT_EQ(t.trainer.input_count(), 2u) << "the learning rate is commit's";
  EXPECT_EQ(plain.trainer.input_count(), 2u);
  std::mt19937 random(9);
  Trainer::Report report;
  EXPECT_EQ(t.trainer.commit(0.25f, &report).code, Code::kNothingAccumulated);
  for (int i = 0; i < 5; ++i) {
    const Batch batch = random_batch(random);
    const Trainer::Report a = t.step(batch), b = plain.step(batch);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(t.state(), plain.state()) << "the same steps in one program";
    EXPECT_TRUE(t.step_block_is_zero());
  }
  ASSERT_TRUE(t.accumulate(random_batch(random), 3).ok());
  ASSERT_TRUE(t.trainer.commit(0.25f, &report).ok());
  EXPECT_EQ(report.samples, 3.0f);
  ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
  EXPECT_EQ(t.trainer.accumulate().code, Code::kOneMicroBatch);
  EXPECT_EQ(t.trainer.accumulate(5).code, Code::kOneMicroBatch);
  t.trainer.discard();
  EXPECT_EQ(t.trainer.accumulate(5).code, Code::kRows);
}

// ---- Binding ----

TEST(trainer, measure_says_exactly_what_bind_needs) {
  Training t;
  for (uint32_t block = 0; block < kBlockCount; ++block) {
    if (t.sizes.bytes[block] == 0) continue;
    Memory less = t.blocks->memory;
    less.block[block] = less.block[block].first(less.block[block].size() - 1);
    Trainer trainer;
    const Status s = trainer.bind(t.model, "host", reference_kernels(), less);
    EXPECT_EQ(s.code, Code::kMemorySize) << block;
    EXPECT_EQ(s.index, block);
    EXPECT_EQ(trainer.start().code, Code::kNotBound);
  }
  Sizes sum;
  for (uint32_t i = 0; i < t.model.program_count(); ++i) {
    Sizes one;
    ASSERT_TRUE(Program::measure(t.model, i, reference_kernels(), &one).ok());
    EXPECT_LE(one.bytes[kArena], t.sizes.bytes[kArena]);
    sum.bytes[kCalls] += (one.bytes[kCalls] + 15) / 16 * 16;
  }
  EXPECT_EQ(t.sizes.bytes[kCalls], sum.bytes[kCalls]);
  EXPECT_EQ(t.sizes.bytes[kArena], 176u) << "the largest";
}

TEST(trainer, bound_again_keeps_nothing_of_the_model_before) {
  Draft draft = training();
  draft.programs[0].target = "other";  // infer
  const Buffer file = pack(draft);
  Model without;
  ASSERT_TRUE(without.open(file.bytes()).ok());
  Training t;
  ASSERT_TRUE(t.trainer.infer().run().ok());
  ASSERT_TRUE(t.trainer.bind(without, "host", reference_kernels(), t.blocks->memory).ok());
  EXPECT_EQ(t.trainer.infer().run().code, Code::kNotBound);
  EXPECT_EQ(t.trainer.input_count(), 2u);
  // A refused bind leaves nothing bound.
  ASSERT_TRUE(t.trainer.bind(t.model, "host", reference_kernels(), t.blocks->memory).ok());
  Memory less = t.blocks->memory;
  less.block[kCalls] = less.block[kCalls].first(less.block[kCalls].size() - 1);
  EXPECT_EQ(t.trainer.bind(t.model, "host", reference_kernels(), less).code, Code::kMemorySize);
  EXPECT_EQ(t.trainer.infer().run().code, Code::kNotBound);
  EXPECT_EQ(t.trainer.input_count(), 0u);
}

TEST(trainer, says_what_is_missing) {
  Trainer none;
  Trainer::Report report;
  EXPECT_EQ(none.start().code, Code::kNotBound);
  EXPECT_EQ(none.restored().code, Code::kNotBound);
  EXPECT_EQ(none.accumulate().code, Code::kNotBound);
  EXPECT_EQ(none.commit(0.1f, &report).code, Code::kNotBound);
  EXPECT_EQ(none.input_count(), 0u);
  EXPECT_TRUE(none.input(0).empty());
  EXPECT_TRUE(none.output(0).empty());
  EXPECT_TRUE(none.state().empty());
  EXPECT_EQ(none.infer().run().code, Code::kNotBound);

  Training t;
  Sizes sizes;
  EXPECT_EQ(Trainer::measure(t.model, "arm/m4", reference_kernels(), &sizes).code, Code::kNoEntry);
  EXPECT_TRUE(Trainer::measure(t.model, nullptr, reference_kernels(), &sizes).ok());
  EXPECT_EQ(Trainer::measure(t.model, "host", {reference_kernels().data(), 1}, &sizes).code, Code::kNoKernel);
  EXPECT_EQ(sizes.total(), 0u);
  Trainer unstarted;
  ASSERT_TRUE(unstarted.bind(t.model, "host", reference_kernels(), t.blocks->memory).ok());
  EXPECT_EQ(unstarted.accumulate().code, Code::kNotBound);
  EXPECT_EQ(unstarted.commit(0.1f, &report).code, Code::kNotBound);

  const Buffer no_update = pack(dense_int8());
  Model model;
  ASSERT_TRUE(model.open(no_update.bytes()).ok());
  EXPECT_EQ(Trainer::measure(model, nullptr, reference_kernels(), &sizes).code, Code::kNoEntry);
  // In this draft the report of `update` is not an output.
  Draft draft = training();
  draft.programs[2].outputs.pop_back();
  draft.programs[2].output_names.clear(), draft.programs[2].output_layouts.clear();
  for (TensorRecord& r : draft.tensors)
    if (r.region == Region::kArena && r.dims[0] == 4 && r.rank == 1 && r.element == ElementType::kFloat32) r.flags = 0;
  const Buffer silent = pack(draft);
  ASSERT_TRUE(model.open(silent.bytes()).ok());
  const Status s = Trainer::measure(model, "host", reference_kernels(), &sizes);
  EXPECT_EQ(s.code, Code::kTrainingProgram);
  EXPECT_EQ(s.index, uint32_t(Entry::kUpdate));
}

}  // namespace
}  // namespace nacre::test
