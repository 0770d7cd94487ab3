// Epilogues turn the sum s of an output's products into y, in dense and the convolutions. This is the list of their
// forms. The types of the operands tell most forms apart.
//
//   form              operands after x, w, bias    y of output channel k; n is the row of x that a scale t belongs to
//
//   float             none                         clamp(s + b_k)
//   fused             residual r [as y], or none   f(s + b_k + r): fused_epilogue.h
//   int8              scale                        clamp(zero_y + requant_k(s + b_k)): NUMERICS.md eq. 1
//   int8 to int16     scale                        saturate(requant_k(s + b_k)), in dense only: stream_lstm.h, svdf.h
//   int16             scale                        weights are int8; int64 b: in 64 bits, NUMERICS.md eq. 23
//   weight-only       scale [1 | out]              clamp(s c_k + b_k), or clamp(s / c_k + b_k) with form = reciprocal
//   grouped           scale, zero [out, groups]    clamp(s + b_k), weights c_kg (q - z_kg), g = i / block of term i
//   dynamic           scale [1 | out], x_scale     clamp(s / (c_k t_n) + b_k), every operation rounded: Keras' int8
//   hybrid            the same, and x_zero         clamp(s (t_n c_k) + b_k): TFLite, NUMERICS.md eq. 13
//   float8            scale [1 | out], x_scale     clamp(s (t_n c_k) + b_k): NUMERICS.md section 9
//   float8 quantized  the same, and y_scale        saturated(clamp(s (t_n c_k) + b_k) / u), u = y_scale
//
// Every operation rounds to T, the 16-bit type of bias and y, if scales are of T too (NUMERICS.md section 14):
//
//   weight-only       clamp(T(T(T(s) c_k) + b_k)), or with T(T(s) / c_k)
//   grouped           clamp(T(T(s) + b_k)), weights T(c_kg (q - z_kg))
//   float8            clamp(T(T(s) + b_k)), terms T(x_i t_n) T(w_ki c_k)
//
// x_scale has one value for each row that dynamic_quantize sees, or one for all. The rows of dense are the leading
// dims of x; a convolution has [batch]. The hybrid form has one value for each row of axis 0. b is 0 if there is no
// bias. Sums of 16-bit floats are float32. Unless scales are of T, the scales, bias and clamp are applied before the
// one rounding to the type of y.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/policy.h"
#include "engine/numeric/rounded.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

// True for scales of a 16-bit type: every operation rounds to that type.
template <class S>
inline constexpr bool kRoundsEach = !std::is_floating_point_v<S>;

// Returns the code of a weight or an activation times its scale, rounded to the type of the scale.
template <class T>
constexpr T decoded(float code, T scale) {
  return T(code * float(scale));
}

// The attributes of an epilogue, and its forms. scale has one value, or one per output channel k.
struct Epilogue {
  Clamp clamp;
  int y_zero;
  bool per_channel;

  // Finishes a sum to which scales are already applied: returns clamp(sum + b_k), rounded to T, then to Y. Y differs
  // from T in a step with a fused cast, and the result is the same as that of two steps.
  template <class T, class Y = T, class A>
  constexpr Y real(A sum, Optional<const T> b, int k) const {
    const A v = clamp.real(b ? sum + A(b[k]) : sum);
    if constexpr (std::is_same_v<T, Y>) return T(v);
    else return Y(A(T(v)));
  }

  template <Rounding kRounding>
  constexpr int8_t int8(int32_t sum, Optional<const int32_t> b, const typename Requant<kRounding>::Stored* scale,
                        int k) const {
    if (b) sum = wrapping_add(sum, b[k]);
    return clamp.code(wrapping_add(Requant<kRounding>::apply(sum, scale, scale_index(k)), y_zero));
  }

  // Makes int16 codes with zero point 0 from the sums of int8 operands, for loops over time.
  constexpr int16_t int8_to_int16(int32_t sum, Optional<const int32_t> b, const int32_t* scale, int k) const {
    if (b) sum = wrapping_add(sum, b[k]);
    const int32_t v = Requant<Rounding::kDouble>::apply(sum, scale, scale_index(k));
    return int16_t(v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : v);
  }

  // Finishes the sum for int16 x, in 32 bits as int8() does. If biases have 64 bits, or the result is rounded once, it
  // works in 64 bits.
  template <Rounding kRounding = Rounding::kDouble, class B>
  constexpr int16_t int16(int64_t sum, const B* b, const int32_t* scale, int k) const {
    const FixedPoint m = {scale[2 * scale_index(k)], scale[2 * scale_index(k) + 1]};
    if (b != nullptr) sum = int64_t(uint64_t(sum) + uint64_t(int64_t{b[k]}));
    if constexpr (kRounding == Rounding::kSingle) return clamp.code<int16_t>(multiply_wide_single(sum, m));
    else if constexpr (sizeof(B) == 8) return clamp.code<int16_t>(multiply_wide(sum, m));
    else return clamp.code<int16_t>(multiply<Rounding::kDouble>(int32_t(sum), m));
  }

  // Returns clamp(v + b_k), rounded to T after the addition and after the clamp.
  template <class T>
  constexpr T each(Rounded<T> v, Optional<const T> b, int k) const {
    return T(clamp.real((b ? v + Rounded<T>(b[k]) : v).wide()));
  }

  template <class T, class A, class S>
  constexpr T weight_only(A sum, Optional<const T> b, const S* scale, uint32_t form, int k) const {
    const bool divides = form == uint32_t(ScaleForm::kReciprocal);
    if constexpr (kRoundsEach<S>) {
      const Rounded<T> v(T{sum}), c(scale[scale_index(k)]);
      return each<T>(divides ? v / c : v * c, b, k);
    } else {
      const A c = A(scale[scale_index(k)]);
      return real<T>(divides ? sum / c : sum * c, b, k);
    }
  }

  // Finishes sums of grouped weights and of float8 codes, whose scales are in the sum already.
  template <class T, class S, class A>
  constexpr T scaled_in_sum(A sum, Optional<const T> b, int k) const {
    if constexpr (kRoundsEach<S>) return each<T>(Rounded<T>(T{sum}), b, k);
    else return real<T>(sum, b, k);
  }

  // Finishes the sum of the dynamic form. The sum becomes a T by way of float32, as in Eigen and ml_dtypes.
  template <class T>
  constexpr T dynamic(int32_t sum, Optional<const T> b, const T* scale, T x_scale, int k) const {
    using R = Rounded<T>;
    const R v = R(T(typename R::Wide(sum))) / (R(scale[scale_index(k)]) * R(x_scale));
    return T(clamp.real((b ? v + R(b[k]) : v).wide()));
  }

  // Finishes the sum of the forms hybrid (T = float) and float8.
  template <class T>
  constexpr T scaled(float sum, Optional<const T> b, const float* scale, float x_scale, int k) const {
    return real<T>(sum * (x_scale * scale[scale_index(k)]), b, k);
  }
  constexpr Float8E4M3 float8_quantized(float sum, Optional<const float> b, const float* scale, float x_scale,
                                        float y_scale, int k) const {
    return Float8E4M3::saturated(scaled<float>(sum, b, scale, x_scale, k) / y_scale);
  }

  constexpr int scale_index(int k) const { return per_channel ? k : 0; }
};

}  // namespace nacre::inline NACRE_ISA
