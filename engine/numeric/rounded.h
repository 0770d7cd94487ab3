// Rounded computes in T: every result is rounded to T, as if T had the operations. Keras computes so in its compute
// type.
//
//   Rounded<Bfloat16>{x} * Rounded<Bfloat16>{scale}
//
// For the 16-bit types, float32 results are rounded once more. The result is the same as with one rounding, because
// 24 bits are at least 2 p + 2 for p = 11 and p = 8 (Figueroa 1995). Quotients and products that are subnormal in T
// are rounded from 24 bits too.
#pragma once

#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

template <class T>
struct Rounded {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, float>;
  T value;

  constexpr explicit Rounded(T v) : value(v) {}
  static constexpr Rounded of(double v) { return Rounded(T(v)); }     // a constant
  static constexpr Rounded of(int v) { return Rounded(T(Wide(v))); }  // |v| <= 2^24; no float64 on a microcontroller
  constexpr Wide wide() const { return Wide(value); }

  friend constexpr Rounded operator+(Rounded a, Rounded b) { return Rounded(T(a.wide() + b.wide())); }
  friend constexpr Rounded operator-(Rounded a, Rounded b) { return Rounded(T(a.wide() - b.wide())); }
  friend constexpr Rounded operator*(Rounded a, Rounded b) { return Rounded(T(a.wide() * b.wide())); }
  friend constexpr Rounded operator/(Rounded a, Rounded b) { return Rounded(T(a.wide() / b.wide())); }
};

}  // namespace nacre::inline NACRE_ISA
