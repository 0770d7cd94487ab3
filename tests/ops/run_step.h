// A training step by hand: operands of any role over arrays of the test, which an update changes in place.
#pragma once

#include <cstring>
#include <vector>

#include "engine/kernels/kernel.h"
#include "engine/numeric/element.h"
#include "engine/numeric/small_float.h"

namespace nacre::test {

class StepOperands {
 public:
  template <class T>
  StepOperands& add(std::vector<int32_t> dims, std::vector<T>& values) {
    TensorRecord& record = records_[count_];
    record = {};
    record.element = Element<T>::kType;
    record.rank = uint8_t(dims.size());
    std::copy(dims.begin(), dims.end(), record.dims);
    tensors_[count_] = {values.data(), &record};
    ++count_;
    return *this;
  }
  StepOperands& absent() {
    tensors_[count_++] = {nullptr, nullptr};
    return *this;
  }

  const Tensor* tensors() const { return tensors_; }
  int count() const { return count_; }

 private:
  TensorRecord records_[8];
  Tensor tensors_[8];
  int count_ = 0;
};

// The shape rule's answer for the inputs, and if that is kOk the kernel's. `operands`: outputs last, allocated.
inline Code run_step(const KernelEntry& entry, const std::vector<uint32_t>& words, const StepOperands& operands) {
  const Words view = {words.data(), int(words.size())};
  int inputs = operands.count();
  while (inputs > 0 && (entry.operands[inputs - 1].role & 3) == uint8_t(Role::kOut)) --inputs;
  Dims outputs[4] = {};
  const Code code = entry.shapes(view, {operands.tensors(), inputs, 0}, outputs);
  if (code != Code::kOk) return code;
  for (int i = inputs; i < operands.count(); ++i) {
    const TensorRecord& y = *operands.tensors()[i].record;
    if (y.rank != outputs[i - inputs].rank ||
        std::memcmp(y.dims, outputs[i - inputs].size, size_t(y.rank) * sizeof(int32_t)) != 0)
      return Code::kShapeOutput;
  }
  for (int i = 0; i < operands.count(); ++i) {
    const TensorRecord* record = operands.tensors()[i].record;
    if (record == nullptr ? (entry.operands[i].role & kOptional) == 0 : record->element != entry.operands[i].element)
      return Code::kOperandType;
  }
  StepRecord step = {};
  step.op = entry.op;
  step.operand_count = uint8_t(operands.count());
  alignas(16) uint8_t call[sizeof(Call) + 8 * sizeof(Tensor)];
  const Call head = {entry.run, &step, nullptr};
  std::memcpy(call, &head, sizeof head);
  std::memcpy(call + sizeof head, operands.tensors(), size_t(operands.count()) * sizeof(Tensor));
  return entry.run(
      {.call = *reinterpret_cast<const Call*>(call), .words = view, .rows = 0, .scratch = {}, .workers = nullptr});
}

}  // namespace nacre::test
