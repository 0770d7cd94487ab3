// Makes a Trainer of a model file the learner of FineTune (finetune.h).
#pragma once

#include "engine/base/crc32c.h"
#include "engine/nacre.h"

namespace nacre::firmware {

class FileLearner {
 public:
  // Call it when `trainer` is bound to `model`. Both must outlive this object.
  void take(Trainer& trainer, const Model& model) {
    trainer_ = &trainer, model_ = &model;
    if (trainer.infer().bound()) find_frozen();
  }

  Status start() { return trainer_->start(); }
  Status restored() { return trainer_->restored(); }
  uint32_t input_count() const { return trainer_->input_count(); }
  std::span<std::byte> input(uint32_t i) const { return trainer_->input(i); }
  Status accumulate() { return trainer_->accumulate(); }
  Status commit(float learning_rate, Trainer::Report* report) { return trainer_->commit(learning_rate, report); }
  std::span<std::byte> state() const { return trainer_->state(); }
  StateTable table() const { return state_table(*model_); }

  std::span<std::byte> sample() const { return infer().input(0).first(infer().input(0).size() / infer().view().batch); }
  Status infer(uint32_t* frozen_crc) const {
    NACRE_TRY(infer().run(0, frozen_steps_, 1));
    if (frozen_steps_ != 0) {
      const std::span<const std::byte> codes = infer().bytes(frozen_tensor_);
      *frozen_crc = crc32c(codes.first(codes.size() / infer().view().batch), *frozen_crc);
    }
    return infer().run(frozen_steps_, infer().view().step_count, 1);
  }
  std::span<const std::byte> scores() const {
    return infer().output(0).first(infer().output(0).size() / infer().view().batch);
  }
  bool codes() const { return model_->tensors()[infer().view().outputs[0]].element == ElementType::kInt8; }

 private:
  const Program& infer() const { return trainer_->infer(); }

  // Finds the frozen steps: the first steps of a program, none of which uses state (trained values), up to the last
  // that gives int8 codes. These results are integers, so they are equal on every machine.
  void find_frozen() {
    frozen_steps_ = 0;
    const ProgramView& program = infer().view();
    for (uint32_t i = 0; i < program.step_count; ++i) {
      const StepRecord& step = model_->steps()[program.first_step + i];
      for (uint32_t k = 0; k < step.operand_count; ++k) {
        const uint32_t id = model_->operands(step)[k] & kOperandIdMask;
        if (id == kNoOperand) continue;
        const TensorRecord& r = model_->tensors()[id];
        if (r.region == Region::kState) return;
        const bool written = Role(model_->operands(step)[k] >> 30) == Role::kOut;
        if (written && r.element == ElementType::kInt8) frozen_steps_ = i + 1, frozen_tensor_ = id;
      }
    }
  }

  Trainer* trainer_ = nullptr;
  const Model* model_ = nullptr;
  uint32_t frozen_steps_ = 0, frozen_tensor_ = kNoIndex;
};

}  // namespace nacre::firmware
