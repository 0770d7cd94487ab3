// Fine-tuning in place, for a firmware and for the PC that checks it: the loop over data, checkpoints and the count of right
// answers, over three functions that the machine provides.
//
//   data       micro-batches one after the other, each the bytes of all inputs of the program `gradients` (data, then labels)
//   test       samples one after the other, each the bytes of input 0 of `infer` and an int32 label
//   note       of a checkpoint: how many micro-batches it has seen
#pragma once

#include <cstring>

#include "engine/nacre.h"

namespace nacre::firmware {

struct FineTune {
  // Fills `bytes` from byte `offset` of the data (or test) set; false where it ends before.
  bool (*read_data)(uint64_t offset, std::span<std::byte> bytes);
  bool (*read_test)(uint64_t offset, std::span<std::byte> bytes);
  void (*committed)(uint32_t step, const Trainer::Report& report);

  Trainer* trainer;
  Storage storage;
  float learning_rate;
  uint32_t epochs, save_every;  // micro-batches between two checkpoints; 0: none are kept

  uint32_t seen = 0;  // micro-batches
  uint32_t refused = 0;
  float loss = 0;     // of the last step

  uint64_t micro_batch_bytes() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < trainer->input_count(); ++i) bytes += trainer->input(i).size();
    return bytes;
  }

  // Begins where the newest checkpoint stands, or at the start.
  Status resume(const Model& model) {
    TRY(trainer->start());
    Checkpoint checkpoint(storage);
    uint32_t place = 0;
    Checkpoint::Report report;
    const Status status =
        checkpoint.load(model, trainer->state(), &report, {reinterpret_cast<std::byte*>(&place), sizeof place});
    if (status.code == Code::kNoCheckpoint) return {};
    TRY(status);
    seen = place;
    return trainer->restored();
  }

  Status train(const Model& model) {
    const uint64_t bytes = micro_batch_bytes();
    uint32_t per_epoch = 0;
    while (read_data(per_epoch * bytes, trainer->input(0))) ++per_epoch;
    for (; per_epoch > 0 && seen < epochs * per_epoch;) {
      uint64_t offset = seen % per_epoch * bytes;
      for (uint32_t i = 0; i < trainer->input_count(); offset += trainer->input(i).size(), ++i)
        if (!read_data(offset, trainer->input(i))) return {Code::kRange, Table::kProgram, i};
      TRY(trainer->accumulate());
      Trainer::Report report;
      TRY(trainer->commit(learning_rate, &report));
      ++seen;
      refused += report.applied ? 0 : 1;
      loss = report.loss;
      if (committed != nullptr) committed(seen, report);
      if (save_every != 0 && (seen % save_every == 0 || seen == epochs * per_epoch)) TRY(save(model));
    }
    return {};
  }

  Status save(const Model& model) {
    Checkpoint checkpoint(storage);
    const auto* place = reinterpret_cast<const std::byte*>(&seen);
    return checkpoint.save(model, trainer->state(), {.pending = false, .note = {place, sizeof seen}});
  }

  // Samples of the test set, and how many `infer` gives the highest score to their label.
  Status evaluate(uint32_t* right, uint32_t* samples) const {
    const Program& infer = trainer->infer();
    const std::span<std::byte> x = infer.input(0);
    const std::span<const std::byte> y = infer.output(0);
    const size_t rows = infer.view().batch, row = x.size() / rows, classes = y.size() / rows / sizeof(float);
    int32_t label = 0;
    *right = *samples = 0;
    for (uint64_t offset = 0; read_test(offset, x.first(row)); offset += row + sizeof label) {
      if (!read_test(offset + row, {reinterpret_cast<std::byte*>(&label), sizeof label})) break;
      TRY(infer.run_rows(1));
      size_t best = 0;
      for (size_t i = 1; i < classes; ++i) best = score(y, i) > score(y, best) ? i : best;
      *right += int32_t(best) == label ? 1 : 0;
      ++*samples;
    }
    return {};
  }

  static float score(std::span<const std::byte> y, size_t i) {
    float value;
    std::memcpy(&value, y.data() + i * sizeof value, sizeof value);
    return value;
  }
};

}  // namespace nacre::firmware
