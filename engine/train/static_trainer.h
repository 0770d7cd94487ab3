// StaticTrainer: trains a static program (run/static_program.h) as Trainer trains a model file. A step is a
// transaction. `nacre firmware --train` writes the programs, their state and their arena.
//
// kws.h declares kws_training; `nacre firmware --train --name kws` writes it.
//
// Example:
//   StaticTrainer learner(kws_training);
//   NACRE_TRY_CODE(learner.start());
//   if (checkpoint.load(learner.table(), learner.state()).ok()) NACRE_TRY_CODE(learner.restored());
//   StaticTrainer::Report step;
//   while (next_batch(learner.input(0), learner.input(1))) {
//     NACRE_TRY_CODE(learner.accumulate());              // any number of micro-batches
//     NACRE_TRY_CODE(learner.commit(0.01f, &step));      // step.applied is false if the verdict refused it
//   }
//   NACRE_TRY(checkpoint.save(learner.table(), learner.state(), {}));
//
// Its checkpoints are those of the model file: Trainer reads what StaticTrainer saved, and the other way round. It
// trains the compiled number of rows, without ports, on one thread at a time. No call allocates.
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
  uint32_t offset, bytes;  // offset counts from the start of the state block
  const void* data;
};

}  // namespace nacre

// Outside the namespace, because nacre_c.h declares this struct as C's opaque nacre_static_training.
struct nacre_static_training {
  const nacre::StaticProgram* infer;      // the network's outputs
  const nacre::StaticProgram* gradients;  // null: `update` reads the data too (--update immediate)
  const nacre::StaticProgram* update;     // its last input is the learning rate
  const nacre::StaticProgram* derive;     // null: nothing depends on the state
  std::span<std::byte> state, step;       // the state block, which checkpoints save, and the step block
  std::span<const nacre::StaticInitial> initial;
  std::span<const nacre::StateRow> rows;  // rows of the state, for checkpoints
  std::span<const uint8_t> uses;          // StateUse of each
  // Two tensors of `update` whose numbers its outputs do not have; null: there is none. `samples`: how many samples
  // the loss counts, float32 or int32. `floor`: the counters of the loss scale, 3 uint32; the third is not 0 if the
  // loss scale was at its floor.
  const void* samples;
  const void* floor;
  bool wide;  // the report has float64 numbers, else float32
};

namespace nacre {

using StaticTraining = ::nacre_static_training;

class StaticTrainer {
 public:
  using Report = Trainer::Report;

  // `training` must outlive the StaticTrainer. Only one StaticTrainer at a time may use its memory.
  explicit constexpr StaticTrainer(const StaticTraining& training) : training_(&training) {}

  // Sets the state to the model's initial values. Call it before any other function, or to begin again. Sums, streams
  // and the count of refused steps begin at 0. Returns the code of `derive`.
  Code start();
  // Call it after writing the state (Checkpoint::load): derives the values that depend on the state. It discards what
  // was accumulated and zeros the streams, as start() does. Returns the code of `derive`.
  Code restored();

  // Inputs of a micro-batch of the compiled size: data, then labels; write all of them before every accumulate. They
  // share bytes with memory that a commit uses. An input or output that does not exist is empty.
  uint32_t input_count() const { return uint32_t(feeding().inputs.size()) - (immediate() ? 1 : 0); }
  std::span<std::byte> input(uint32_t i) const {
    return i < input_count() ? feeding().inputs[i] : std::span<std::byte>();
  }
  // The network's outputs for the micro-batch; valid until an input is written, or accumulate, commit or infer runs.
  uint32_t output_count() const { return immediate() ? 0 : uint32_t(feeding().outputs.size()); }
  std::span<const std::byte> output(uint32_t i) const {
    return i < output_count() ? feeding().outputs[i] : std::span<const std::byte>();
  }

  // Adds the gradients of a micro-batch. kIndex: a label is out of range, and everything accumulated since the last
  // commit is discarded. kNotBound: start() was not called. kOneMicroBatch: immediate(), and a micro-batch waits for
  // its commit.
  Code accumulate();

  // Makes one step with the accumulated gradients. kNothingAccumulated, kLearningRate (negative or not finite),
  // kNotBound: nothing happened. If the verdict refuses the step, commit succeeds and report->applied is false (see
  // Trainer::commit). `report` may be null; it is only written if `update` ran.
  Code commit(float learning_rate, Report* report);

  // Discards everything accumulated since the last commit. The state does not change.
  void discard();

  // The program `infer`, over the same state. It may run between commits and keeps the accumulated gradients. It
  // overwrites the inputs of the micro-batch: with immediate(), do not run it between accumulate and commit.
  const StaticProgram& infer() const { return *training_->infer; }

  // The whole state block, and its table for checkpoints. The block is empty before start.
  std::span<std::byte> state() const { return started_ ? training_->state : std::span<std::byte>(); }
  StateTable table() const;
  bool immediate() const { return training_->gradients == nullptr; }  // whether each commit takes one micro-batch

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

// Tests `infer` as self_test of a program does (run/self_test.h), and the constants of all programs. The pairs are
// those of `infer` with the initial values of the state. The test leaves the state at these values, so call it before
// a trainer starts or loads. Returns the number of differences: a `derive` that fails counts too, without a line.
int self_test(const StaticTraining& training, GoldenPairs golden, void (*print)(const char* text));

}  // namespace nacre
