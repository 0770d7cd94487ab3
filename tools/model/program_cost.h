// Computes the costs of a program, counts and bytes, for summaries and reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/ops/op.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct BankUse {
  std::string name;
  uint64_t bytes;
};

struct Statistics {
  uint32_t layers = 0, steps = 0, tensors = 0, batch = 1;
  uint64_t multiply_accumulates = 0;  // of a run of the compiled batch, in products, convolutions and recurrent steps
  uint64_t weight_bytes = 0;          // of all segments: what flash holds besides the program
  uint64_t file_bytes = 0;
  uint64_t arena_bytes = 0;     // sum over banks
  uint64_t liveness_bound = 0;  // no memory plan needs fewer bytes
  std::vector<BankUse> banks;
};

// Returns the multiply-accumulates of a step whose rule is Numerics::kMatmul, 0 for any other. Every element of a dense
// or convolution step's y sums (elements of w / channels of y) products:
//   w [out, ...] or, depthwise, [kernel_h, kernel_w, out];   y [..., out];   out: the channels of y
uint64_t multiply_accumulates(const Model& model, const StepRecord& step);

// The work of a step, from which its roof is computed (tools/model/roof.h). `compute` is the type of its first
// operand. A multiply-accumulate counts as two operations. `bytes` counts all operands, each once.
struct StepWork {
  ElementType compute;
  double operations = 0, bytes = 0;
};
StepWork step_work(const Model& model, const StepRecord& step);

Statistics statistics(const LoadedModel& model, uint32_t program);

}  // namespace nacre::tools
