// Parts that several case makers share: types of an entry, inputs, clamp words.
#pragma once

#include <cmath>

#include "engine/ops/parameters.h"
#include "tests/cases_random.h"

namespace nacre::test {

inline bool coded(const KernelEntry& entry) { return holds_codes(entry.operands[0].element); }
inline bool is_int16(const KernelEntry& entry) { return entry.operands[0].element == ElementType::kInt16; }
// Returns whether operand 0 holds integer codes and y, the last operand, has the same type.
inline bool gives_codes(const KernelEntry& entry) {
  return coded(entry) && entry.operands[entry.operand_count - 1].element == entry.operands[0].element;
}

inline bool whole(const KernelEntry& entry) {
  return entry.operands[0].element == ElementType::kInt32 || entry.operands[0].element == ElementType::kInt64;
}

inline bool is_float(ElementType element) {
  return element == ElementType::kFloat32 || element == ElementType::kFloat16 || element == ElementType::kBfloat16 ||
         element == ElementType::kFloat64 || element == ElementType::kFloat8E4M3 || element == ElementType::kFloat8E5M2;
}

inline Input input_of(ElementType element, std::vector<int32_t> dims) {
  Input input = {.element = element, .dims = std::move(dims)};
  switch (element) {
    case ElementType::kInt8: input.low = -128, input.high = 127; break;
    case ElementType::kInt4: input.low = -8, input.high = 7; break;
    case ElementType::kUint8: input.low = 0, input.high = 255; break;
    case ElementType::kInt16: input.low = -32768, input.high = 32767; break;
    case ElementType::kBool: input.low = 0, input.high = 1; break;
    case ElementType::kInt32:
    case ElementType::kInt64: input.low = -100000, input.high = 100000; break;
    case ElementType::kUint32: input.low = 0, input.high = 4294967295; break;
    default: input.low = -4, input.high = 4;
  }
  return input;
}
inline Input pairs(int rows, double low, double high) {
  return {.element = ElementType::kInt32, .dims = {rows, 2}, .low = low, .high = high, .fill = Input::kPairs};
}

inline void add_clamp(const KernelEntry& entry, Random& random, Case& made) {
  const bool widens = entry.operands[0].element == ElementType::kInt8 &&
                      entry.operands[entry.operand_count - 1].element == ElementType::kInt16;
  if (chance(random, 40) || widens || whole(entry)) {
    made.words.insert(made.words.end(), {0, 0, 0});
    return;
  }
  if (gives_codes(entry)) {
    const int unit = is_int16(entry) ? 256 : 1;
    const int low = pick(random, -128 * unit, 20 * unit), high = pick(random, low, 128 * unit - 1);
    made.words.insert(made.words.end(), {1, uint32_t(low), uint32_t(high)});
  } else {
    const double low = between(random, -3, 0.5);
    made.words.insert(made.words.end(),
                      {1, bits(low), bits(chance(random, 50) ? low + between(random, 0, 4) : INFINITY)});
  }
}

// Returns a random zero point for an int8 output of an int8 kernel, else 0.
inline uint32_t zero_word(const KernelEntry& entry, Random& random) {
  return gives_codes(entry) && !is_int16(entry) ? uint32_t(pick(random, -128, 127)) : 0;
}

// Sets the one input of an elementwise op.
inline void unary_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  if (rank > 0 && random.lanes > 0) dims.back() = channels(random, 4);
  made.inputs = {input_of(entry.operands[0].element, dims)};
}

}  // namespace nacre::test
