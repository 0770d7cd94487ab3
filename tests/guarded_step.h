// A step by hand, as one_step.h, with each operand alone between pages that nobody may touch: a kernel that reads or
// writes outside ends the process. Operands are packed in the layouts that the entry asks for, as bind packs them.
#pragma once

#include "tests/one_step.h"

namespace nacre::test {

// The end of an operand that lies beside the page that nobody may touch: its first byte, or its last one.
enum class Beside { kFront, kBack };

// Code::kNoKernel where the entry does not accept the step. `in_place`: the input whose bytes output 0 takes, or -1.
// `constant`: inputs but the first are constants, from which bind may prepare. `tail`: bytes that the kernel may read
// behind what is no constant (Port::tail_bytes). `workers` must outlive the call.
Execution execute_guarded(const KernelEntry& entry, const std::vector<uint32_t>& words,
                          const std::vector<Array>& inputs, Beside beside, bool constant, int in_place = -1,
                          size_t tail = 0, const Workers* workers = nullptr);

}  // namespace nacre::test
