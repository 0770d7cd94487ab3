// Decodes stored elements to real numbers, and counts how many have reached the ends of their type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/evaluate/program_report.h"

namespace nacre::tools {

struct StoredElements {
  ElementType type = ElementType::kNone;
  std::vector<int64_t> dims;
  std::span<const uint8_t> bytes;
  std::optional<Scales> scales = {};  // scales of integer or float8 codes; without scales a code is its own value
};

// Returns float(scale * (code - zero)) for codes, as a dequantize step does. Throws Error for a type without real
// values.
std::vector<double> decode(const StoredElements& elements);

// Counts the elements at an end of their type, where larger numbers would be clamped too:
//
//   4- to 16-bit integers with scales   the lowest and the highest code, unless it is the zero point, which is exact
//   float8, float16, bfloat16, float32, float64   the largest magnitude or infinity
//
// Returns 0 for other integers.
uint64_t saturated(const StoredElements& elements);

// Returns the scales of a tensor's codes, from its quantizer; none for float32. For float8 without a quantizer, returns
// the constant scale with which its step makes the codes: operand `scale` of quantize, or the last input of a matmul
// that quantizes (ops/epilogue.h); none if that is no constant.
std::optional<Scales> meaning_of(const ProgramReport& report, uint32_t tensor);

}  // namespace nacre::tools
