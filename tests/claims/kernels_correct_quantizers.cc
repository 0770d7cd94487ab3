#include "tests/claims/kernels_correct_quantizers.h"

#include <cmath>

#include "engine/ops/fake_float8.h"
#include "engine/ops/fake_quantize.h"
#include "tests/cases_random.h"

namespace nacre::test {
namespace {

constexpr ElementType kF32 = ElementType::kFloat32;

std::vector<int32_t> some_dims(Random& random) {
  std::vector<int32_t> dims = random_dims(random, pick(random, 1, 4), 4);
  dims[size_t(pick(random, 0, int(dims.size()) - 1))] = channels(random, 30);
  return dims;
}

// In a third of the cases the numbers are multiples of a half, mostly with largest magnitude 127 or 63.5. So many of
// them lie half-way between two codes.
Array numbers(ElementType type, const std::vector<int32_t>& dims, Random& random) {
  Array x = make_array(type, dims);
  const bool halves = chance(random, 33);
  const double most = halves ? (chance(random, 50) ? 127 : 63.5) : std::exp2(pick(random, -8, 8));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double v = between(random, -most, most);
    x.set(i, halves ? (chance(random, 10) ? most : std::round(v * 2) / 2) : v);
  }
  if (chance(random, 10)) x.set(pick(random, 0, int(x.elements()) - 1), chance(random, 70) ? NAN : INFINITY);
  return x;
}

Array range(Random& random) {
  const double most = std::exp2(pick(random, -4, 7)), low = between(random, -most, most / 4);
  const double high = chance(random, 5) ? INFINITY : between(random, low, most);
  if (chance(random, 10)) return array_of<double>(kF32, {2}, {0, 0});
  return array_of<double>(kF32, {2}, {low, high});
}

// Adds the words {per_channel, axis} and returns the steps.
Array steps(const Array& x, Random& random, std::vector<uint32_t>& words) {
  const int axis = pick(random, 0, int(x.dims.size()) - 1), per_channel = pick(random, 0, 1);
  words.insert(words.end(), {uint32_t(per_channel), uint32_t(per_channel * axis)});
  Array step = make_array(kF32, {per_channel != 0 ? x.dims[size_t(axis)] : 1});
  for (int64_t i = 0; i < step.elements(); ++i) step.set(i, between(random, 0.01, 0.5));
  return step;
}

}  // namespace

void fake_quantize_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const Array x = numbers(entry.operands[0].element, some_dims(random), random);
  const bool has_range = chance(random, 30);
  made.words = {has_range ? uint32_t{FakeQuantize::kStatic} : uint32_t(pick(random, 0, FakeQuantize::kRuleCount - 1))};
  const bool codes = made.words[0] >= FakeQuantize::kInt8Codes;
  Array step = steps(x, random, made.words);
  if (has_range) made.words = {FakeQuantize::kStatic, 0, 0};
  made.inputs = {x, has_range ? range(random) : Array(), codes ? step : Array()};
}

void fake_quantize_gradient_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const std::vector<int32_t> dims = some_dims(random);
  const Array dy = numbers(entry.operands[0].element, dims, random),
              x = numbers(entry.operands[1].element, dims, random);
  const int kind = pick(random, 0, 2);  // kind of operands: nothing, a range, or a step
  const Array step = steps(x, random, made.words);
  if (kind != 2) made.words = {0, 0};
  made.inputs = {dy, x, kind == 1 ? range(random) : Array(), kind == 2 ? step : Array()};
}

void fake_quantize_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const std::vector<int32_t> dims = some_dims(random);
  made.inputs = {make_array(entry.operands[0].element, dims), numbers(entry.operands[1].element, dims, random),
                 range(random), array_of<double>(kF32, {2}, {0.5, -0.25})};
  for (int64_t i = 0; i < made.inputs[0].elements(); ++i) made.inputs[0].set(i, between(random, -4, 4));
}

void observe_range_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  made.inputs = {numbers(entry.operands[0].element, some_dims(random), random),
                 array_of<double>(kF32, {2}, {-0.5, 0.25}), array_of<double>(kF32, {1}, {3})};
  if (entry.operand_count == 3) return;
  const bool freezes = chance(random, 50), widens = chance(random, 50);
  made.words = {freezes ? uint32_t(pick(random, 1, 9)) : 0, widens};
  made.inputs.push_back(freezes || widens ? array_of<double>(kF32, {2}, {between(random, -5, 0), between(random, 0, 5)})
                                          : Array());
  made.inputs.push_back(freezes ? array_of<double>(ElementType::kUint32, {1}, {double(pick(random, 0, 9))}) : Array());
}

// Makes a case with an amax that is updated; the other kernels take a constant amax, or one per row. Magnitudes reach
// from below the smallest numbers to beyond the largest.
void fake_float8_case(const KernelEntry& entry, Random& random, ReferenceCase& made) {
  const bool updates = (entry.operands[FakeFloat8::kAmax].role & 3) == uint8_t(Role::kUpdate);
  const bool current = !updates && (entry.operands[FakeFloat8::kScale].role & kOptional) != 0;
  Array x = numbers(entry.operands[0].element, some_dims(random), random);
  if (chance(random, 70))
    for (int64_t i = 0; i < x.elements(); ++i)
      x.set(i, std::ldexp(pick(random, -31, 31), pick(random, -15, 12)));  // some are ties
  made.words = {uint32_t(pick(random, 0, 1)), current ? 0 : uint32_t(pick(random, 0, 2)), current,
                current ? uint32_t(pick(random, 0, int(x.dims.size()))) : 0};
  const double scale = chance(random, 50) ? std::exp2(pick(random, -4, 4)) : between(random, 0.1, 8);
  made.inputs = {
      x, current ? Array() : array_of<double>(kF32, {1}, {scale}),
      current ? Array() : array_of<double>(ElementType::kUint32, {1}, {double(bits(chance(random, 50) ? 0 : 3))})};
}

}  // namespace nacre::test
