// One step bound as Program::bind binds the steps of a model (engine/run/bound_step.h), with memory of its own for the
// call, for what its kernel prepares and for its scratch. For constant folding, tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"

namespace nacre::tools {

class BoundStep {
 public:
  // `tensors` in slot order. The words, the data and records of the tensors, and the workers must outlive the step.
  BoundStep(const KernelEntry& entry, Words words, std::span<const Tensor> tensors, const Workers* workers = nullptr);
  BoundStep(const BoundStep&) = delete;
  BoundStep& operator=(const BoundStep&) = delete;

  Code prepare();  // once, before the first run
  Code run(int rows = 0);
  uint64_t work() const;  // multiply-accumulates of a run
  bool overran() const;   // whether the kernel wrote behind the memory that it asked for

 private:
  Call& call() { return *reinterpret_cast<Call*>(block_.data()); }
  Args args(int rows);

  const KernelEntry& entry_;
  Words words_;
  const Workers* workers_;
  size_t scratch_bytes_;  // of a worker
  StepRecord step_ = {};
  std::vector<std::max_align_t> block_;        // the call, then its operands
  std::vector<std::byte> scratch_, prepared_;  // guard bytes behind each
  Operands operands_;                          // those in block_
};

}  // namespace nacre::tools
