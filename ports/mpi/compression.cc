#include "ports/mpi/compression.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/numeric/small_float.h"

namespace nacre::mpi {
namespace {

constexpr size_t kRun = 256;
constexpr float kLargestCode = 448;  // largest code of E4M3

constexpr size_t runs_of(size_t numbers) { return (numbers + kRun - 1) / kRun; }

// Calls f(first, count) for every run of numbers.
template <class F>
void each_run(size_t numbers, F f) {
  for (size_t first = 0; first < numbers; first += kRun) f(first, std::min(kRun, numbers - first));
}

void encode_run(Coding coding, const float* v, size_t count, std::byte* coded) {
  if (coding == Coding::kBfloat16) {
    for (size_t i = 0; i < count; ++i) {
      const Bfloat16 code(v[i]);
      std::memcpy(coded + 2 * i, &code, sizeof code);
    }
    return;
  }
  float largest = 0;
  for (size_t i = 0; i < count; ++i)
    if (std::isfinite(v[i])) largest = std::max(largest, std::fabs(v[i]));
  // A subnormal step would lose digits of what it multiplies.
  const float step = std::max(largest / kLargestCode, 0x1p-126f);
  std::memcpy(coded, &step, sizeof step);
  for (size_t i = 0; i < count; ++i) {
    const Float8E4M3 code(std::isfinite(v[i]) ? std::clamp(v[i] / step, -kLargestCode, kLargestCode) : NAN);
    std::memcpy(coded + sizeof step + i, &code, sizeof code);
  }
}

void decode_run(Coding coding, const std::byte* coded, size_t count, float* x) {
  if (coding == Coding::kBfloat16) {
    for (size_t i = 0; i < count; ++i) {
      Bfloat16 code;
      std::memcpy(&code, coded + 2 * i, sizeof code);
      x[i] = float(code);
    }
    return;
  }
  float step;
  std::memcpy(&step, coded, sizeof step);
  for (size_t i = 0; i < count; ++i) {
    Float8E4M3 code;
    std::memcpy(&code, coded + sizeof step + i, sizeof code);
    x[i] = float(code) * step;
  }
}

size_t bytes_before(Coding coding, size_t first) {
  return coding == Coding::kBfloat16 ? 2 * first : first + sizeof(float) * (first / kRun);
}

}  // namespace

size_t coded_bytes(Coding coding, size_t numbers) {
  switch (coding) {
    case Coding::kBfloat16: return 2 * numbers;
    case Coding::kFloat8: return numbers + sizeof(float) * runs_of(numbers);
    default: return sizeof(float) * numbers;
  }
}

void encode(Coding coding, std::span<const float> x, float unit, std::span<float> error, std::byte* coded) {
  if (coding == Coding::kNone) {
    if (!x.empty()) std::memcpy(coded, x.data(), x.size_bytes());
    return;
  }
  each_run(x.size(), [&](size_t first, size_t count) {
    float v[kRun], back[kRun];
    bool finite = true;
    for (size_t i = 0; i < count; ++i) {
      v[i] = x[first + i] + unit * error[first + i];
      finite = finite && std::isfinite(v[i]);
    }
    std::byte* const to = coded + bytes_before(coding, first);
    encode_run(coding, v, count, to);
    decode_run(coding, to, count, back);
    for (size_t i = 0; i < count && finite; ++i)
      if (const float left = (v[i] - back[i]) / unit; std::isfinite(left)) error[first + i] = left;
  });
}

void decode(Coding coding, const std::byte* coded, std::span<float> x) {
  if (coding == Coding::kNone) {
    if (!x.empty()) std::memcpy(x.data(), coded, x.size_bytes());
    return;
  }
  each_run(x.size(), [&](size_t first, size_t count) {
    decode_run(coding, coded + bytes_before(coding, first), count, x.data() + first);
  });
}

}  // namespace nacre::mpi
