// Fine-tuning in place, for a firmware and for the PC that checks it: the loop over data, checkpoints and the count of
// right answers, over three functions that the machine provides.
//
//   data       micro-batches one after the other, each the bytes of all inputs of the program `gradients` (data, then
//              labels)
//   test       samples one after the other, each the bytes of input 0 of `infer` and an int32 label; so is data of a
//              batch of 1
//   note       of a checkpoint: how many micro-batches it has seen
#pragma once

#include <cstring>

#include "engine/base/crc32c.h"
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
  uint32_t epochs, micro_batches;  // of a step
  uint32_t save_every;             // steps between two checkpoints; 0: none are kept

  uint32_t seen = 0, steps = 0;  // micro-batches, steps
  uint32_t refused = 0;
  float loss = 0;  // of the last step

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
    steps = (seen + micro_batches - 1) / micro_batches;
    return trainer->restored();
  }

  Status train(const Model& model) {
    const uint64_t bytes = micro_batch_bytes();
    uint32_t per_epoch = 0;
    while (read_data(per_epoch * bytes, trainer->input(0))) ++per_epoch;
    for (const uint32_t all = epochs * per_epoch; seen < all;) {
      for (uint32_t i = 0; i < micro_batches && seen < all; ++i, ++seen) TRY(accumulate(seen % per_epoch * bytes));
      Trainer::Report report;
      TRY(trainer->commit(learning_rate, &report));
      ++steps;
      refused += report.applied ? 0 : 1;
      loss = report.loss;
      if (committed != nullptr) committed(steps, report);
      if (save_every != 0 && (steps % save_every == 0 || seen == all)) TRY(save(model));
    }
    return {};
  }

  Status accumulate(uint64_t offset) {
    for (uint32_t i = 0; i < trainer->input_count(); offset += trainer->input(i).size(), ++i)
      if (!read_data(offset, trainer->input(i))) return {Code::kRange, Table::kProgram, i};
    return trainer->accumulate();
  }

  Status save(const Model& model) {
    Checkpoint checkpoint(storage);
    const auto* place = reinterpret_cast<const std::byte*>(&seen);
    return checkpoint.save(model, trainer->state(), {.pending = false, .note = {place, sizeof seen}});
  }

  struct Evaluation {
    uint32_t right = 0, samples = 0;  // right: `infer` gives the highest score to the label
    uint32_t frozen_crc = 0;          // CRC-32C of what the frozen layers gave, sample after sample
  };

  Status evaluate(const Model& model, bool (*read)(uint64_t, std::span<std::byte>), Evaluation* found) const {
    const Program& infer = trainer->infer();
    const Frozen frozen = frozen_part(model, infer.view());
    const std::span<std::byte> x = infer.input(0);
    const size_t rows = infer.view().batch, row = x.size() / rows;
    *found = {};
    for (uint64_t offset = 0; read(offset, x.first(row)); offset += row + sizeof(int32_t)) {
      int32_t label = 0;
      if (!read(offset + row, {reinterpret_cast<std::byte*>(&label), sizeof label})) break;
      TRY(infer.run(0, frozen.steps, 1));
      if (frozen.steps != 0) {
        const std::span<const std::byte> codes = infer.bytes(frozen.tensor);
        found->frozen_crc = crc32c(codes.first(codes.size() / rows), found->frozen_crc);
      }
      TRY(infer.run(frozen.steps, infer.view().step_count, 1));
      found->right += int32_t(best(model)) == label ? 1 : 0;
      ++found->samples;
    }
    return {};
  }

 private:
  // The first steps of a program, none of which reads what is trained, up to the last that gives codes of int8:
  // `tensor`. Their results are integers, so they are equal on every machine.
  struct Frozen {
    uint32_t steps = 0, tensor = kNoIndex;
  };
  static Frozen frozen_part(const Model& model, const ProgramView& program) {
    Frozen found;
    for (uint32_t i = 0; i < program.step_count; ++i) {
      const StepRecord& step = model.steps()[program.first_step + i];
      for (uint32_t k = 0; k < step.operand_count; ++k) {
        const uint32_t id = model.operands(step)[k] & kOperandIdMask;
        if (id == kNoOperand) continue;
        const TensorRecord& r = model.tensors()[id];
        if (r.region == Region::kState) return found;
        const bool written = Role(model.operands(step)[k] >> 30) == Role::kOut;
        if (written && r.element == ElementType::kInt8) found = {.steps = i + 1, .tensor = id};
      }
    }
    return found;
  }

  size_t best(const Model& model) const {
    const Program& infer = trainer->infer();
    const std::span<const std::byte> y = infer.output(0);
    const bool codes = model.tensors()[infer.view().outputs[0]].element == ElementType::kInt8;
    const size_t classes = y.size() / infer.view().batch / (codes ? 1 : sizeof(float));
    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) best = score(y, codes, i) > score(y, codes, best) ? i : best;
    return best;
  }

  static float score(std::span<const std::byte> y, bool codes, size_t i) {
    if (codes) return float(int8_t(y[i]));
    float value;
    std::memcpy(&value, y.data() + i * sizeof value, sizeof value);
    return value;
  }
};

}  // namespace nacre::firmware
