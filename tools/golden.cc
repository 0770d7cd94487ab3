#include "tools/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/numeric/small_float.h"
#include "tools/error.h"
#include "tools/graph/names.h"
#include "tools/split_mix64.h"

namespace nacre::tools {
namespace {

template <class T>
void append(std::vector<uint8_t>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void append_element(std::vector<uint8_t>& bytes, ElementType type, uint64_t z) {
  const double real = double(z >> 40) / 0x1p24 * 2 - 1;
  switch (type) {
    case ElementType::kFloat32:
      return append(bytes, float(real));
    case ElementType::kFloat64:
      return append(bytes, real);
    case ElementType::kFloat16:
      return append(bytes, Float16(real).bits);
    case ElementType::kBfloat16:
      return append(bytes, Bfloat16(real).bits);
    case ElementType::kInt8:
    case ElementType::kUint8:
      return append(bytes, uint8_t(z >> 56));
    case ElementType::kInt16:
      return append(bytes, uint16_t(z >> 48));
    case ElementType::kBool:
      return append(bytes, uint8_t(z >> 63));
    case ElementType::kInt32:
    case ElementType::kUint32:
      return append(bytes, uint32_t(z >> 57));
    case ElementType::kInt64:
      return append(bytes, z >> 57);
    default:
      throw Error(kUnsupported, "seeded inputs", std::string("no rule for elements of type ") + name_of(type));
  }
}

template <class T>
double largest_difference(const uint8_t* expected, const uint8_t* found, uint64_t bytes) {
  double worst = 0, magnitude = 0;
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, expected + at, sizeof a);
    std::memcpy(&b, found + at, sizeof b);
    if (std::isfinite(a)) magnitude = std::max(magnitude, std::fabs(double(a)));
    if (std::memcmp(&a, &b, sizeof a) == 0 || a == b) continue;
    const double distance = std::fabs(double(a) - double(b));
    worst = std::max(worst, std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance);
  }
  return worst == 0 ? 0 : worst / magnitude;
}

}  // namespace

std::vector<uint8_t> seeded_inputs(const LoadedModel& model, uint32_t program, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint8_t> bytes;
  for (const uint32_t id : model.model().program(program).inputs) {
    const TensorRecord& r = model.model().tensors()[id];
    const uint32_t size = std::max<uint32_t>(1, element_bits(r.element) / 8);
    for (uint64_t i = 0; i < r.bytes / size; ++i) append_element(bytes, r.element, random.next());
  }
  return bytes;
}

std::vector<GoldenPair> make_golden(const LoadedModel& model, uint32_t program, uint32_t count) {
  if (count == 0) return {};
  const auto is_float = [&](uint32_t id) {
    const ElementType type = model.model().tensors()[id].element;
    return type == ElementType::kFloat32 || type == ElementType::kFloat64;
  };
  const float tolerance = std::ranges::any_of(model.model().program(program).outputs, is_float) ? kFloatTolerance : 0;
  BoundProgram bound(model, program);
  std::vector<GoldenPair> pairs;
  for (uint32_t i = 0; i < count; ++i) {
    GoldenPair pair = {program, seeded_inputs(model, program, i + 1), {}, tolerance};
    pair.outputs = bound.run(pair.inputs);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Difference difference(const LoadedModel& model, uint32_t program, std::span<const uint8_t> expected,
                      std::span<const uint8_t> found) {
  Difference d;
  size_t at = 0;
  for (const uint32_t id : model.model().program(program).outputs) {
    const TensorRecord& r = model.model().tensors()[id];
    const uint8_t *a = expected.data() + at, *b = found.data() + at;
    if (r.element == ElementType::kFloat32) {
      d.largest = std::max(d.largest, largest_difference<float>(a, b, r.bytes));
    } else if (r.element == ElementType::kFloat64) {
      d.largest = std::max(d.largest, largest_difference<double>(a, b, r.bytes));
    } else {
      for (uint64_t i = 0; i < r.bytes; ++i) d.bytes += a[i] != b[i];
    }
    at += size_t(r.bytes);
  }
  return d;
}

}  // namespace nacre::tools
