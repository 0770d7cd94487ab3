// Exercise: everything a host may do with untrusted bytes, under its own limits: open, read every name, ask the
// C API all it tells, check the weights, measure, bind and run every program, with inputs at zero, at the ends of their
// types and of random bits. Used by the sweep and the fuzzer: memory is given in exact-size heap blocks, so that under
// ASan an access outside them is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"

namespace nacre::test {

struct Caps {
  uint64_t memory_bytes = 4 << 20;  // of all blocks of a program
  uint64_t work = 4'000'000;        // multiply-accumulates of a run
};

enum class Outcome : uint8_t {
  kCrc,      // refused: length or CRC
  kMeaning,  // refused: something that the file says
  kCaps,     // a model, but larger than the caps
  kRun,      // ran
  kCount
};

struct Exercised {
  Outcome outcome;  // of the program that went furthest
  Status weights;   // what check_weights says of an accepted model
};

// `file` must start at a multiple of 16. Aborts if the engine broke a promise that ASan does not see.
Exercised exercise(std::span<const std::byte> file, const Caps& caps = {});

}  // namespace nacre::test
