// Cases of what computes each element of y from those at its place: sums, functions, comparisons, choices.
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tests/cases_parts.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {

namespace {

// Two inputs of dims that are broadcast.
void add_pair(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  std::vector<int32_t> a = random_dims(random, rank, 4);
  if (rank > 0 && random.lanes > 0) a.back() = channels(random, 4);
  std::vector<int32_t> b = a;
  if (chance(random, 60)) {
    for (int32_t& dim : a) dim = chance(random, 30) ? 1 : dim;
    for (int32_t& dim : b) dim = chance(random, 30) ? 1 : dim;
    std::vector<int32_t>& shorter = chance(random, 50) ? a : b;
    shorter.erase(shorter.begin(), shorter.begin() + pick(random, 0, rank));
  }
  if (a != b) made.traits |= kBroadcastTrait;
  if (rank != 4) made.traits |= kRankTrait;
  made.inputs = {input_of(entry.operands[0].element, a), input_of(entry.operands[1].element, b)};
}

}  // namespace

void elementwise_case(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  add_clamp(entry, random, made);
  for (int i = 0; i < 3; ++i) made.words.push_back(zero_word(entry, random));
  if (entry.op != Op::kMul) made.words.push_back(is_int16(entry) ? 15 : coded(entry) ? 20 : 0);
  if (!coded(entry)) return;
  const int finer = is_int16(entry) ? 5 : 0;  // than 2^20, or than products of 8 bits
  made.inputs.push_back(entry.op == Op::kMul ? pairs(1, std::exp2(-12 - finer), std::exp2(-5 - finer))
                                             : pairs(3, std::exp2(-21 + finer), std::exp2(-17 + finer)));
  if (entry.op != Op::kMul) made.inputs.back().fill = Input::kSumPairs;
}

// Divisors apart from 0, bases above it; of whole numbers any.
void binary_function_case(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  if (!is_float(entry.operands[0].element)) {
    made.words = {uint32_t(pick(random, 1, int(Binary::kLastOfWhole)))};
    for (Input& input : made.inputs) input.low = -9, input.high = 40;
    return;
  }
  made.words = {uint32_t(pick(random, 1, int(Binary::kLast)))};
  if (made.words[0] == Binary::kPow) made.inputs[0].low = 0.25;
  if (made.words[0] == Binary::kDiv || made.words[0] == Binary::kFloorDiv) {
    const double sign = chance(random, 50) ? 1 : -1;
    made.inputs[1].low = std::min(sign * 0.25, sign * 4);
    made.inputs[1].high = std::max(sign * 0.25, sign * 4);
  }
}

// In some of the cases all elements are equal.
void compare_case(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  made.words = {uint32_t(pick(random, 1, int(Compare::kLast)))};
  if (!chance(random, 30)) return;
  for (Input& input : made.inputs) input.low = input.high = 1;
}

void select_case(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  std::vector<int32_t> c = made.inputs[chance(random, 50) ? 0 : 1].dims;
  for (int32_t& dim : c) dim = chance(random, 20) ? 1 : dim;
  made.inputs.push_back(input_of(ElementType::kBool, c));
}

void clamp_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  add_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random)});
  if (!coded(entry)) return;
  made.inputs.push_back(chance(random, 50) ? pairs(1, 0.1, 4) : Input());
}

void activation_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  if (is_int16(entry)) {
    if (entry.op == Op::kLeakyRelu) return made.inputs.push_back(pairs(2, 0.1, 4));
    made.words = {uint32_t(pick(random, 1 << 14, (1 << 15) - 1)), uint32_t(pick(random, 9, 16))};
    return made.inputs.push_back({.element = ElementType::kInt32, .dims = {256}, .low = 32768, .high = 65535});
  }
  made.inputs[0].low = -10;
  made.inputs[0].high = 10;
  if (entry.op == Op::kLeakyRelu) made.words = {bits(between(random, -0.5, 1.5))};
}

// Inside its domain, and where its slope is not steep.
void unary_function_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  const uint32_t function = uint32_t(pick(random, 1, int(Unary::kLast)));
  made.words = {function, bits(between(random, 0.5, 2)), bits(between(random, 0.5, 2))};
  const bool positive = function == Unary::kLog || function == Unary::kSqrt || function == Unary::kRsqrt;
  made.inputs[0].low = positive || function == Unary::kReciprocal ? 0.125 : -10;
  made.inputs[0].high = 10;
  if (function == Unary::kReciprocal && chance(random, 50)) made.inputs[0].low = -10, made.inputs[0].high = -0.125;
}

void uniform_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  made.words = {uint32_t(random()), uint32_t(random()), uint32_t(pick(random, 0, 9))};
  made.inputs.push_back({.element = ElementType::kInt32, .dims = {1}, .low = -1000, .high = 1000});
}

void lookup_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  made.inputs.push_back(is_int16(entry) ? input_of(ElementType::kInt16, {513}) : input_of(ElementType::kInt8, {256}));
}

}  // namespace nacre::test
