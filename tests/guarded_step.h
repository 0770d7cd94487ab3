// Runs a step as one_step.h does, with each operand at the edge of a page without access: a kernel that reads or writes
// past that edge ends the process. Operands are packed in the layouts that the entry asks for, as bind packs them.
#pragma once

#include "tests/one_step.h"

namespace nacre::test {

// The end of an operand that is next to the page without access: its first byte, or its last one.
enum class Beside { kFront, kBack };

// Returns Code::kNoKernel if the entry does not accept the step. `in_place` is the input whose bytes output 0 takes,
// or -1. With `constant`, all inputs but the first are constants, which bind may prepare. The kernel may read `tail`
// bytes after each operand that is not a constant (Port::tail_bytes). `workers` must outlive the call.
Execution execute_guarded(const KernelEntry& entry, const std::vector<uint32_t>& words,
                          const std::vector<Array>& inputs, Beside beside, bool constant, int in_place = -1,
                          size_t tail = 0, const Workers* workers = nullptr);

}  // namespace nacre::test
