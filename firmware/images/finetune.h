// Fine-tuning in place, for firmwares and for the PC that checks them: the loop over data, checkpoints and the count of
// right answers, over three functions that the machine provides and a learner: of a model file (file_learner.h), or of
// static programs (static_finetune.cc).
//
//   data       micro-batches one after the other, each the bytes of all inputs of the program `gradients` (data, then
//              labels)
//   test       samples one after the other, each the bytes of input 0 of `infer` and an int32 label; so is data of a
//              batch of 1
//   note       of a checkpoint: how many micro-batches it has seen
#pragma once

#include <cstring>

#include "engine/nacre.h"
#include "engine/numeric/float_bits.h"

namespace nacre::firmware {

// n 10^-6, without a float instruction: a model that trains codes brings none into the image.
inline float rate_of_millionths(uint32_t n) {
  return std::bit_cast<float>(float_of_scaled(divided(scaled_of_integer(n), 1000000)));
}

// A learner has Trainer's start, restored, input_count, input, accumulate, commit and state; a checkpoint's table();
// and these functions of the network that it trains:
//
//   std::span<std::byte> sample()            where a sample goes
//   Status infer(uint32_t* frozen_crc)       the CRC-32C goes on over what frozen layers gave for it
//   std::span<const std::byte> scores()      of the classes
//   bool codes()                             whether they are int8, or float32
template <class Learner>
struct FineTune {
  // Fills `bytes` from byte `offset` of the data (or test) set; false where it ends before.
  bool (*read_data)(uint64_t offset, std::span<std::byte> bytes);
  bool (*read_test)(uint64_t offset, std::span<std::byte> bytes);
  void (*committed)(uint32_t step, const Trainer::Report& report);

  Learner* learner;
  Storage storage;
  float learning_rate;
  uint32_t epochs, micro_batches;  // of a step
  uint32_t save_every;             // steps between two checkpoints; 0: none are kept

  uint32_t seen = 0, steps = 0;  // micro-batches, steps
  uint32_t refused = 0;
  float loss = 0;  // of the last step

  uint64_t micro_batch_bytes() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < learner->input_count(); ++i) bytes += learner->input(i).size();
    return bytes;
  }

  // Begins where the newest checkpoint stands, or at the start.
  Status resume() {
    NACRE_TRY(learner->start());
    Checkpoint checkpoint(storage);
    uint32_t place = 0;
    Checkpoint::Report report;
    const Status status = checkpoint.load(learner->table(), learner->state(), &report,
                                          {reinterpret_cast<std::byte*>(&place), sizeof place});
    if (status.code == Code::kNoCheckpoint) return {};
    NACRE_TRY(status);
    seen = place;
    steps = (seen + micro_batches - 1) / micro_batches;
    return learner->restored();
  }

  Status train() {
    const uint64_t bytes = micro_batch_bytes();
    uint32_t per_epoch = 0;
    while (read_data(per_epoch * bytes, learner->input(0))) ++per_epoch;
    for (const uint32_t all = epochs * per_epoch; seen < all;) {
      for (uint32_t i = 0; i < micro_batches && seen < all; ++i, ++seen)
        NACRE_TRY(accumulate(seen % per_epoch * bytes));
      Trainer::Report report;
      NACRE_TRY(learner->commit(learning_rate, &report));
      ++steps;
      refused += report.applied ? 0 : 1;
      loss = report.loss;
      if (committed != nullptr) committed(steps, report);
      if (save_every != 0 && (steps % save_every == 0 || seen == all)) NACRE_TRY(save());
    }
    return {};
  }

  Status accumulate(uint64_t offset) {
    for (uint32_t i = 0; i < learner->input_count(); offset += learner->input(i).size(), ++i)
      if (!read_data(offset, learner->input(i))) return {Code::kRange, Table::kProgram, i};
    return learner->accumulate();
  }

  Status save() {
    Checkpoint checkpoint(storage);
    const auto* place = reinterpret_cast<const std::byte*>(&seen);
    return checkpoint.save(learner->table(), learner->state(), {.pending = false, .note = {place, sizeof seen}});
  }

  struct Evaluation {
    uint32_t right = 0, samples = 0;  // right: `infer` gives the highest score to the label
    uint32_t frozen_crc = 0;          // CRC-32C of what the frozen layers gave, sample after sample
  };

  Status evaluate(bool (*read)(uint64_t, std::span<std::byte>), Evaluation* found) const {
    const std::span<std::byte> x = learner->sample();
    *found = {};
    for (uint64_t offset = 0; read(offset, x); offset += x.size() + sizeof(int32_t)) {
      int32_t label = 0;
      if (!read(offset + x.size(), {reinterpret_cast<std::byte*>(&label), sizeof label})) break;
      NACRE_TRY(learner->infer(&found->frozen_crc));
      found->right += int32_t(best()) == label ? 1 : 0;
      ++found->samples;
    }
    return {};
  }

 private:
  size_t best() const {
    const std::span<const std::byte> y = learner->scores();
    const bool codes = learner->codes();
    const size_t classes = y.size() / (codes ? 1 : sizeof(float));
    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) best = score(y, codes, i) > score(y, codes, best) ? i : best;
    return best;
  }

  // In the order of the scores: of float32 by their bits, whose magnitudes are ordered as they are.
  static int32_t score(std::span<const std::byte> y, bool codes, size_t i) {
    if (codes) return int8_t(y[i]);
    int32_t bits;
    std::memcpy(&bits, y.data() + i * sizeof bits, sizeof bits);
    return bits < 0 ? -(bits & INT32_MAX) : bits;
  }
};

}  // namespace nacre::firmware
