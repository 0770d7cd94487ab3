// BoundStep is one step, bound as Program::bind binds the steps of a model (engine/run/bound_step.h). It owns the
// memory of the call, of the kernel's prepared data, and of its scratch. evaluate(), tests and benchmarks use BoundStep
// to run one kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

class BoundStep {
 public:
  // `tensors` are in slot order. The words, the workers, and the tensors' records and data must outlive the step.
  BoundStep(const KernelEntry& entry, Words words, std::span<const Tensor> tensors, const Workers* workers = nullptr);
  BoundStep(const BoundStep&) = delete;
  BoundStep& operator=(const BoundStep&) = delete;

  Code prepare();  // once, before the first run
  Code run(int rows = 0);
  uint64_t work() const;  // multiply-accumulates of one run
  bool overran() const;   // whether the kernel wrote past the memory that it asked for

 private:
  Call& call() { return *reinterpret_cast<Call*>(block_.data()); }
  Args args(int rows);

  const KernelEntry& entry_;
  Words words_;
  const Workers* workers_;
  size_t scratch_bytes_;  // for one worker
  StepRecord step_ = {};
  std::vector<std::max_align_t> block_;        // the call, then its operands
  std::vector<std::byte> scratch_, prepared_;  // each ends with guard bytes, which show writes past the end
  Operands operands_;                          // the operands in block_
};

}  // namespace nacre::tools
