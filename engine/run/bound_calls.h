// The calls of a bound program, one after the other, with the words, scratch and workers that they need.
// Program::bind writes them to the caller's memory. For a static program they are constant tables in flash, written
// on a PC (static_program.h). run() is the same for both.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/kernel.h"

namespace nacre {

struct BoundCalls {
  const Call* first;                 // the next call follows the operands of this one
  const uint32_t* words;             // StepRecord::first_word counts from here
  std::span<std::byte> scratch;      // the most that a call needs, for worker 0; those of other workers follow
  const Workers* workers = nullptr;  // null: the caller's thread alone

  // Runs calls [begin, end) with `rows` rows (0: the compiled batch), except those whose guard is 0. If a call fails,
  // returns its code, writes its index, counted from `first`, to `at`, and runs no more.
  Code run(uint32_t begin, uint32_t end, uint32_t rows, uint32_t* at) const;
};

}  // namespace nacre
