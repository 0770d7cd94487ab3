// Runs a training step by hand. Operands of any role are arrays of the test, which an update changes in place.
#pragma once

#include <cstring>
#include <vector>

#include "engine/kernels/kernel.h"
#include "engine/numeric/element.h"
#include "engine/numeric/small_float.h"
#include "engine/run/find_entry.h"
#include "tools/graph/bound_step.h"

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

// Returns the shape rule's code if it is not kOk, kOperandType if an operand's type is wrong, else the kernel's code.
// The outputs come last in `operands`, and are allocated.
inline Code run_step(const KernelEntry& entry, const std::vector<uint32_t>& words, const StepOperands& operands) {
  const Words view = {words.data(), int(words.size())};
  const Code code = check_shapes(entry, view, {operands.tensors(), operands.count(), 0});
  if (code != Code::kOk) return code;
  for (int i = 0; i < operands.count(); ++i) {
    const TensorRecord* record = operands.tensors()[i].record;
    if (record == nullptr ? (entry.operands[i].role & kOptional) == 0 : record->element != entry.operands[i].element)
      return Code::kOperandType;
  }
  tools::BoundStep step(entry, view, {operands.tensors(), size_t(operands.count())});
  const Code prepared = step.prepare();
  return prepared == Code::kOk ? step.run() : prepared;
}

}  // namespace nacre::test
