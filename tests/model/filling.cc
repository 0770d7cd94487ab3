#include "tests/model/filling.h"

#include <algorithm>
#include <cstring>

namespace nacre::test {
namespace {

struct Ends {
  ElementType type;
  uint64_t codes[6];  // lowest, highest; for floats infinity, -infinity, NaN, the smallest subnormal
};

constexpr Ends kEnds[] = {
    {ElementType::kFloat32, {0xFF7FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 1}},
    {ElementType::kFloat16, {0xFBFF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 1}},
    {ElementType::kBfloat16, {0xFF7F, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 1}},
    {ElementType::kFloat64,
     {0xFFEFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 1}},
    {ElementType::kFloat8E4M3, {0xFE, 0x7E, 0x7F, 0xFF, 0x80, 1}},  // no infinity: both NaNs, -0
    {ElementType::kFloat8E5M2, {0xFB, 0x7B, 0x7C, 0xFC, 0x7E, 1}},
    {ElementType::kInt8, {0x80, 0x7F, 0x81, 0xFF, 0, 1}},
    {ElementType::kUint8, {0, 0xFF, 0x80, 0x7F, 1, 2}},
    {ElementType::kInt32, {0x80000000, 0x7FFFFFFF, 0x80000001, 0xFFFFFFFF, 0, 1}},
    {ElementType::kInt64, {0x8000000000000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000001, ~uint64_t{0}, 0, 1}},
    {ElementType::kInt4, {0x88, 0x77, 0x87, 0x78, 0xFF, 1}},  // two codes
};

}  // namespace

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

void fill(std::span<std::byte> bytes, ElementType type, Filling filling, uint64_t seed) {
  constexpr size_t kStretch = 40;
  if (filling == Filling::kZeros) return void(std::fill(bytes.begin(), bytes.end(), std::byte{0}));
  const auto* ends = std::find_if(std::begin(kEnds), std::end(kEnds), [&](const Ends& e) { return e.type == type; });
  const bool random = filling == Filling::kRandom || ends == std::end(kEnds);
  const size_t size = random ? 1 : std::max<size_t>(1, element_bits(type) / 8);
  const size_t stretch = filling == Filling::kStretches ? kStretch : 1;
  for (size_t i = 0; i + size <= bytes.size(); i += size) {
    const uint64_t code = random ? mix(seed + i) : ends->codes[(i / size / stretch + seed) % std::size(ends->codes)];
    std::memcpy(bytes.data() + i, &code, size);  // little-endian, as the file is
  }
}

}  // namespace nacre::test
