// Adds a micro-batch's part of its training step to the parts of those before it: NUMERICS.md (57).
//
// Example:
//   for (const SumRun& run : runs) join(run, 0, into.size(), into.data(), from.data());   // whole step blocks
//
// A run is a part of the step block whose numbers are joined in one way (train/step_sums.h finds the runs of a
// model).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nacre {

enum class SumKind : uint8_t {
  kFloat32,  // a + b: gradients, losses, counts, statistics
  kFloat64,  // a + b: sums for parameters in float64
  kInt32,    // a + b, saturated (int8/full): the verdict refuses a sum at an end of int32
  kUint32,   // the larger: amaxes as magnitude bits (infinity and NaN are largest), and the count of micro-batches
};

struct SumRun {
  uint64_t first, bytes;  // bytes [first, first + bytes) of the step block
  SumKind kind;
};

// Returns the bytes of one number.
constexpr uint32_t element_bytes(SumKind kind) { return kind == SumKind::kFloat64 ? 8 : 4; }

// Join two numbers. The earlier number comes first, so that of two NaNs its bits are kept.
constexpr float joined(float a, float b) { return a + b; }
constexpr double joined(double a, double b) { return a + b; }
constexpr int32_t joined(int32_t a, int32_t b) {
  const int64_t sum = int64_t{a} + b;
  return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : int32_t(sum);
}
constexpr uint32_t joined(uint32_t a, uint32_t b) { return a < b ? b : a; }

// Joins `bytes` bytes: into = into + from. `bytes` is a multiple of the element's size; neither address need be. The
// two share no byte.
template <class T>
void join_as(std::byte* into, const std::byte* from, size_t bytes) {
  for (size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = joined(a, b);
    std::memcpy(into + i, &a, sizeof a);
  }
}
inline void join(SumKind kind, std::byte* into, const std::byte* from, size_t bytes) {
  switch (kind) {
    case SumKind::kFloat32: return join_as<float>(into, from, bytes);
    case SumKind::kFloat64: return join_as<double>(into, from, bytes);
    case SumKind::kInt32: return join_as<int32_t>(into, from, bytes);
    case SumKind::kUint32: return join_as<uint32_t>(into, from, bytes);
  }
}

// Joins the bytes of a run that lie in bytes first .. first + bytes of the step block. `into` and `from` point at
// byte `first`.
inline void join(const SumRun& run, uint64_t first, uint64_t bytes, std::byte* into, const std::byte* from) {
  const uint64_t begin = run.first < first ? first : run.first;
  const uint64_t run_end = run.first + run.bytes, end = run_end < first + bytes ? run_end : first + bytes;
  if (begin < end) join(run.kind, into + (begin - first), from + (begin - first), size_t(end - begin));
}

}  // namespace nacre
