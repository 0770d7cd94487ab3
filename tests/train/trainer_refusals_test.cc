// Tests steps and bindings that a Trainer refuses, calls that undo its binding, and the state after a refused step.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/train/regression.h"

namespace nacre::test {
namespace {

uint32_t counter(const Training& t, size_t i) { return t.get<uint32_t>(kCounters)[i]; }

// Sets the bias of another class than the labels' to 3e38. Each sample's loss is finite, but their sum is not.
// Gradients stay finite: each of the logits' is at most the loss scale.
void make_the_loss_infinite(Training& t, Batch& batch) {
  const float bias[kClasses] = {0, 3e38f, 0};
  std::memcpy(t.trainer.state().data() + t.model.tensors()[kB].offset, bias, sizeof bias);
  ASSERT_TRUE(t.trainer.restored().ok());
  for (int32_t& label : batch.labels) label = 0;
}

TEST(trainer, a_step_refused_for_its_loss_lowers_the_loss_scale) {
  for (const Draft& draft : {training(), training_immediate()}) {
    Training t(draft);
    std::mt19937 random(11);
    t.step(random_batch(random));
    EXPECT_EQ(counter(t, 0), 1u);
    Batch bad = random_batch(random);
    make_the_loss_infinite(t, bad);
    const auto w = t.get(kW), b = t.get(kB), velocity = t.get(kVelocity);
    for (uint32_t row = 1; row <= 12; ++row) {
      const Trainer::Report report = t.step(bad);
      EXPECT_FALSE(report.applied);
      EXPECT_TRUE(std::isinf(report.loss));
      EXPECT_TRUE(std::isfinite(report.norm));
      EXPECT_EQ(report.refused_in_row, row);
      EXPECT_EQ(report.overflow_at_floor, row > 10) << row;
      EXPECT_EQ(t.get(kScale)[0], std::exp2(float(std::max(0, 10 - int(row))))) << row;
      EXPECT_EQ(counter(t, 0), 0u) << "good steps";
      EXPECT_EQ(counter(t, 1), row) << "refused steps";
      EXPECT_EQ(counter(t, 2), row > 10 ? row - 10 : 0u) << "at the floor";
      EXPECT_EQ(t.get<uint32_t>(kSteps)[0], 1u);
    }
    EXPECT_EQ(t.get(kW), w);
    EXPECT_EQ(t.get(kB), b);
    EXPECT_EQ(t.get(kVelocity), velocity);
  }
}

TEST(trainer, commits_for_who_wants_no_report) {
  for (const Draft& draft : {training(), training_immediate()}) {
    Training t(draft), other(draft);
    std::mt19937 random(12);
    for (int step = 0; step < 3; ++step) {
      const Batch batch = random_batch(random);
      EXPECT_TRUE(other.step(batch).applied);
      ASSERT_TRUE(t.accumulate(batch).ok());
      ASSERT_TRUE(t.trainer.commit(0.25f, nullptr).ok());
      EXPECT_EQ(t.state(), other.state());
    }
    EXPECT_EQ(t.trainer.commit(0.25f, nullptr).code, Code::kNothingAccumulated);
  }
}

// ---- Targets ----

TEST(trainer, trains_with_the_programs_of_one_target) {
  for (const Entry other : {Entry::kInfer, Entry::kGradients, Entry::kDerive}) {
    Draft draft = training();
    draft.programs[size_t(other)].target = "other";
    ASSERT_EQ(Entry(draft.programs[size_t(other)].entry), other);
    const Buffer file = pack(draft);
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    Sizes named, unnamed;
    ASSERT_TRUE(Trainer::measure(model, "host", reference_kernels(), &named).ok());
    ASSERT_TRUE(Trainer::measure(model, nullptr, reference_kernels(), &unnamed).ok());
    EXPECT_EQ(named.bytes[kCalls], unnamed.bytes[kCalls]) << int(other);
    EXPECT_EQ(Trainer::measure(model, "other", reference_kernels(), &named).code, Code::kNoEntry);
    Blocks blocks(unnamed);
    Trainer trainer;
    ASSERT_TRUE(trainer.bind(model, nullptr, reference_kernels(), blocks.memory).ok());
    EXPECT_EQ(trainer.infer().bound(), other != Entry::kInfer);
    EXPECT_EQ(trainer.immediate(), other == Entry::kGradients);
  }
}

// ---- Memory, and what undoes bind ----

TEST(trainer, trains_no_model_that_is_not_opened_and_none_once_a_bind_is_refused) {
  Training t(training());
  const Model closed;
  EXPECT_TRUE(t.trainer.trains(t.model));
  EXPECT_FALSE(t.trainer.trains(closed));
  EXPECT_FALSE(t.trainer.bind(t.model, "host", reference_kernels(), {}).ok());
  EXPECT_FALSE(t.trainer.trains(t.model));
}

TEST(trainer, memory_over_the_models_bytes_is_refused) {
  const Buffer file = pack(training());
  Sizes sizes;
  {
    Model model;
    ASSERT_TRUE(model.open(file.bytes()).ok());
    ASSERT_TRUE(Trainer::measure(model, "host", reference_kernels(), &sizes).ok());
  }
  const size_t total = size_t(sizes.total()), start = 4096;
  ASSERT_LE(total, start);
  Buffer whole(start + file.size() + start);
  std::memcpy(whole.data() + start, file.bytes().data(), file.size());
  Model model;
  ASSERT_TRUE(model.open(whole.bytes().subspan(start, file.size())).ok());
  const size_t end = (start + file.size() + kAlignment - 1) / kAlignment * kAlignment;
  for (const size_t at : {start - total, start - total + kAlignment, start, start + 64, end - kAlignment, end}) {
    Memory memory;
    ASSERT_TRUE(Memory::cut(whole.bytes().subspan(at, total), sizes, &memory).ok());
    Trainer trainer;
    const Status s = trainer.bind(model, "host", reference_kernels(), memory);
    const bool apart = at + total <= start || at >= end;
    EXPECT_EQ(s.code, apart ? Code::kOk : Code::kMemoryOverlap) << at;
    EXPECT_EQ(trainer.start().code, apart ? Code::kOk : Code::kNotBound) << at;
    EXPECT_EQ(std::memcmp(whole.data() + start, file.bytes().data(), file.size()), 0) << at;
  }
}

TEST(trainer, attach_and_open_undo_bind) {
  for (const bool immediate : {false, true}) {
    const Draft draft = immediate ? training_immediate() : training();
    Training t(draft);
    std::mt19937 random(13);
    const Batch batch = random_batch(random);
    const Buffer apart{std::span<const std::byte>(draft.segments[0])};
    const auto refuses_everything = [&] {
      Trainer::Report report;
      for (const Status& s : {t.trainer.start(), t.trainer.restored(), t.trainer.accumulate(),
                              t.trainer.commit(0.25f, &report), t.trainer.infer().run()})
        EXPECT_EQ(s.code, Code::kNotBound);
      EXPECT_EQ(t.trainer.input_count(), 0u);
      EXPECT_TRUE(t.trainer.input(0).empty() && t.trainer.output(0).empty());
    };
    t.step(batch);
    ASSERT_TRUE(t.accumulate(batch).ok());
    const auto learned = t.state();
    ASSERT_TRUE(t.model.attach(0, apart.bytes()).ok());
    refuses_everything();
    EXPECT_TRUE(t.state().empty());
    EXPECT_EQ(std::memcmp(t.blocks->memory.block[kState].data(), learned.data(), learned.size()), 0) << "not touched";
    ASSERT_TRUE(t.trainer.bind(t.model, "host", reference_kernels(), t.blocks->memory).ok());
    ASSERT_TRUE(t.trainer.restored().ok());
    EXPECT_EQ(t.state(), learned);
    EXPECT_TRUE(t.step(batch).applied);
    ASSERT_TRUE(t.model.open(t.file.bytes()).ok());
    refuses_everything();
    EXPECT_FALSE(t.model.open({}).ok());
    refuses_everything();
  }
}

// The block holds the state of a training whose model is gone. Saved with the new model's hash, it would pass for the
// new model's.
TEST(trainer, has_no_state_for_a_checkpoint_once_bind_is_undone) {
  Training t(training());
  std::mt19937 random(14);
  t.step(random_batch(random));
  ASSERT_FALSE(t.trainer.state().empty());
  Draft other = training();
  other.metadata = {{"description", "another training"}};
  const Buffer file = pack(other);
  ASSERT_TRUE(t.model.open(file.bytes()).ok());
  EXPECT_TRUE(t.trainer.state().empty());
}

TEST(trainer, touches_no_memory_after_a_bind_that_failed) {
  Training t(training());
  std::mt19937 random(15);
  ASSERT_TRUE(t.accumulate(random_batch(random)).ok());
  ASSERT_EQ(t.trainer.bind(t.model, "nobody", reference_kernels(), t.blocks->memory).code, Code::kNoEntry);
  t.blocks.reset();  // a sanitizer sees what is written now
  t.trainer.discard();
  EXPECT_TRUE(t.trainer.state().empty());
}

// Each program uses a part of the calls memory; the arena is shared by all.
TEST(trainer, refuses_an_arena_over_the_calls_of_any_program) {
  const Buffer file = pack(training());
  Model model;
  ASSERT_TRUE(model.open(file.bytes()).ok());
  Sizes sizes;
  ASSERT_TRUE(Trainer::measure(model, "host", reference_kernels(), &sizes).ok());
  const auto calls = size_t(sizes.bytes[kCalls]), arena = size_t(sizes.bytes[kArena]);
  const Blocks blocks(sizes);
  Buffer both(calls + arena);
  for (size_t at = 0; at <= calls; at += kAlignment) {
    Memory memory = blocks.memory;
    memory.block[kCalls] = both.bytes().first(calls);
    memory.block[kArena] = both.bytes().subspan(at, arena);
    Trainer trainer;
    EXPECT_EQ(trainer.bind(model, "host", reference_kernels(), memory).code,
              at < calls ? Code::kMemoryOverlap : Code::kOk)
        << at;
  }
}

}  // namespace
}  // namespace nacre::test
