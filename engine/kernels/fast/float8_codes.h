// Converts vectors V to codes of Float8E4M3 and Float8E5M2 with the bits of saturated() (numeric/small_float.h), and
// loads such codes.
#pragma once

#include <cstring>

#include "engine/kernels/fast/loops.h"

namespace nacre::inline NACRE_ISA {

// Returns v as a code. Let e be the exponent of v, at least that of the least normal number, and m the bits of the
// code's mantissa. Then |v| + 2^(e + 23 - m) is rounded half to even to units of 2^(e - m), and its last bits count
// these units. Each exponent adds 2^m codes.
template <class V, class Q>
[[gnu::always_inline]] inline typename V::I saturated_codes(typename V::F v) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int kBits = Q::kMantissaBits, kCut = 23 - kBits, kLeast = 128 - Q::kBias;  // exponents as in float32
  constexpr auto kMost = std::bit_cast<float>(uint32_t(Q::kMax + ((kLeast - 1) << kBits)) << kCut);
  const F size = V::min(V::set(kMost), V::abs(v));
  const I exponent = V::shift_right(V::as_integers(size), 23);
  const I above = V::max(V::set(int32_t{0}), V::sub(exponent, V::set(int32_t{kLeast})));
  const I counter = V::add(V::shift_left(above, V::set(int32_t{23})), V::set(int32_t{(kLeast + kCut) << 23}));
  const I units = V::sub(V::as_integers(V::add(size, V::as_float(counter))), counter);
  const I code = V::add(units, V::shift_left(above, V::set(int32_t{kBits})));
  const F known = V::select(V::is_nan(v), V::as_float(V::set(int32_t{Q::kNan})), V::as_float(code));
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
// A code of Float8E5M2 is the upper byte of a float16.
template <class V>
[[gnu::always_inline]] inline typename V::F load_float8(const Float8E5M2* q, auto n) {
  Float16 wide[V::kLanes] = {};
  int count = V::kLanes;
  if constexpr (!std::is_same_v<decltype(n), Whole>) count = n;
  for (int i = 0; i < count; ++i) wide[i].bits = uint16_t(q[i].bits << 8);
  return V::load(wide);
}

}  // namespace nacre::inline NACRE_ISA
