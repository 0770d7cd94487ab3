// Epilogues that scale sums of real products, over vectors V: y = clamp(s f + b) of a row of sums.
//
//   f   1, c_k t, or 1 / c_k by a division;  where every operation rounds to T: T(T(T(s) c_k) + b_k)
#pragma once

#include "engine/kernels/float8_codes.h"
#include "engine/kernels/loops.h"
#include "engine/kernels/pieces.h"
#include "engine/ops/epilogue.h"

namespace nacre::inline NACRE_ISA {

enum class SumScale : uint8_t { kNone, kTimes, kDivided };

template <class V, class T, class S = float>
struct ScaledSums {
  using F = typename V::F;

  SumScale how;
  bool per_channel;
  const S* scale;  // null for kNone
  Optional<const T> bias;
  float low, high;

  // y of n channels from k on; t: scale of the row.
  [[gnu::noinline]] void operator()(const float* sums, int n, int k, T* y, float t = 1) const {
    constexpr bool kEach = !std::is_same_v<S, float>;
    const auto round = [](F v) {
      if constexpr (kEach) return rounded_to<V, S>(v);
      else return v;
    };
    const F one = V::set(how == SumScale::kNone ? 1.0f : t * float(scale[0])), row = V::set(t);
    each_vector<V>(n, [&](int i, auto lanes) {
      F v = round(load<V>(sums + i, lanes));
      if (how != SumScale::kNone) {
        const F c = per_channel ? V::mul(row, load<V>(scale + k + i, lanes)) : one;
        v = round(how == SumScale::kTimes ? V::mul(v, c) : V::div(v, c));
      }
      if (bias) v = round(V::add(v, load<V>(bias.data + k + i, lanes)));
      store<V>(y + i, V::min(V::set(high), V::max(V::set(low), v)), lanes);
    });
  }
};

template <class V, class T, class S>
ScaledSums<V, T, S> scaled_sums(const Epilogue& epilogue, SumScale how, const S* scale, Optional<const T> bias) {
  return {how, epilogue.per_channel, scale, bias, low_of(epilogue.clamp), high_of(epilogue.clamp)};
}

// y = saturated(put(sums) / step), of n channels from k on; t: scale of the row.
template <class V>
inline void put_float8(const ScaledSums<V, float>& put, const float* sums, int n, int k, float t, typename V::F step,
                       Float8E4M3* y) {
  constexpr int kPiece = 64;
  alignas(64) float piece[kPiece];
  for (int c = 0; c < n; c += kPiece) {
    const int count = n - c < kPiece ? n - c : kPiece;
    put(sums + c, count, k + c, piece, t);
    each_vector<V>(count, [&](int i, auto lanes) {
      store_saturated<V>(y + c + i, V::div(load<V>(piece + i, lanes), step), lanes);
    });
  }
}

}  // namespace nacre::inline NACRE_ISA
