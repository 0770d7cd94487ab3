// The calls of a bound program, one behind the other, and what they run with: in the caller's memory, written by
// Program::bind, or constant tables in flash, written on a PC (static_program.h). run cannot tell them apart.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/kernel.h"

namespace nacre {

struct BoundCalls {
  const Call* first;
  const uint32_t* words;  // StepRecord::first_word counts from here
  std::span<std::byte> scratch;
  const Workers* workers = nullptr;

  // Calls [begin, end), of `rows` rows (0: the compiled batch); `at`: the call that failed.
  Code run(uint32_t begin, uint32_t end, uint32_t rows, uint32_t* at) const;
};

}  // namespace nacre
