// Cases of ops that move elements or convert them to another type.
#include <algorithm>

#include "engine/ops/move.h"
#include "tests/cases_parts.h"
#include "tests/op_rows.h"

namespace nacre::test {
namespace {

void reshape_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  std::vector<int32_t> dims = made.inputs[0].dims;
  std::shuffle(dims.begin(), dims.end(), random);
  while (dims.size() > 1 && chance(random, 30)) {  // merge two axes
    dims[dims.size() - 2] *= dims.back();
    dims.pop_back();
  }
  while (dims.size() < size_t(kMaxRank) && chance(random, 30)) dims.insert(dims.begin(), 1);
  made.words.push_back(uint32_t(dims.size()));
  made.words.insert(made.words.end(), dims.begin(), dims.end());
}

void transpose_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  auto& dims = made.inputs[0].dims;
  if (random.lanes > 0 && (dims.size() == 2 || dims.size() == 3)) dims[0] = channels(random, 20);
  for (size_t i = 0; i < dims.size(); ++i) made.words.push_back(uint32_t(i));
  std::shuffle(made.words.begin(), made.words.end(), random);
}

void concat_case(const KernelEntry& entry, Random& random, Case& made) {
  const int rank = pick(random, 1, kMaxRank), axis = pick(random, 0, rank - 1);
  if (rank != 4) made.traits |= kRankTrait;
  made.words = {uint32_t(axis)};
  std::vector<int32_t> dims = random_dims(random, rank, 4);
  for (int i = pick(random, 1, 5); i > 0; --i) {
    dims[size_t(axis)] = pick(random, 1, 4);
    made.inputs.push_back(input_of(entry.operands[0].element, dims));
  }
}

void pad_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
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

void slice_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
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

void quantize_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  const auto& dims = made.inputs[0].dims;
  const int axis = dims.empty() ? 0 : pick(random, 0, int(dims.size()) - 1);
  const int count = dims.empty() || chance(random, 50) ? 1 : dims[size_t(axis)];
  const bool reciprocal = chance(random, 40), to_real = entry.op == Op::kDequantize;
  made.words = {uint32_t(axis), reciprocal};
  // Codes are drawn over the whole range of their format. For float8, some of them saturate.
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

void pack_case(const KernelEntry& entry, Random& random, Case& made) {
  do {
    made = {};
    unary_case(entry, random, made);
  } while (made.inputs[0].dims.size() < 2);
}

void store_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  made.inputs.push_back(made.inputs[0]);
}

void requantize_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
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

void cast_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  if (!is_float(entry.operands[0].element)) return;
  // Draws also values beyond the largest float16 and below its smallest normal number.
  const double most = chance(random, 20) ? 1e5 : chance(random, 20) ? 1e-5 : 300;
  made.inputs[0].low = -most, made.inputs[0].high = most;
}

void dynamic_quantize_case(const KernelEntry& entry, Random& random, Case& made) {
  unary_case(entry, random, made);
  made.words = {uint32_t(pick(random, 0, int(made.inputs[0].dims.size()))), uint32_t(pick(random, 0, 1))};
  if (chance(random, 20)) made.inputs[0].low = 0;
  if (chance(random, 10)) made.inputs[0].low = made.inputs[0].high = 0;
  if (chance(random, 10)) made.inputs[0].low *= 1e-7, made.inputs[0].high *= 1e-7;  // as small as abs-max's epsilon
}

}  // namespace

std::span<const OpRow> rows_of_moves() {
  static constexpr OpRow kRows[] = {
      {.op = Op::kReshape,
       .make = &reshape_case,
       .traits = kRankTrait,
       .oracle = &reshape,
       .gradient = &drawn<Op::kReshape>},
      {.op = Op::kTranspose,
       .make = &transpose_case,
       .traits = kRankTrait,
       .oracle = &transpose,
       .gradient = &drawn<Op::kTranspose>},
      {.op = Op::kConcat,
       .make = &concat_case,
       .traits = kRankTrait,
       .oracle = &concat,
       .gradient = &drawn<Op::kConcat>},
      {.op = Op::kPad,
       .make = &pad_case,
       .traits = kRankTrait | kAsymmetricTrait,
       .oracle = &pad,
       .gradient = &drawn<Op::kPad>},
      {.op = Op::kSlice, .make = &slice_case, .traits = kRankTrait, .oracle = &slice, .gradient = &drawn<Op::kSlice>},
      {.op = Op::kCopy, .make = &unary_case, .traits = kRankTrait, .oracle = &reshape, .gradient = &drawn<Op::kCopy>},
      {.op = Op::kPack, .make = &pack_case, .traits = kRankTrait, .oracle = &reshape},
      {.op = Op::kStore, .make = &store_case, .traits = kRankTrait, .oracle = &reshape},
      {.op = Op::kQuantize, .make = &quantize_case, .traits = kRankTrait, .oracle = &quantize, .forms = kInt8 | kOther},
      {.op = Op::kDequantize,
       .make = &quantize_case,
       .traits = kRankTrait,
       .oracle = &quantize,
       .forms = kInt8 | kOther},
      {.op = Op::kRequantize,
       .make = &requantize_case,
       .traits = kRankTrait,
       .oracle = &requantize,
       .forms = kInt8 | kOther},
      {.op = Op::kCast, .make = &cast_case, .traits = kRankTrait, .oracle = &cast, .forms = kOther},
      {.op = Op::kDynamicQuantize,
       .make = &dynamic_quantize_case,
       .traits = kRankTrait,
       .oracle = &dynamic_quantize,
       .forms = kOther},
      {.op = Op::kPadGradient, .magnitude = &magnitudes::linear},
      {.op = Op::kSliceGradient, .magnitude = &magnitudes::linear},
  };
  return kRows;
}

}  // namespace nacre::test
