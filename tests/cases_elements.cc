// Cases of elementwise ops: sums, products, functions, comparisons, choices, table lookups and random numbers.
#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tests/cases_parts.h"
#include "tests/op_rows.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

// Sets two inputs whose dims are equal or can be broadcast to each other.
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

void elementwise_case(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  add_clamp(entry, random, made);
  for (int i = 0; i < 3; ++i) made.words.push_back(zero_word(entry, random));
  if (entry.op != Op::kMul) made.words.push_back(is_int16(entry) ? 15 : coded(entry) ? 20 : 0);
  if (!coded(entry)) return;
  const int finer = is_int16(entry) ? 5 : 0;  // int16 sums shift by 15 bits, not 20; int16 products are larger
  made.inputs.push_back(entry.op == Op::kMul ? pairs(1, std::exp2(-12 - finer), std::exp2(-5 - finer))
                                             : pairs(3, std::exp2(-21 + finer), std::exp2(-17 + finer)));
  if (entry.op != Op::kMul) made.inputs.back().fill = Input::kSumPairs;
}

// Keeps divisors of floats away from 0, and bases of float powers above 0. Integers are drawn from [-9, 40].
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

Index broadcast_all(const std::vector<Array>& in) {
  Index dims;
  for (const Array& x : in) {
    dims.insert(dims.begin(), x.dims.size() > dims.size() ? x.dims.size() - dims.size() : 0, 1);
    for (size_t i = 1; i <= x.dims.size(); ++i)
      dims[dims.size() - i] = std::max(dims[dims.size() - i], x.dims[x.dims.size() - i]);
  }
  return dims;
}

// Compares by the sign of the difference, which is exact.
std::vector<Expected> comparison(const Problem& p) {
  return {expect(broadcast_all(p.in), [&](const Index& index) -> Result {
    const Real d = Real(p.in[0].real(broadcast_offset(p.in[0].dims, index))) -
                   Real(p.in[1].real(broadcast_offset(p.in[1].dims, index)));
    const bool less = d < 0, equal = d == 0;
    const bool results[] = {false, equal, !equal, less, less || equal, !less && !equal, !less};
    return {double(results[p.word(0)]), 0};
  })};
}

std::vector<Expected> choice(const Problem& p) {
  return {expect(broadcast_all(p.in), [&](const Index& index) -> Result {
    const bool c = p.in[2].integer(broadcast_offset(p.in[2].dims, index)) != 0;
    const Array& from = p.in[c ? 0 : 1];
    return {from.real(broadcast_offset(from.dims, index)), 0};
  })};
}

// Draws a and b as for mul. The condition is one for all elements, one per column, or has the larger operand's dims.
void select(Random& random, GradientCase& made) {
  draw(Op::kMul, 0, random, made);
  made.words.clear();
  std::vector<int32_t> dims;
  const Array &a = made.inputs[0], &b = made.inputs[1];
  const Array& wide = a.elements() >= b.elements() ? a : b;
  if (pick(random, 0, 2) > 0) dims = wide.dims;
  if (pick(random, 0, 1) > 0 && !dims.empty()) dims.erase(dims.begin(), dims.end() - 1);
  Array c = make_array(ElementType::kBool, dims);
  for (int64_t i = 0; i < c.elements(); ++i) c.set(i, pick(random, 0, 1));
  made.inputs.push_back(c);
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

// Draws x inside the function's domain: |x| is at least 0.125 for log, roots and the reciprocal.
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

// Sums the elements of dy for which the condition chose this input, over the axes along which the input was
// broadcast.
Lists select_gradient(const Problem& p, const Index& x) {
  return repeated(p, x, [&](int64_t i, const Index& index) {
    const bool first = p.in[1].real(broadcast_offset(p.in[1].dims, index)) != 0;
    return first == (p.word(0) == 0) ? number(p, 0, i) : Bounded();
  });
}

}  // namespace

std::span<const OpRow> rows_of_elements() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kAdd,
       .make = &elementwise_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &elementwise,
       .gradient = &drawn<Op::kAdd, 0>},
      {.op = Op::kSub,
       .make = &elementwise_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &elementwise,
       .gradient = &drawn<Op::kSub, 0>},
      {.op = Op::kMul,
       .make = &elementwise_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &elementwise,
       .gradient = &drawn<Op::kMul, 0>},
      {.op = Op::kBinary,
       .make = &binary_function_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &binary,
       .forms = kRealForms,
       .gradient = &binary_function},
      {.op = Op::kCompare,
       .make = &compare_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &comparison,
       .forms = kOther},
      {.op = Op::kSelect,
       .make = &select_case,
       .traits = kRankTrait | kBroadcastTrait,
       .oracle = &choice,
       .forms = kRealForms,
       .gradient = &select},
      {.op = Op::kClamp, .make = &clamp_case, .traits = kRankTrait, .oracle = &clamp, .gradient = &clamp},
      {.op = Op::kLeakyRelu,
       .make = &activation_case,
       .traits = kRankTrait,
       .oracle = &activation,
       .forms = kRealForms,
       .gradient = &leaky_relu},
      {.op = Op::kSigmoid,
       .make = &activation_case,
       .traits = kRankTrait,
       .oracle = &activation,
       .forms = kRealForms,
       .gradient = &drawn<Op::kSigmoid>},
      {.op = Op::kTanh,
       .make = &activation_case,
       .traits = kRankTrait,
       .oracle = &activation,
       .forms = kRealForms,
       .gradient = &drawn<Op::kTanh>},
      {.op = Op::kHardSwish,
       .make = &activation_case,
       .traits = kRankTrait,
       .oracle = &activation,
       .forms = kRealForms,
       .gradient = &hard_swish},
      {.op = Op::kSilu,
       .make = &activation_case,
       .traits = kRankTrait,
       .oracle = &gated,
       .forms = kRealForms,
       .gradient = &drawn<Op::kSilu>},
      {.op = Op::kUnary,
       .make = &unary_function_case,
       .traits = kRankTrait,
       .oracle = &unary,
       .forms = kRealForms,
       .gradient = &unary_function},
      {.op = Op::kRandom, .make = &uniform_case, .traits = kRankTrait, .oracle = &uniform, .forms = kRealForms},
      {.op = Op::kLookup, .make = &lookup_case, .traits = kRankTrait, .oracle = &lookup, .forms = kInt8},
      {.op = Op::kSumTo, .bounds = &bounds::sum_to, .magnitude = &magnitudes::linear},
      {.op = Op::kMulGradient, .bounds = &bounds::mul, .magnitude = &magnitudes::linear},
      {.op = Op::kBinaryGradient, .bounds = &bounds::binary, .magnitude = &magnitudes::binary},
      {.op = Op::kSelectGradient, .bounds = &select_gradient, .magnitude = &magnitudes::linear},
      {.op = Op::kUnaryGradient, .bounds = &bounds::unary, .magnitude = &magnitudes::product},
      {.op = Op::kClampGradient, .magnitude = &magnitudes::selected},
      {.op = Op::kLeakyReluGradient, .magnitude = &magnitudes::selected},
      {.op = Op::kSigmoidGradient, .magnitude = &magnitudes::gated},
      {.op = Op::kTanhGradient, .magnitude = &magnitudes::gated},
      {.op = Op::kHardSwishGradient, .magnitude = &magnitudes::hard_swish},
      {.op = Op::kSiluGradient, .bounds = &bounds::silu},
  };
  return kRows;
}

}  // namespace nacre::test
