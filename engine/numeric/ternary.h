// Ternary weights are -1, 0 or 1 times one scale, stored five to a byte. NUMERICS.md section 7.
//
// Example:
//   const double scale = ternary_scale(pixels);         // a weight is about trit_of(..) scale
//   int8_t trits[10];
//   for (size_t i = 0; i < 10; ++i) trits[i] = trit_of(pixels[i], ternary_threshold(scale));
//   uint8_t packed[ternary_bytes(10)];                  // 2 bytes
//   pack_ternary(trits, packed);
//   if (trit_at(packed, 9) != trits[9]) stop();
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

// Returns beta = mean |w|, computed in float64 (Keras takes numpy's float32 mean, so the last bits differ).
template <class T>
constexpr double ternary_scale(std::span<const T> w) {
  double sum = 0;
  for (const T& v : w) sum += double(v) < 0 ? -double(v) : double(v);
  return w.empty() ? 0 : sum / double(w.size());
}

// Returns the magnitude up to which a weight becomes 0: half of the scale.
constexpr double ternary_threshold(double scale) { return 0.5 * scale; }

// Returns sign(w) if |w| > threshold, else 0. NaN gives 0.
template <class T>
constexpr int8_t trit_of(T w, double threshold) {
  return int8_t((double(w) > threshold) - (double(w) < -threshold));
}

inline constexpr int kTritsPerByte = 5;  // 3^5 = 243
// Returns the bytes that so many trits take.
constexpr size_t ternary_bytes(size_t trits) { return (trits + kTritsPerByte - 1) / kTritsPerByte; }

// Packs trits: byte = sum_i (t_i + 1) 3^i, missing trits 0. `packed` must have ternary_bytes(trits.size()) bytes.
constexpr void pack_ternary(std::span<const int8_t> trits, std::span<uint8_t> packed) {
  for (size_t b = 0; b < ternary_bytes(trits.size()); ++b) {
    int byte = 0;
    for (size_t i = kTritsPerByte; i-- > 0;) {
      const size_t at = kTritsPerByte * b + i;
      byte = 3 * byte + (at < trits.size() ? trits[at] + 1 : 1);
    }
    packed[b] = uint8_t(byte);
  }
}

// Returns trit i of packed trits. Bytes over 242, which pack_ternary never makes, give some trit.
constexpr int8_t trit_at(const uint8_t* packed, size_t i) {
  constexpr uint8_t kPlace[kTritsPerByte] = {1, 3, 9, 27, 81};
  return int8_t(packed[i / kTritsPerByte] / kPlace[i % kTritsPerByte] % 3 - 1);
}

}  // namespace nacre::inline NACRE_ISA
