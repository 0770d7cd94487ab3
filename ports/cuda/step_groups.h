// Steps that one launch runs: those of one kernel, each on its own operands.
//
//   adam(w0, ..)  count_step(..)  adam(w1, ..)     adam of w0 and w1, one launch; count_step, one launch
//
// A step joins an earlier one where it may run that early: nothing in between writes what it reads or writes, or reads
// what it writes. So an optimizer, a cast or a quantizer runs once for all parameters, and results are the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// Bytes of the device that a step reads or writes.
struct Touched {
  const std::byte *first, *end;
  bool writes;
};

struct GroupedStep {
  uint32_t kernel;
  bool joins;  // it may share a launch: its kernel has a form for many, and it uses no scratch
  std::vector<Touched> touched;
};

// `image`: of the step, with its operands behind it.
std::vector<Touched> touched_by(const KernelEntry& entry, const StepHead& image);

// Steps by launch, in the order of the launches. In each the steps are in their own order, and all of one kernel.
std::vector<std::vector<size_t>> groups_of(std::span<const GroupedStep> steps);

}  // namespace nacre::cuda
