#include "tests/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/ops/binary.h"
#include "engine/ops/move.h"
#include "engine/ops/parameters.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tests/cases_random.h"
#include "tools/passes/curve_points.h"
#include "tools/passes/quantize_multiplier.h"

namespace nacre::test {
namespace {

bool coded(const KernelEntry& entry) { return holds_codes(entry.operands[0].element); }
bool is_int16(const KernelEntry& entry) { return entry.operands[0].element == ElementType::kInt16; }
// Whether y has the type of the codes.
bool gives_codes(const KernelEntry& entry) {
  return coded(entry) && entry.operands[entry.operand_count - 1].element == entry.operands[0].element;
}

bool whole(const KernelEntry& entry) {
  return entry.operands[0].element == ElementType::kInt32 || entry.operands[0].element == ElementType::kInt64;
}

bool is_float(ElementType element) {
  return element == ElementType::kFloat32 || element == ElementType::kFloat16 || element == ElementType::kBfloat16 ||
         element == ElementType::kFloat64 || element == ElementType::kFloat8E4M3 || element == ElementType::kFloat8E5M2;
}

Input input_of(ElementType element, std::vector<int32_t> dims) {
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
Input pairs(int rows, double low, double high) {
  return {.element = ElementType::kInt32, .dims = {rows, 2}, .low = low, .high = high, .fill = Input::kPairs};
}

void add_clamp(const KernelEntry& entry, Random& random, Case& made) {
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

// Codes for int8 with an int8 output, else 0.
uint32_t zero_word(const KernelEntry& entry, Random& random) {
  return gives_codes(entry) && !is_int16(entry) ? uint32_t(pick(random, -128, 127)) : 0;
}

// A function, of which the words are those of a clamp; add_residual comes next.
void add_function(Random& random, Case& made) {
  const uint32_t kind = uint32_t(pick(random, Clamp::kLeakyRelu, Clamp::kGeluTanh));
  made.words.insert(made.words.end(), {kind, kind == Clamp::kLeakyRelu ? bits(between(random, -0.5, 1.5)) : 0, 0});
}

// The fused form alone has four inputs of one float type.
bool is_fused(const KernelEntry& entry) {
  return is_float(entry.operands[0].element) && input_count(entry) == 4 &&
         entry.operands[1].element == entry.operands[0].element &&
         entry.operands[3].element == entry.operands[0].element;
}

// The words {kind, low, high} of a matmul's epilogue.
void add_epilogue_clamp(const KernelEntry& entry, Random& random, Case& made) {
  if (is_fused(entry) && chance(random, 70)) add_function(random, made);
  else add_clamp(entry, random, made);
}

struct Sums {
  int channels, terms;
  int batch;                  // rows of hybrid
  std::vector<int32_t> rows;  // dims of the other forms' x_scale; empty: [1]
  std::vector<int32_t> y;
  uint32_t kind;  // of the clamp words
};

// Groups of `block` weights: float32 steps and int8 zero points.
void add_groups(const KernelEntry& entry, Random& random, const Sums& sums, Case& made) {
  const int block = pick(random, 1, sums.terms + 2), groups = (sums.terms + block - 1) / block;
  made.words.back() = uint32_t(block);
  const std::vector<int32_t> dims = {sums.channels, groups};
  made.inputs.push_back({.element = entry.operands[3].element, .dims = dims, .low = 0.0005, .high = 0.05});
  made.inputs.push_back({.element = ElementType::kInt8, .dims = dims, .low = -8, .high = 7});
}

// What follows x and w, by the entry's form (engine/ops/epilogue.h); the last words are {form, block}. Sums of the
// fused form are small: its functions bend near 0.
void add_epilogue(const KernelEntry& entry, Random& random, const Sums& sums, Case& made) {
  const auto type = [&](int slot) { return entry.operands[slot].element; };
  const auto scales = [&](int slot, std::vector<int32_t> dims, double low, double high) {
    made.inputs.push_back({.element = type(slot), .dims = std::move(dims), .low = low, .high = high});
  };
  made.inputs.push_back(input_of(type(2), {sums.channels}));
  if (type(2) == ElementType::kInt32) made.inputs[2].low = -3000, made.inputs[2].high = 3000;
  if ((entry.operands[2].role & kOptional) != 0 && chance(random, 30)) made.inputs[2] = {};
  made.words.insert(made.words.end(), {0, 0});
  const int count = chance(random, 50) ? 1 : sums.channels, inputs = input_count(entry);
  const bool codes = coded(entry), float8 = type(0) == ElementType::kFloat8E4M3;
  if (inputs == 3) return;
  if (is_fused(entry)) {
    for (const size_t slot : {0u, 1u}) made.inputs[slot].low = -1, made.inputs[slot].high = 1;
    const bool absent = sums.kind > Clamp::kBounds && chance(random, 30);
    return made.inputs.push_back(absent ? Input() : input_of(type(3), sums.y));
  }
  if (inputs == 5 && type(4) == ElementType::kInt8) return add_groups(entry, random, sums, made);
  const bool dynamic = inputs == 5 && codes, reciprocal = inputs == 4 && !codes && chance(random, 50);
  made.words[made.words.size() - 2] = reciprocal ? 1 : 0;
  if (is_int16(entry)) made.inputs.push_back(pairs(count, std::exp2(-16), std::exp2(-4)));
  else if (type(3) == ElementType::kInt32) made.inputs.push_back(pairs(count, 1.0 / 4096, 1.0 / 16));
  else if (dynamic) scales(3, {count}, 10, 500);
  else if (reciprocal) scales(3, {count}, 20, 2000);
  else scales(3, {count}, 0.0005, 0.05);
  if (entry.rounding == Rounding::kFloatEven && chance(random, 15)) made.inputs.back().fill = Input::kExtremes;
  if (inputs == 4) return;
  if (type(5) == ElementType::kInt32 && codes && !dynamic) {
    scales(4, {sums.batch}, 0.001, 0.1);
    return scales(5, {sums.batch}, -128, 127);
  }
  const bool one = sums.rows.empty() || (float8 && chance(random, 30));
  scales(4, one ? std::vector<int32_t>{1} : sums.rows, dynamic ? 10 : 0.01, dynamic ? 500 : 5);
  if (inputs > 5) scales(5, {1}, 0.0005, 0.5);
}

void dense(const KernelEntry& entry, Random& random, Case& made) {
  const bool many = random.lanes > 0 && chance(random, 6);  // so that fast kernels cut rows and columns
  const int rank = many ? 2 : pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  dims.back() = channels(random, 40);
  const int out = many ? pick(random, 330, 450) : channels(random, 12);
  if (random.lanes > 0 && rank > 1) dims[0] = many ? pick(random, 20, 60) : pick(random, 1, 30);
  add_epilogue_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random)});
  made.inputs = {input_of(entry.operands[0].element, dims), input_of(entry.operands[1].element, {out, dims.back()})};
  std::vector<int32_t> y = dims;
  y.back() = out;
  const Sums sums = {.channels = out,
                     .terms = dims.back(),
                     .batch = rank > 1 ? dims[0] : 1,
                     .rows = {dims.begin(), dims.end() - 1},
                     .y = y,
                     .kind = made.words[0]};
  add_epilogue(entry, random, sums, made);
  if (rank != 2) made.traits |= kRankTrait;
}

struct Axis {
  int in, kernel, stride, dilation, before, after;
  int out() const { return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1; }
};

Axis random_axis(Random& random, int most_kernel) {
  Axis axis = {.in = pick(random, 1, 9),
               .kernel = pick(random, 1, most_kernel),
               .stride = pick(random, 1, 3),
               .dilation = chance(random, 60) ? 1 : pick(random, 2, 3),
               .before = 0,
               .after = 0};
  const int span = (axis.kernel - 1) * axis.dilation + 1;
  axis.before = pick(random, 0, span - 1);
  axis.after = chance(random, 40) ? axis.before : pick(random, 0, span - 1);
  axis.in = std::max(axis.in, span - axis.before - axis.after);
  return axis;
}

void add_window(const Axis& h, const Axis& w, Case& made) {
  for (const int word :
       {h.stride - 1, w.stride - 1, h.dilation - 1, w.dilation - 1, h.before, w.before, h.after, w.after})
    made.words.push_back(uint32_t(word));
  if ((h.dilation > 1 && h.kernel > 1) || (w.dilation > 1 && w.kernel > 1)) made.traits |= kDilationTrait;
  if (h.before != h.after || w.before != w.after) made.traits |= kAsymmetricTrait;
}

// What most networks have: fast kernels have forms of their own for it.
void make_usual(Random& random, Axis& h, Axis& w) {
  const int stride = pick(random, 1, 2);
  for (Axis* axis : {&h, &w})
    *axis = {.in = pick(random, 3, 13),
             .kernel = 3,
             .stride = stride,
             .dilation = 1,
             .before = pick(random, 0, 2),
             .after = pick(random, 0, 2)};
}

void conv(const KernelEntry& entry, Random& random, Case& made, bool depthwise) {
  Axis h = random_axis(random, 4), w = random_axis(random, 4);
  const bool usual = random.lanes > 0 && chance(random, 30);
  if (usual) make_usual(random, h, w);
  const int batch = pick(random, 1, 2), groups = depthwise || chance(random, 40) ? 1 : pick(random, 2, 3);
  const bool many = depthwise && random.lanes > 0 && chance(random, 8);  // so that fast kernels cut channels
  const int group_in = !many                         ? channels(random, 4)
                       : usual && chance(random, 50) ? 128 * pick(random, 1, 3) + pick(random, 0, 2 * random.lanes)
                                                     : pick(random, 190, 420);
  const int multiplier = depthwise ? usual ? 1 : pick(random, 1, 3) : channels(random, 4);
  const int in_c = groups * group_in, out_c = depthwise ? in_c * multiplier : groups * multiplier;
  add_window(h, w, made);
  add_epilogue_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random), uint32_t(groups - 1)});
  made.inputs = {input_of(entry.operands[0].element, {batch, h.in, w.in, in_c})};
  const std::vector<int32_t> weights = depthwise ? std::vector<int32_t>{h.kernel, w.kernel, out_c}
                                                 : std::vector<int32_t>{out_c, h.kernel, w.kernel, group_in};
  made.inputs.push_back(input_of(entry.operands[1].element, weights));
  const Sums sums = {.channels = out_c,
                     .terms = h.kernel * w.kernel * (depthwise ? 1 : group_in),
                     .batch = batch,
                     .rows = {batch},
                     .y = {batch, h.out(), w.out(), out_c},
                     .kind = made.words[8]};
  add_epilogue(entry, random, sums, made);
  if (groups > 1) made.traits |= kGroupsTrait;
  if (depthwise && multiplier > 1) made.traits |= kMultiplierTrait;
}
void conv2d(const KernelEntry& entry, Random& random, Case& made) { conv(entry, random, made, false); }
void depthwise_conv2d(const KernelEntry& entry, Random& random, Case& made) { conv(entry, random, made, true); }

void pool(const KernelEntry& entry, Random& random, Case& made) {
  Axis h = random_axis(random, 4), w = random_axis(random, 4);
  h.in = std::max(h.in, h.dilation);
  w.in = std::max(w.in, w.dilation);
  const bool count_pads = chance(random, 30);
  if (count_pads && coded(entry)) {
    h.before = h.after = w.before = w.after = 0;
    h.in = std::max(h.in, (h.kernel - 1) * h.dilation + 1);
    w.in = std::max(w.in, (w.kernel - 1) * w.dilation + 1);
  }
  add_window(h, w, made);
  made.words.insert(made.words.end(), {uint32_t(h.kernel - 1), uint32_t(w.kernel - 1), uint32_t(count_pads)});
  add_clamp(entry, random, made);
  made.inputs = {input_of(entry.operands[0].element, {pick(random, 1, 2), h.in, w.in, channels(random, 5)})};
}

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

void elementwise(const KernelEntry& entry, Random& random, Case& made) {
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
void binary_function(const KernelEntry& entry, Random& random, Case& made) {
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
void compare(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  made.words = {uint32_t(pick(random, 1, int(Compare::kLast)))};
  if (!chance(random, 30)) return;
  for (Input& input : made.inputs) input.low = input.high = 1;
}

void select(const KernelEntry& entry, Random& random, Case& made) {
  add_pair(entry, random, made);
  std::vector<int32_t> c = made.inputs[chance(random, 50) ? 0 : 1].dims;
  for (int32_t& dim : c) dim = chance(random, 20) ? 1 : dim;
  made.inputs.push_back(input_of(ElementType::kBool, c));
}

// One input, elementwise.
void unary(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  if (rank > 0 && random.lanes > 0) dims.back() = channels(random, 4);
  made.inputs = {input_of(entry.operands[0].element, dims)};
}

void clamp(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  add_clamp(entry, random, made);
  made.words.insert(made.words.end(), {zero_word(entry, random), zero_word(entry, random)});
  if (!coded(entry)) return;
  made.inputs.push_back(chance(random, 50) ? pairs(1, 0.1, 4) : Input());
}

void activation(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
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
void unary_function(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  const uint32_t function = uint32_t(pick(random, 1, int(Unary::kLast)));
  made.words = {function, bits(between(random, 0.5, 2)), bits(between(random, 0.5, 2))};
  const bool positive = function == Unary::kLog || function == Unary::kSqrt || function == Unary::kRsqrt;
  made.inputs[0].low = positive || function == Unary::kReciprocal ? 0.125 : -10;
  made.inputs[0].high = 10;
  if (function == Unary::kReciprocal && chance(random, 50)) made.inputs[0].low = -10, made.inputs[0].high = -0.125;
}

void uniform_case(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  made.words = {uint32_t(random()), uint32_t(random()), uint32_t(pick(random, 0, 9))};
  made.inputs.push_back({.element = ElementType::kInt32, .dims = {1}, .low = -1000, .high = 1000});
}

void lookup(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  made.inputs.push_back(is_int16(entry) ? input_of(ElementType::kInt16, {513}) : input_of(ElementType::kInt8, {256}));
}

void softmax(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  const int axis = coded(entry) ? rank - 1 : pick(random, 0, rank - 1);
  dims[size_t(axis)] = channels(random, 30);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(axis)};
  if (entry.op == Op::kSoftmax) made.words.push_back(bits(between(random, 0.1, 2)));
  made.inputs = {input_of(entry.operands[0].element, dims)};
  if (!coded(entry)) return;
  if (is_int16(entry)) {
    const FixedPoint units = tools::quantize_multiplier(std::exp2(between(random, -3, 3)));
    made.words.insert(made.words.end(), {uint32_t(units.multiplier), uint32_t(units.shift)});
    return made.inputs.push_back({.element = ElementType::kInt32, .dims = {2, 513}, .low = 8000, .high = 32767});
  }
  // As micro/kernels/softmax_common.cc makes them of beta = 1 and a scale in [1/1000, 1/2].
  const FixedPoint scale = tools::quantize_multiplier(std::exp2(between(random, -10, -1)) * (1 << 26));
  made.words.insert(made.words.end(), {uint32_t(scale.multiplier), uint32_t(scale.shift),
                                       uint32_t(-int(std::floor(std::ldexp(31.0 * (1 << 26), -int(scale.shift)))))});
}

void batch_norm(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  std::vector<int32_t> dims = random_dims(random, rank, 5);
  if (random.lanes > 0) dims.back() = channels(random, 5);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {bits(between(random, 1e-5, 1e-2))};
  made.inputs = {input_of(entry.operands[0].element, dims)};
  for (int i = 0; i < 4; ++i) made.inputs.push_back(input_of(entry.operands[i + 1].element, {dims.back()}));
  made.inputs[4].low = 0.01;
}

// With random.lanes, neighbouring axes are mostly reduced together, and one of the axes has `channels`.
std::vector<int32_t> reduced_dims(Random& random, int rank, int most, uint32_t& axes) {
  std::vector<int32_t> dims = random_dims(random, rank, most);
  if (random.lanes == 0 || rank == 0) return dims;
  dims[size_t(pick(random, 0, rank - 1))] = channels(random, most);
  if (chance(random, 70)) {
    const int first = pick(random, 0, rank - 1), end = pick(random, first, rank);
    axes = (1u << end) - (1u << first);
  }
  return dims;
}

void mean(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 0, (1 << rank) - 1)), uint32_t(pick(random, 0, 1)), zero_word(entry, random),
                zero_word(entry, random)};
  made.inputs = {input_of(entry.operands[0].element, reduced_dims(random, rank, 5, made.words[0]))};
  if (coded(entry)) made.inputs.push_back(chance(random, 60) ? pairs(1, 0.1, 4) : Input());
}

// A product of at most 4096 numbers near 1 or near -1.
void reduce(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 0, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(pick(random, 1, int(Reduce::kLast))), uint32_t(pick(random, 0, (1 << rank) - 1)),
                uint32_t(pick(random, 0, 1))};
  made.inputs = {input_of(entry.operands[0].element, reduced_dims(random, rank, 4, made.words[1]))};
  if (made.words[0] != Reduce::kProd) return;
  const double sign = chance(random, 50) ? 1 : -1;
  made.inputs[0].low = sign < 0 ? -1.001 : 0.999;
  made.inputs[0].high = sign < 0 ? -0.999 : 1.001;
}

// In half of the cases of 16 bits many elements are equal.
void arg_max(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank);
  if (rank != 4) made.traits |= kRankTrait;
  std::vector<int32_t> dims = random_dims(random, rank, 3);
  const int axis = pick(random, 0, rank - 1);
  dims[size_t(axis)] = channels(random, 30);
  made.words = {uint32_t(axis), uint32_t(pick(random, 0, 1)), uint32_t(pick(random, 0, 1)),
                uint32_t(pick(random, 0, 1))};
  made.inputs = {input_of(entry.operands[0].element, dims)};
  if (chance(random, 50)) made.inputs[0].low = 1, made.inputs[0].high = 1.01;
}

void reshape(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  std::vector<int32_t> dims = made.inputs[0].dims;
  std::shuffle(dims.begin(), dims.end(), random);
  while (dims.size() > 1 && chance(random, 30)) {  // melt two axes
    dims[dims.size() - 2] *= dims.back();
    dims.pop_back();
  }
  while (dims.size() < size_t(kMaxRank) && chance(random, 30)) dims.insert(dims.begin(), 1);
  made.words.push_back(uint32_t(dims.size()));
  made.words.insert(made.words.end(), dims.begin(), dims.end());
}

void transpose(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  auto& dims = made.inputs[0].dims;
  if (random.lanes > 0 && (dims.size() == 2 || dims.size() == 3)) dims[0] = channels(random, 20);
  for (size_t i = 0; i < dims.size(); ++i) made.words.push_back(uint32_t(i));
  std::shuffle(made.words.begin(), made.words.end(), random);
}

void concat(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank), axis = pick(random, 0, rank - 1);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(axis)};
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  for (int i = pick(random, 1, 5); i > 0; --i) {
    dims[size_t(axis)] = pick(random, 1, 4);
    made.inputs.push_back(input_of(entry.operands[0].element, dims));
  }
}

void pad(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  const int mode = pick(random, 0, 2);
  made.words.resize(Pad::kMode + 1);
  for (size_t i = 0; i < made.inputs[0].dims.size(); ++i) {
    const int most = mode == 1 ? made.inputs[0].dims[i] - 1 : 3;
    made.words[i] = uint32_t(pick(random, 0, most));
    made.words[Pad::kAfter + i] = uint32_t(pick(random, 0, most));
    if (made.words[i] != made.words[Pad::kAfter + i]) made.traits |= kAsymmetricTrait;
  }
  made.words[Pad::kValue] = is_float(entry.operands[0].element) ? bits(between(random, -3, 3))
                   : is_int16(entry)                   ? uint32_t(pick(random, -32768, 32767))
                   : coded(entry)                      ? uint32_t(pick(random, -128, 127))
                                                       : uint32_t(pick(random, 0, 1));
  made.words[Pad::kMode] = uint32_t(mode);
}

void slice(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  made.words.resize(3 * kMaxRank);
  for (size_t i = 0; i < made.inputs[0].dims.size(); ++i) {
    const int dim = made.inputs[0].dims[i], begin = pick(random, 0, dim - 1);
    const int step = pick(random, 1, 3) * (chance(random, 40) ? -1 : 1);
    const int room = step > 0 ? (dim - 1 - begin) / step : begin / -step;
    made.words[i] = uint32_t(begin);
    made.words[Slice::kSize + i] = uint32_t(pick(random, 1, room + 1));
    made.words[Slice::kStep + i] = uint32_t(step - 1);
  }
}

void quantize(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  const auto& dims = made.inputs[0].dims;
  const int axis = dims.empty() ? 0 : pick(random, 0, int(dims.size()) - 1);
  const int count = dims.empty() || chance(random, 50) ? 1 : dims[size_t(axis)];
  const bool reciprocal = chance(random, 40), to_real = entry.op == Op::kDequantize;
  made.words = {uint32_t(axis), reciprocal};
  // float8: some of the codes saturate. Codes are drawn over the whole range of their format.
  const double least = input_count(entry) > 2 ? 0.01 : 0.004;
  made.inputs.push_back({.element = entry.operands[1].element, .dims = {count}, .low = least, .high = 0.2});
  if (reciprocal) made.inputs.back().low = 5, made.inputs.back().high = 1 / least;
  const ElementType type = entry.operands[0].element;
  const double most = type == ElementType::kFloat8E4M3 ? 448 : type == ElementType::kFloat8E5M2 ? 57344 : 0;
  if (to_real && most > 0) made.inputs[0].low = -most, made.inputs[0].high = most;
  if (input_count(entry) == 2) return;
  made.inputs.push_back({.element = ElementType::kInt32, .dims = {count}, .low = -128, .high = 127});
  if (chance(random, 30)) made.inputs.back() = {};
}

void pack(const KernelEntry& entry, Random& random, Case& made) {
  do {
    made = {};
    unary(entry, random, made);
  } while (made.inputs[0].dims.size() < 2);
}

void store(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  made.inputs.push_back(made.inputs[0]);
}

void requantize(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  for (const int slot : {0, 2}) {
    const ElementType codes = entry.operands[slot].element;
    made.words.push_back(uint32_t(codes == ElementType::kInt8    ? pick(random, -128, 127)
                                  : codes == ElementType::kUint8 ? pick(random, 0, 255)
                                                                 : 0));
  }
  const bool narrows = entry.operands[0].element != ElementType::kUint8 &&
                       element_bits(entry.operands[0].element) > element_bits(entry.operands[2].element);
  made.inputs.push_back(narrows ? pairs(1, 1.0 / 2048, 1) : pairs(1, 0.1, 4));
}

void cast(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  if (!is_float(entry.operands[0].element)) return;
  // Also beyond the largest float16 and below its smallest normal number.
  const double most = chance(random, 20) ? 1e5 : chance(random, 20) ? 1e-5 : 300;
  made.inputs[0].low = -most, made.inputs[0].high = most;
}

void dynamic_quantize(const KernelEntry& entry, Random& random, Case& made) {
  unary(entry, random, made);
  made.words = {uint32_t(pick(random, 0, int(made.inputs[0].dims.size()))), uint32_t(pick(random, 0, 1))};
  if (chance(random, 20)) made.inputs[0].low = 0;
  if (chance(random, 10)) made.inputs[0].low = made.inputs[0].high = 0;
  if (chance(random, 10)) made.inputs[0].low *= 1e-7, made.inputs[0].high *= 1e-7;  // as small as abs-max's epsilon
}

struct Row {
  Op op;
  CaseMaker make;
  unsigned traits;  // that its cases must show
};

constexpr unsigned kWindowTraits = kDilationTrait | kAsymmetricTrait;
constexpr Row kRows[] = {
    {Op::kDense, &dense, kRankTrait},
    {Op::kConv2d, &conv2d, kWindowTraits | kGroupsTrait},
    {Op::kDepthwiseConv2d, &depthwise_conv2d, kWindowTraits | kMultiplierTrait},
    {Op::kAveragePool, &pool, kWindowTraits},
    {Op::kMaxPool, &pool, kWindowTraits},
    {Op::kResize, &resize_case, 0},
    {Op::kAdd, &elementwise, kRankTrait | kBroadcastTrait},
    {Op::kSub, &elementwise, kRankTrait | kBroadcastTrait},
    {Op::kMul, &elementwise, kRankTrait | kBroadcastTrait},
    {Op::kBinary, &binary_function, kRankTrait | kBroadcastTrait},
    {Op::kCompare, &compare, kRankTrait | kBroadcastTrait},
    {Op::kSelect, &select, kRankTrait | kBroadcastTrait},
    {Op::kClamp, &clamp, kRankTrait},
    {Op::kLeakyRelu, &activation, kRankTrait},
    {Op::kSigmoid, &activation, kRankTrait},
    {Op::kTanh, &activation, kRankTrait},
    {Op::kHardSwish, &activation, kRankTrait},
    {Op::kLookup, &lookup, kRankTrait},
    {Op::kSoftmax, &softmax, kRankTrait},
    {Op::kBatchNorm, &batch_norm, kRankTrait},
    {Op::kMean, &mean, kRankTrait},
    {Op::kReduce, &reduce, kRankTrait},
    {Op::kArgMax, &arg_max, kRankTrait},
    {Op::kLogSoftmax, &softmax, kRankTrait},
    {Op::kReshape, &reshape, kRankTrait},
    {Op::kTranspose, &transpose, kRankTrait},
    {Op::kConcat, &concat, kRankTrait},
    {Op::kPad, &pad, kRankTrait | kAsymmetricTrait},
    {Op::kSlice, &slice, kRankTrait},
    {Op::kCopy, &unary, kRankTrait},
    {Op::kPack, &pack, kRankTrait},
    {Op::kStore, &store, kRankTrait},
    {Op::kQuantize, &quantize, kRankTrait},
    {Op::kDequantize, &quantize, kRankTrait},
    {Op::kRequantize, &requantize, kRankTrait},
    {Op::kCast, &cast, kRankTrait},
    {Op::kDynamicQuantize, &dynamic_quantize, kRankTrait},
    {Op::kGelu, &gelu_case, kRankTrait},
    {Op::kSilu, &activation, kRankTrait},
    {Op::kUnary, &unary_function, kRankTrait},
    {Op::kRandom, &uniform_case, kRankTrait},
    {Op::kLayerNorm, &layer_norm_case, kRankTrait},
    {Op::kEmbedding, &embedding_case, kRankTrait},
    {Op::kBatchedMatmul, &batched_matmul_case, kRankTrait | kBroadcastTrait},
    {Op::kLstm, &lstm_case, 0},
    {Op::kGru, &gru_case, 0},
    {Op::kStreamLstm, &stream_lstm_case, 0},
    {Op::kSvdf, &svdf_case, 0},
    {Op::kTreeEnsemble, &tree_ensemble_case, kRankTrait},
    {Op::kNonMaxSuppression, &non_max_suppression_case, 0},
    {Op::kSignal, &signal_case, 0},
};

const Row* find_row(Op op) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.op == op; });
  return found == std::end(kRows) ? nullptr : found;
}

void fill_pairs(const Input& input, Random& random, Array& array) {
  for (int row = 0; row < input.dims[0]; ++row) {
    const bool operand = input.fill == Input::kSumPairs && row < 2;  // s / (2 max s)
    const double low = operand ? 1.0 / 32 : input.low, high = operand ? 0.5 : input.high;
    const FixedPoint pair = tools::quantize_multiplier(std::exp2(between(random, std::log2(low), std::log2(high))));
    array.set(2 * row, pair.multiplier);
    array.set(2 * row + 1, pair.shift);
  }
}

void fill_extremes(const Input& input, Random& random, Array& array) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kScales[] = {kNan, kInfinity, -kInfinity, 3e38, -3e38, 1e6, -1e6, -0.01, 0, 1e-45};
  for (int64_t i = 0; i < array.elements(); ++i)
    array.set(i, chance(random, 60) ? kScales[pick(random, 0, int(std::size(kScales)) - 1)]
                                    : between(random, input.low, input.high));
}

void fill_curve(Array& array) {
  const std::vector<int32_t> points = tools::sigmoid_points();
  for (size_t i = 0; i < points.size(); ++i) array.set(int64_t(i), points[i]);
}

void fill_trees(const Input& input, Random& random, Array& array) {
  for (int node = 0; node < input.dims[0]; ++node) {
    array.set(3 * node, pick(random, 0, int(input.low) - 1) << 4 | pick(random, 0, 15));
    for (int side = 1; side < 3; ++side) {
      const bool leaf = node + 1 == input.dims[0] || chance(random, 40);
      array.set(3 * node + side, leaf ? pick(random, -int(input.high), -1) : pick(random, node + 1, input.dims[0] - 1));
    }
  }
}

}  // namespace

CaseMaker find_case_maker(Op op) { return find_row(op) == nullptr ? nullptr : find_row(op)->make; }
unsigned expected_traits(Op op) { return find_row(op) == nullptr ? 0 : find_row(op)->traits; }

Case random_case(const KernelEntry& entry, Random& random) {
  Case made;
  find_row(entry.op)->make(entry, random, made);
  return made;
}

std::vector<Array> random_inputs(const Case& made, Random& random) {
  std::vector<Array> arrays;
  for (const Input& input : made.inputs) {
    arrays.push_back(input.element == ElementType::kNone ? Array() : make_array(input.element, input.dims));
    Array& array = arrays.back();
    if (input.fill != Input::kUniform) {
      if (input.fill == Input::kExtremes) fill_extremes(input, random, array);
      else if (input.fill == Input::kTrees) fill_trees(input, random, array);
      else if (input.fill == Input::kCurve) fill_curve(array);
      else fill_pairs(input, random, array);
      continue;
    }
    const bool real = is_float(input.element);
    for (int64_t i = 0; array.present() && i < array.elements(); ++i)
      array.set(i,
                real ? between(random, input.low, input.high)
                     : double(std::uniform_int_distribution<int64_t>(int64_t(input.low), int64_t(input.high))(random)));
  }
  return arrays;
}

std::string text(const Case& made) {
  std::string text = "words";
  for (const uint32_t word : made.words) text += ' ' + std::to_string(int32_t(word));
  for (const Input& input : made.inputs) text += ", " + Array{input.element, input.dims, {}}.text();
  return text;
}

}  // namespace nacre::test
