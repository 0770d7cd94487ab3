// Fine-tunes in place, in firmwares and on the PC that checks them. It holds the loop over data, the checkpoints, and
// the count of right answers. It needs three functions that the machine provides, and a learner: of a model file
// (file_learner.h), or of static programs (static_finetune.cc).
//
//   data       micro-batches one after the other. Each is the bytes of all inputs of the program `gradients`: data,
//              then labels
//   test       samples one after the other. Each is the bytes of input 0 of `infer` and an int32 label. With a batch
//              of 1, data has the same form
//   note       of a checkpoint: the number of micro-batches that the training has seen
#pragma once

#include <cstring>

#include "engine/nacre.h"
#include "engine/numeric/float_bits.h"

namespace nacre::firmware {

// Returns n 10^-6 without a float instruction: a model that trains codes brings none into the image.
inline float rate_of_millionths(uint32_t n) {
  return std::bit_cast<float>(float_of_scaled(divided(scaled_of_integer(n), 1000000)));
}

// A learner has Trainer's start, restored, input_count, input, accumulate, commit and state, a checkpoint's table(),
// and these functions of the network that it trains:
//
//   std::span<std::byte> sample()            the memory for a sample
//   Status infer(uint32_t* frozen_crc)       runs it, and continues the CRC-32C over the results of frozen layers
//   std::span<const std::byte> scores()      the scores of the classes
//   bool codes()                             whether the scores are int8; else they are float32
template <class Learner>
struct FineTune {
  // Fills `bytes` from byte `offset` of the data (or test) set. Returns false if the set ends before.
  bool (*read_data)(uint64_t offset, std::span<std::byte> bytes);
  bool (*read_test)(uint64_t offset, std::span<std::byte> bytes);
  void (*committed)(uint32_t step, const Trainer::Report& report);

  Learner* learner;
  Storage storage;
  float learning_rate;
  uint32_t epochs, micro_batches;  // micro-batches of a step
  uint32_t save_every;             // steps between two checkpoints; 0 means no checkpoints

  uint32_t seen = 0, steps = 0;  // micro-batches and steps so far
  uint32_t refused = 0;
  float loss = 0;  // of the last step

  uint64_t micro_batch_bytes() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < learner->input_count(); ++i) bytes += learner->input(i).size();
    return bytes;
  }

  // Continues from the newest checkpoint, or begins at the start.
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
    uint32_t right = 0, samples = 0;  // right: `infer` gives the label the highest score
    uint32_t frozen_crc = 0;          // CRC-32C of the frozen layers' results, sample after sample
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

  // Returns a number with the order of the scores. float32 scores give their bits, whose magnitudes have the same
  // order.
  static int32_t score(std::span<const std::byte> y, bool codes, size_t i) {
    if (codes) return int8_t(y[i]);
    int32_t bits;
    std::memcpy(&bits, y.data() + i * sizeof bits, sizeof bits);
    return bits < 0 ? -(bits & INT32_MAX) : bits;
  }
};

}  // namespace nacre::firmware
