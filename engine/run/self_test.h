// The self-test of a static program: checks on the device that constants and outputs are those of the PC. `nacre
// firmware` writes NAME_test.cc, whose function NAME_self_test calls self_test with the model's golden pairs.
//
// Example:
//   const GoldenPairs golden = {.inputs = golden_inputs, .outputs = golden_outputs, .count = 1, .equal = close_floats};
//   if (self_test(kws_program, golden, print_text) != 0) stop();   // print_text writes to a serial line
#pragma once

#include "engine/run/static_program.h"

namespace nacre {

// Pairs of inputs and outputs that the PC computed. `inputs` has the bytes of all inputs of the first pair in order,
// then of the next pair; `outputs` likewise.
struct GoldenPairs {
  const uint8_t* inputs;
  const uint8_t* outputs;
  uint32_t count;  // number of pairs
  // Compares one output with what the PC computed: same_bytes, close_floats, or a function of the caller.
  bool (*equal)(const std::byte* found, const uint8_t* expected, size_t bytes);
};

// Returns whether all bytes are equal, for outputs of integers.
bool same_bytes(const std::byte* found, const uint8_t* expected, size_t bytes);
// Compares float32 numbers: they may differ by 1e-5 of the largest expected number, because the order of a sum or the
// libm may be another one. A NaN that was found is a difference. Neither address need be aligned.
bool close_floats(const std::byte* found, const uint8_t* expected, size_t bytes);

// Prints the hash of the model file, 32 digits. Prints a line if the constants are not those that the PC wrote, and a
// line for every pair whose outputs differ. Returns the number of these lines: 0 means that the test passed. `print`
// gets texts that end with a 0; a line may come in several calls. The test runs the program, each pair from a zeroed
// stream, so inputs, outputs and stream change.
int self_test(const StaticProgram& program, GoldenPairs golden, void (*print)(const char* text));

}  // namespace nacre
