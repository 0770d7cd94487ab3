// Elements as they are stored, as the real numbers they mean, and how many of them have reached the ends of their type.
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
  std::optional<Scales> scales = {};  // of integer or float8 codes; without them a code means itself
};

// Codes give float(scale * (code - zero)), as a dequantize step does. Throws Error where the type has no real meaning.
std::vector<double> decode(const StoredElements& elements);

// Elements at an end of their type, where larger ones would have ended too:
//
//   integers with scales   the lowest and the highest code, unless it is the zero point: a relu's zeros are exact
//   float8, float16, bfloat16, float32, float64   the largest magnitude or infinity
//
// Other integers: 0.
uint64_t saturated(const StoredElements& elements);

// Meaning of a tensor's codes: its quantizer. For float8 without one, the scale by which its step makes the codes:
// operand `scale` of quantize, the last input of a matmul that quantizes what it gives (ops/epilogue.h).
std::optional<Scales> meaning_of(const ProgramReport& report, uint32_t tensor);

}  // namespace nacre::tools
