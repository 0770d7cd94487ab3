// The self-test of a static program: whether this image is what was checked on a PC.
#pragma once

#include "engine/run/static_program.h"

namespace nacre {

// Pairs of inputs and outputs that the PC computed: of each pair the bytes of all inputs, or outputs, in order.
struct GoldenPairs {
  const uint8_t* inputs;
  const uint8_t* outputs;
  uint32_t count;
  bool (*equal)(const std::byte* found, const uint8_t* expected, size_t bytes);
};

bool same_bytes(const std::byte* found, const uint8_t* expected, size_t bytes);
// float32: they differ by at most 1e-5 of the largest number expected, as two orders of a sum, or two libms, do.
bool close_floats(const std::byte* found, const uint8_t* expected, size_t bytes);

// Prints the hash of the model file, and a line where the constants are not those that the PC wrote and for every pair
// whose outputs differ; returns how many: 0 where all is well.
int self_test(const StaticProgram& program, GoldenPairs golden, void (*print)(const char* text));

}  // namespace nacre
