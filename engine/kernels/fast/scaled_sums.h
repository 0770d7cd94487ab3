// Epilogues that scale the sums s of real products, over vectors V: y = clamp(s f + b) for a row of sums. The factor f
// is 1, c_k t, or 1 / (c_k t) by a division. If scales are not float32 (S), every operation rounds to S.
#pragma once

#include "engine/kernels/fast/float8_codes.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/pieces.h"
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

  // Computes y of n channels from k on; t is the scale of the row.
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

// Computes y = saturated(clamp(s (t c_k) + b_k) / step).
template <class V>
struct Float8Sums {
  using F = typename V::F;

  bool per_channel;
  const float* scale;
  Optional<const float> bias;
  float low, high, step;

  Float8Sums(const Epilogue& epilogue, const float* c, Optional<const float> b, float y_scale)
      : per_channel(epilogue.per_channel), scale(c), bias(b), low(low_of(epilogue.clamp)),
        high(high_of(epilogue.clamp)), step(y_scale) {}

  // Finishes rows of n sums, step_of_sums apart, for channels from k on. Rows of y are y_step apart. t(r) is the scale
  // of x for row r.
  template <class T>
  [[gnu::always_inline]] void operator()(const float* sums, int step_of_sums, int rows, int n, int k, const T& t,
                                         Float8E4M3* y, ptrdiff_t y_step) const {
    const F least = V::set(low), most = V::set(high), divisor = V::set(step);
    each_vector<V>(
        n, [&](int i, auto lanes) __attribute__((always_inline)) {
          const F c = per_channel ? load<V>(scale + k + i, lanes) : V::set(scale[0]);
          const F b = bias ? load<V>(bias.data + k + i, lanes) : V::set(-0.0f);  // adding -0 changes no number
          for (int r = 0; r < rows; ++r) {
            const F scaled = V::mul(load<V>(sums + ptrdiff_t(r) * step_of_sums + i, lanes), V::mul(V::set(t(r)), c));
            const F clamped = V::min(most, V::max(least, V::add(scaled, b)));
            store_saturated<V>(y + ptrdiff_t(r) * y_step + i, V::div(clamped, divisor), lanes);
          }
        });
  }
};

}  // namespace nacre::inline NACRE_ISA
