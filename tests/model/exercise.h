// Does everything that a host may do with untrusted bytes, within the host's limits: opens, reads every name, asks
// the C API everything, checks the weights, measures, binds and runs every program. Inputs are zeros, the ends of
// their types, and random bits. The sweep and the fuzzer call this. Memory blocks have their exact size, so that ASan
// sees an access outside.
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
  kMeaning,  // refused for a false fact
  kCaps,     // a model, but larger than the caps
  kRun,      // ran
  kCount
};

struct Exercised {
  Outcome outcome;  // the outcome of the program that went furthest
  Status weights;   // what check_weights says of an accepted model
};

// `file` must start at a multiple of 16. Aborts if the engine breaks a promise that ASan cannot check.
Exercised exercise(std::span<const std::byte> file, const Caps& caps = {});

}  // namespace nacre::test
