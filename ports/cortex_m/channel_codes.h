// Makes codes from the int32 sums s of one output channel, as the reference does with kDouble (NUMERICS.md eq. 1, 2).
//
//   code = clamp(zero_y + round(round(s m / 2^31) / 2^n)),   the pair {m, -n} of the channel's multiplier
//
// This takes six instructions if m >= 2^30 and 1 <= n <= 21:
//
//   u = (2 s m + 2^31) >> 32                                  SMMULR of 2 s: the inner rounding, ties towards +infinity
//   v = (u + (u >> 31) + 2^(n-1) + zero_y 2^n) >> n           half away from zero; the zero point rides along
//
// 2 s saturates (QADD) if |s| >= 2^30. Then |u| is at least 2^29 with and without saturation, v is beyond all codes,
// and the clamp gives the same bound. Pairs outside these ranges use the reference's function.
#pragma once

#include "engine/ops/epilogue.h"
#include "ports/cortex_m/dsp.h"

namespace nacre::cortex_m {

struct ChannelCodes {
  int32_t multiplier, add, right;  // right is 0 if the channel is not quick

  static constexpr int kMostShift = 21;

  static ChannelCodes of(const int32_t* pair, int y_zero) {
    const int32_t multiplier = pair[0], n = int32_t(0u - uint32_t(pair[1]));
    const bool quick = uint32_t(n) - 1 < uint32_t{kMostShift} && multiplier >= 1 << 30;
    if (!quick) return {0, 0, 0};
    return {multiplier, int32_t(uint32_t(2 * y_zero + 1) << (n - 1)), n};
  }
  static ChannelCodes of(const Epilogue& epilogue, const int32_t* scale, int k) {
    return of(scale + 2 * epilogue.scale_index(k), epilogue.y_zero);
  }

  bool quick() const { return right != 0; }
  // Returns the code before the clamp, for a quick channel.
  int32_t operator()(int32_t sum) const {
    const int32_t u = high_product(doubled(sum), multiplier);
    return (u + (u >> 31) + add) >> right;
  }
};

// Returns whether the clamp changes no int8 code.
inline bool keeps_all(const Clamp& clamp) {
  return clamp.kind == Clamp::kNone || (int32_t(clamp.low) <= -128 && int32_t(clamp.high) >= 127);
}

[[gnu::cold, gnu::noinline]] inline int8_t slow_code(const Epilogue& epilogue, const int32_t* scale, int k,
                                                     int32_t sum) {
  return epilogue.int8<Rounding::kDouble>(sum, {nullptr}, scale, k);
}

}  // namespace nacre::cortex_m
