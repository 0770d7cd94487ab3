// The self-test of a static program: checks on the device that constants and outputs are those of the PC.
#pragma once

#include "engine/run/static_program.h"

namespace nacre {

// Pairs of inputs and outputs that the PC computed. `inputs` has the bytes of all inputs of the first pair in order,
// then of the next pair; `outputs` likewise.
struct GoldenPairs {
  const uint8_t* inputs;
  const uint8_t* outputs;
  uint32_t count;
  bool (*equal)(const std::byte* found, const uint8_t* expected, size_t bytes);
};

bool same_bytes(const std::byte* found, const uint8_t* expected, size_t bytes);
// Compares float32 numbers: they may differ by 1e-5 of the largest expected number, because the order of a sum or the
// libm may be another one.
bool close_floats(const std::byte* found, const uint8_t* expected, size_t bytes);

// Prints the hash of the model file. Prints a line if the constants are not those that the PC wrote, and a line for
// every pair whose outputs differ. Returns the number of these lines: 0 means that the test passed.
int self_test(const StaticProgram& program, GoldenPairs golden, void (*print)(const char* text));

}  // namespace nacre
