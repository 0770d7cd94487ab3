// Costs of a program: counts and bytes for summaries and reports.
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
  uint64_t multiply_accumulates = 0;  // of one run of the compiled batch, matmul-like steps only
  uint64_t weight_bytes = 0;          // of all segments: what flash holds beside the program
  uint64_t file_bytes = 0;
  uint64_t arena_bytes = 0;     // sum over banks
  uint64_t liveness_bound = 0;  // no plan can do with fewer
  std::vector<BankUse> banks;
};

// Multiply-accumulates of a dense or convolution step, 0 of any other. Every element of y sums (elements of w /
// channels of y) products:
//   w [out, ...] or, depthwise, [kernel_h, kernel_w, out];   y [..., out]
uint64_t multiply_accumulates(const Model& model, const StepRecord& step);

// Work of a step, which its roof is made of (tools/model/roof.h): the type that it computes in, that of its first
// operand; two operations for a multiply-accumulate; and the bytes of all operands, each once.
struct StepWork {
  ElementType compute;
  double operations = 0, bytes = 0;
};
StepWork step_work(const Model& model, const StepRecord& step);

Statistics statistics(const LoadedModel& model, uint32_t program);

}  // namespace nacre::tools
