// Runs a step on the test's own vectors, for kernels with operands that are read and written, as bind and run do but
// without copies. A vector ends where its operand does, so that a sanitizer sees accesses beyond.
//
//   Step step(reference::kSgdF32, {bits(0), bits(0)});
//   step.operand(gradient, {4}).operand(report, {4}).operand(rate, {1}).operand(parameter, {4});
//   EXPECT_EQ(step.run(), Code::kOk);
#pragma once

#include <bit>
#include <vector>

#include "engine/kernels/adapter.h"
#include "engine/kernels/kernel.h"
#include "engine/run/find_entry.h"
#include "tests/cases_random.h"
#include "tools/graph/bound_step.h"

namespace nacre::test {

class Step {
 public:
  explicit Step(const KernelEntry* entry, std::vector<uint32_t> words = {}) : entry_(entry), words_(std::move(words)) {}

  template <class T>
  Step& operand(std::vector<T>& values, std::vector<int32_t> dims, bool batched = false) {
    TensorRecord& record = records_.emplace_back();
    record.element = Element<T>::kType;
    record.rank = uint8_t(dims.size());
    std::copy(dims.begin(), dims.end(), record.dims);
    record.flags = batched ? kBatched : 0;
    data_.push_back(values.data());
    sizes_.push_back(values.size());
    return *this;
  }

  // Returns kNoKernel if the operands do not fit the entry, and kShapeOutput if the rule gives other outputs than the
  // test. Else returns the code of the shape rule or the kernel.
  Code run(int rows = 0) const {
    const auto count = int(records_.size());
    if (count != int(entry_->operand_count)) return Code::kNoKernel;
    std::vector<Tensor> tensors;
    for (int i = 0; i < count; ++i) {
      if (records_[size_t(i)].element != entry_->operands[i].element) return Code::kNoKernel;
      tensors.push_back({data_[size_t(i)], &records_[size_t(i)]});
    }
    const Words words = {words_.data(), int(words_.size())};
    const Operands all = {tensors.data(), count, rows};
    if (const Code code = check_shapes(*entry_, words, all); code != Code::kOk) return code;
    for (int i = 0; i < count; ++i)
      if (size_t(all[i].elements()) > sizes_[size_t(i)]) return Code::kBounds;
    tools::BoundStep step(*entry_, words, tensors);
    const Code prepared = step.prepare();
    return prepared == Code::kOk ? step.run(rows) : prepared;
  }

 private:
  const KernelEntry* entry_;
  std::vector<uint32_t> words_;
  std::vector<TensorRecord> records_;
  std::vector<void*> data_;
  std::vector<size_t> sizes_;
};

}  // namespace nacre::test
