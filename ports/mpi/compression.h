// Gradients in 16 or 8 bits for the way between machines, with error feedback: the error that rounding leaves behind
// is added to the gradients that are sent next. NUMERICS.md (58).
//
// Gradients of 16 bits are bfloat16; of 8 bits, float8 E4M3 with a float32 step for each run of 256 numbers. Numbers
// that are not finite arrive as NaN or infinity, so that the step is refused as it would be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre::mpi {

enum class Coding : uint8_t { kNone, kBfloat16, kFloat8 };

// Returns the bytes of so many numbers.
size_t coded_bytes(Coding coding, size_t numbers);

// v = x + unit error; coded = code(v); error = (v - decoded) / unit. Where a run of numbers has one that is not finite
// the errors of that run stay. `unit`: the loss scale, in which x is and the errors are not.
void encode(Coding coding, std::span<const float> x, float unit, std::span<float> error, std::byte* coded);
void decode(Coding coding, const std::byte* coded, std::span<float> x);

}  // namespace nacre::mpi
