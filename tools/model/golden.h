// Makes golden pairs (seeded inputs and their outputs), and compares outputs of other runs with them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/model/loaded_model.h"
#include "tools/model/writer.h"

namespace nacre::tools {

// Returns the bytes of all inputs of a program, drawn from splitmix64 (Steele, Lea and Flood 2014,
// doi:10.1145/2714064.2660195, figure 16) with state = seed, one value z per element in memory order:
//
//   float              (z >> 40) / 2^24 * 2 - 1, in [-1, 1); float16 and bfloat16 round it
//   int8, uint8, int16 the top bits, unchanged;   bool  the top bit
//   32 and 64 bits     z >> 57, in [0, 128), for integers
//
// Integers that reach a table as indices, directly or through moves, are taken modulo the table's entries: every
// index is valid. Throws if the inputs exceed a Budget of the file.
std::vector<uint8_t> seeded_inputs(const LoadedModel& model, uint32_t program, uint64_t seed);

// Returns `count` pairs, for seeds 1, 2, ..., run by the kernels of the program's target, else by the reference's. The
// tolerance is kFloatTolerance if an output is float32 or float64, else 0.
std::vector<GoldenPair> make_golden(const LoadedModel& model, uint32_t program, uint32_t count);

// Tolerance, as a share of an output's largest magnitude. Two float32 dot products of n terms in different orders
// differ by up to about sqrt(n) 2^-24 of their largest term: 2e-6 at n = 1000. A few layers add their differences.
inline constexpr float kFloatTolerance = 1e-5f;

struct Difference {
  uint64_t bytes = 0;  // bytes that differ in outputs other than float32 and float64
  double largest = 0;  // the largest of max |a - b| / max |a| of the float32 and float64 outputs
  bool within(float tolerance) const { return bytes == 0 && largest <= double(tolerance); }
};

// Compares all outputs of `program`, which lie one after the other. A NaN differs by infinity from anything but the
// same bits.
Difference difference(const LoadedModel& model, uint32_t program, std::span<const uint8_t> expected,
                      std::span<const uint8_t> found);

}  // namespace nacre::tools
