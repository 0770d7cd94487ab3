// Numbers of a training step, read by their bits: a program that trains codes needs no float instruction.
#pragma once

#include <bit>
#include <cstring>

#include "engine/model/model.h"
#include "engine/numeric/float_bits.h"

namespace nacre {

// Two that `update` keeps and its outputs do not tell.
struct StepNumbers {            // tensors; kNoIndex: there is none
  uint32_t samples = kNoIndex;  // that the verdict counts (its third operand): float32 or int32, a sum of the step
  uint32_t floor = kNoIndex;    // counters of adjust_loss_scale (its fourth operand): 3 uint32, the third is how often
                                // in a row the loss scale was at its floor
};

StepNumbers step_numbers(const Model& model, const ProgramView& update);

// -0 is 0.
constexpr bool is_rate(float rate) {
  const auto bits = std::bit_cast<uint32_t>(rate);
  return bits < 0x7F800000u || bits == 0x80000000u;
}

// Number i of a report: float64 where `wide`, else float32.
inline float report_number(const void* report, size_t i, bool wide) {
  uint64_t bits = 0;
  const size_t size = wide ? 8 : 4;
  std::memcpy(&bits, static_cast<const std::byte*>(report) + i * size, size);
  return std::bit_cast<float>(wide ? float_of_double(bits) : uint32_t(bits));
}

// A count of samples. One of int32, of a program that trains codes, is below 2^23 (verdict_codes): as the bits of a
// float32 it would be subnormal, as no count is.
inline float sample_count(const void* count) {
  uint32_t bits;
  std::memcpy(&bits, count, sizeof bits);
  return std::bit_cast<float>(bits < 0x00800000u ? float_of_scaled(scaled_of_integer(bits)) : bits);
}
inline bool counts_none(const void* count) {
  uint32_t bits;
  std::memcpy(&bits, count, sizeof bits);
  return bits << 1 == 0;
}

}  // namespace nacre
