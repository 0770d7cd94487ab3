// Groups steps into launches. A launch runs steps of one kernel, each on its own operands.
//
//   adam(w0, ..)  count_step(..)  adam(w1, ..)     adam of w0 and w1, one launch; count_step, one launch
//
// A step joins an earlier launch if it may run that early: no step in between writes what it reads or writes, or
// reads what it writes. So an optimizer, a cast or a quantizer runs once for all parameters, and the results are the
// same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// A range of device bytes that a step reads or writes.
struct Touched {
  const std::byte *first, *end;
  bool writes;
};

struct GroupedStep {
  uint32_t kernel;
  bool joins;  // whether the step may share a launch: its kernel has a form for many steps and uses no scratch
  std::vector<Touched> touched;
};

// `image` is the step's image, with its operands after it.
std::vector<Touched> touched_by(const KernelEntry& entry, const StepHead& image);

// Returns the steps of each launch, in the order of the launches. The steps of a launch keep their order and have one
// kernel.
std::vector<std::vector<size_t>> groups_of(std::span<const GroupedStep> steps);

}  // namespace nacre::cuda
