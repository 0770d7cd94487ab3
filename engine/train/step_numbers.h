// Numbers of a training step, read by their bits: a program that trains codes needs no float instruction.
#pragma once

#include <bit>
#include <cstring>

#include "engine/model/model.h"
#include "engine/numeric/float_bits.h"

namespace nacre {

// Two tensors whose numbers a report needs and the outputs of `update` do not have.
struct StepNumbers {            // tensors; kNoIndex: there is none
  uint32_t samples = kNoIndex;  // counted by the verdict (its third operand): float32 or int32, a sum of the step
  uint32_t floor = kNoIndex;    // counters of adjust_loss_scale (its fourth operand): 3 uint32, the third is how often
                                // in a row the loss scale was at its floor
};

StepNumbers step_numbers(const Model& model, const ProgramView& update);

// Returns whether a learning rate is finite and not negative; -0 counts as 0.
constexpr bool is_rate(float rate) {
  const auto bits = std::bit_cast<uint32_t>(rate);
  return bits < 0x7F800000u || bits == 0x80000000u;
}

// Returns number i of a report, whose numbers are float64 if `wide`, else float32.
inline float report_number(const void* report, size_t i, bool wide) {
  uint64_t bits = 0;
  const size_t size = wide ? 8 : 4;
  std::memcpy(&bits, static_cast<const std::byte*>(report) + i * size, size);
  return std::bit_cast<float>(wide ? float_of_double(bits) : uint32_t(bits));
}

// Returns a count of samples. A program that trains codes counts in int32, below 2^23 (verdict_codes). The bits of
// such a count, read as a float32, are a subnormal number, which a float32 count never is.
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
