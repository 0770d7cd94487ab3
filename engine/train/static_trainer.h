// StaticTrainer: trains a static program (run/static_program.h) as Trainer trains a model file: a step is a
// transaction. The programs, their state and their arena are what `nacre firmware --train` wrote.
//
//   #include "kws.h"                                        // written by nacre firmware --train --name kws
//   StaticTrainer trainer(kws_training);
//   check(trainer.start());                              // or start, Checkpoint::load(trainer.table(), ..), restored
//   write trainer.input(0), ..; check(trainer.accumulate());   // any number of micro-batches
//   Trainer::Report report; check(trainer.commit(learning_rate, &report));
//
// A checkpoint is that of the model file: either form reads what the other saved. Not here: fewer rows than compiled,
// ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/run/self_test.h"
#include "engine/run/static_program.h"
#include "engine/train/checkpoint.h"
#include "engine/train/state_table.h"
#include "engine/train/trainer.h"

namespace nacre {

// Initial bytes of a part of the state; the rest begins with zeros.
struct StaticInitial {
  uint32_t offset, bytes;  // in the state block
  const void* data;
};

}  // namespace nacre

// Outside the namespace, because it is C's opaque nacre_static_training (nacre_c.h) too.
struct nacre_static_training {
  const nacre::StaticProgram* infer;
  const nacre::StaticProgram* gradients;  // null: `update` reads the data too (--update immediate)
  const nacre::StaticProgram* update;
  const nacre::StaticProgram* derive;  // null: nothing depends on the state
  std::span<std::byte> state, step;
  std::span<const nacre::StaticInitial> initial;
  std::span<const nacre::StateRow> rows;  // of the state, for checkpoints
  std::span<const uint8_t> uses;          // StateUse of each
  // Two numbers of `update` that its outputs do not tell; null where it has none: how many samples the loss counts
  // (float32 or int32), and the counters of the loss scale (3 uint32, the third not 0: it was at its floor).
  const void* samples;
  const void* floor;
  bool wide;  // its report is of float64
};

namespace nacre {

using StaticTraining = ::nacre_static_training;

class StaticTrainer {
 public:
  using Report = Trainer::Report;

  // `training` must outlive the StaticTrainer; one at a time uses its memory.
  explicit constexpr StaticTrainer(const StaticTraining& training) : training_(&training) {}

  // The state becomes the model's initial values. Before anything else, or to begin again.
  Code start();
  // The state was written from outside (Checkpoint::load): derives what depends on it.
  Code restored();

  // Inputs of a micro-batch of the compiled size: data, then labels; write all of them before every accumulate. They
  // share bytes with memory that a commit uses.
  uint32_t input_count() const { return uint32_t(feeding().inputs.size()) - (immediate() ? 1 : 0); }
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? feeding().inputs[i] : std::span<std::byte>();
  }
  // The network's outputs for it; valid until the next accumulate, commit or inference.
  uint32_t output_count() const { return immediate() ? 0 : uint32_t(feeding().outputs.size()); }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? feeding().outputs[i] : std::span<const std::byte>();
  }

  // Adds the gradients of a micro-batch. kIndex, a label out of range: everything accumulated since the last commit is
  // discarded. kNotBound: not started. kOneMicroBatch: immediate(), and one waits for its commit.
  Code accumulate();

  // One step with what was accumulated. kNothingAccumulated, kLearningRate (negative or not finite), kNotBound: nothing
  // happened. A step refused by the verdict is no error: report->applied says so. `report` may be null.
  Code commit(float learning_rate, Report* report);

  // Forgets what was accumulated.
  void discard();

  // Over the same state: may run between commits, and forgets no gradient. It writes where the inputs are: where
  // immediate(), not between accumulate and commit.
  const StaticProgram& infer() const { return *training_->infer; }

  // The whole state block and what checkpoints are told of it. Empty before start.
  std::span<std::byte> state() const { return started_ ? training_->state : std::span<std::byte>(); }
  StateTable table() const;
  bool immediate() const { return training_->gradients == nullptr; }

 private:
  const StaticProgram& feeding() const { return immediate() ? *training_->update : *training_->gradients; }
  Code derive() const { return training_->derive == nullptr ? Code::kOk : training_->derive->run(); }
  bool counts_nothing() const;
  void tell(Report* report);

  const StaticTraining* training_;
  uint32_t accumulated_ = 0;  // micro-batches since the last commit
  uint32_t refused_in_row_ = 0;
  bool started_ = false;
};

// Tests as self_test of a program does (run/self_test.h), over the constants of all; pairs are of `infer` before
// anything is learned. It leaves the state so: call it before a trainer starts or loads.
int self_test(const StaticTraining& training, GoldenPairs golden, void (*print)(const char* text));

}  // namespace nacre
