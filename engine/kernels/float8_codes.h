// saturated() of the float8 formats (numeric/small_float.h) over vectors V, to the bit.
#pragma once

#include <cstring>

#include "engine/kernels/loops.h"

namespace nacre::inline NACRE_ISA {

// |v| as a code: of a normal number the bits of the float32, rounded half to even where the mantissa is cut; below, how
// often the smallest number goes into it.
template <class V, class Q>
[[gnu::always_inline]] inline typename V::I saturated_codes(typename V::F v) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int kCut = 23 - Q::kMantissaBits, kRebias = (127 - Q::kBias) << Q::kMantissaBits;
  constexpr auto kLeastNormal = std::bit_cast<float>(uint32_t(128 - Q::kBias) << 23);
  constexpr auto kSmallestInverse = std::bit_cast<float>(uint32_t(126 + Q::kBias + Q::kMantissaBits) << 23);
  constexpr auto kMost = std::bit_cast<float>(uint32_t(Q::kMax + kRebias) << kCut);
  const F size = V::min(V::set(kMost), V::abs(v));
  const I bits = V::as_integers(size), cut = V::shift_right(bits, kCut), one = V::set(int32_t{1});
  const I odd = V::sub(cut, V::shift_left(V::shift_right(cut, 1), one));
  const I nearest = V::shift_right(V::add(bits, V::add(odd, V::set(int32_t{(1 << (kCut - 1)) - 1}))), kCut);
  const I normal = V::sub(nearest, V::set(int32_t{kRebias}));
  const I small = V::round_even(V::mul(V::min(V::set(kLeastNormal), size), V::set(kSmallestInverse)));
  const F code = V::select(V::less(size, V::set(kLeastNormal)), V::as_float(small), V::as_float(normal));
  const F known = V::select(V::is_nan(v), V::as_float(V::set(int32_t{Q::kNan})), code);
  return V::add(V::as_integers(known), V::shift_left(V::shift_right(V::as_integers(v), 31), V::set(int32_t{7})));
}
template <class V, class Q>
[[gnu::always_inline]] inline void store_saturated(Q* q, typename V::F v, auto n) {
  store_codes<V>(reinterpret_cast<int8_t*>(q), saturated_codes<V, Q>(v), n);
}

template <class V>
[[gnu::always_inline]] inline typename V::F load_float8(const Float8E4M3* q, auto n) {
  return load<V>(q, n);
}
// The upper byte of a float16.
template <class V>
[[gnu::always_inline]] inline typename V::F load_float8(const Float8E5M2* q, auto n) {
  Float16 wide[V::kLanes] = {};
  int count = V::kLanes;
  if constexpr (!std::is_same_v<decltype(n), Whole>) count = n;
  for (int i = 0; i < count; ++i) wide[i].bits = uint16_t(q[i].bits << 8);
  return V::load(wide);
}

}  // namespace nacre::inline NACRE_ISA
