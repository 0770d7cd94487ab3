// Codes gradients in 16 or 8 bits for the transfer between machines, with error feedback: the rounding error of a
// transfer is added to the gradients of the next one. NUMERICS.md (58).
//
// Gradients of 16 bits are bfloat16. Gradients of 8 bits are float8 E4M3 with a float32 step for each run of 256
// numbers. Infinity and NaN arrive as NaN or infinity, so a step is refused as it would be without coding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nacre::mpi {

enum class Coding : uint8_t { kNone, kBfloat16, kFloat8 };

// Returns the bytes that this many numbers take.
size_t coded_bytes(Coding coding, size_t numbers);

// v = x + unit error; coded = code(v); error = (v - decoded) / unit. If a run of 256 numbers has an infinite or NaN
// v, the errors of that run do not change. `unit` is the loss scale. x is multiplied by the loss scale already; the
// errors are not. `error` has x.size() numbers, 0 at first (kNone: none). `coded` has coded_bytes(coding, x.size())
// bytes.
void encode(Coding coding, std::span<const float> x, float unit, std::span<float> error, std::byte* coded);
// Writes the x.size() numbers that `coded` means.
void decode(Coding coding, const std::byte* coded, std::span<float> x);

}  // namespace nacre::mpi
