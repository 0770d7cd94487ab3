// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include <cstring>

#include "engine/kernels/fast/code_scale.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/pointwise/formats.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/kernels/fast/real_maps.h"
#include "engine/kernels/fast/runs.h"

namespace nacre::inline NACRE_ISA {

// ---- Two elements.

inline float low_real(const Clamp& clamp) {
  return clamp.kind == Clamp::kNone ? -__builtin_inff() : std::bit_cast<float>(clamp.low);
}
inline float high_real(const Clamp& clamp) {
  return clamp.kind == Clamp::kNone ? __builtin_inff() : std::bit_cast<float>(clamp.high);
}

// Computes y_i = clamp(a_i + sign b_i), or clamp(a_i b_i).
template <class V, class T, bool kProduct>
struct RealRuns {
  using F = typename V::F;

  const T *a, *b;
  T* y;
  float sign, low, high;

  static constexpr uint64_t kOfReal = 2;  // one number's time in multiply-accumulates (fast/parallel.h)

  void run(const Walk<2>& walk, const Args& args) const {
    constexpr RunFunctions kAlong = {&along<1, 1>, &along<0, 1>, &along<1, 0>};
    each_run(walk, kAlong, this, args, kOfReal);
  }

 private:
  template <int kA, int kB>
  static void along(const void* context, const RunAt& at) {
    const RealRuns& self = *static_cast<const RealRuns*>(context);
    const T *const a = self.a + at.a, *const b = self.b + at.b;
    T* const y = self.y + at.y;
    const F low = V::set(self.low), high = V::set(self.high), sign = V::set(self.sign);
    const F first = V::set(float(*a)), second = V::set(float(*b));
    each_vector<V>(at.count, [&](int i, auto n) {
      const F u = kA == 0 ? first : load<V>(a + i, n), v = kB == 0 ? second : load<V>(b + i, n);
      const F value = kProduct ? V::mul(u, v) : V::fma(v, sign, u);
      store<V>(y + i, V::min(high, V::max(low, value)), n);  // NaN stays NaN
    });
  }
};

template <class T, int kSign>
void FastSum<T, kSign>::run(const T* a, const T* b, T* y, const Args& args) const {
  RealRuns<Vector, T, false>{a, b, y, float(kSign), low_real(op.clamp), high_real(op.clamp)}.run(op.walk, args);
}
template <class T>
void FastProduct<T>::run(const T* a, const T* b, T* y, const Args& args) const {
  RealRuns<Vector, T, true>{a, b, y, 0, low_real(op.clamp), high_real(op.clamp)}.run(op.walk, args);
}

inline int32_t low_code(const Clamp& clamp) { return clamp.kind == Clamp::kNone ? -128 : int32_t(clamp.low); }
inline int32_t high_code(const Clamp& clamp) { return clamp.kind == Clamp::kNone ? 127 : int32_t(clamp.high); }

template <class V>
struct CodeSum {  // NUMERICS.md eq. 6
  float of_a, of_b;
  PairScale<V> a, b, y;
  int32_t left_shift;
  bool minus;  // whether the function is a - b

  auto real(int32_t za, int32_t zb) const {
    const float zero = -(float(za) * of_a + float(zb) * of_b);
    return [fa = V::set(of_a), fb = V::set(of_b), c = V::set(zero)](typename V::I u, typename V::I v) {
      return V::fma(V::to_float(u), fa, V::fma(V::to_float(v), fb, c));
    };
  }
  typename V::I exact(typename V::I u, typename V::I v) const {
    const typename V::I left = V::set(left_shift), first = a(V::shift_left(u, left)),
                        second = b(V::shift_left(v, left));
    return y(minus ? V::sub(first, second) : V::add(first, second));
  }
};
[[gnu::noinline]] inline void code_sum(const Sum& op, Rounding rounding, float sign, const int8_t* a, const int8_t* b,
                                       const int32_t* requant, int8_t* y, const Args& args) {
  using V = Vector;
  bool exact = false;
  const float last = real_scale(requant + 4, 30, exact), shifted = power_of_two(op.left_shift);
  const float of_a = real_scale(requant, 30, exact) * shifted * last,
              of_b = real_scale(requant + 2, 30, exact) * shifted * last;
  const CodeBounds range = {op.y_zero, low_code(op.clamp), high_code(op.clamp), 0};
  const CodeRuns<V, CodeSum<V>, int8_t, int8_t> runs = {
      {of_a, sign * of_b, PairScale<V>(rounding, requant), PairScale<V>(rounding, requant + 2),
       PairScale<V>(rounding, requant + 4), op.left_shift, sign < 0},
      range.with_limit(2 * last + moved_by(rounding, requant + 4), 256 * (of_a + of_b), exact),
      op.a_zero,
      op.b_zero,
      a,
      b,
      y};
  runs.run(op.walk, args);
}
template <Rounding kRounding, int kSign>
void FastCodeSum<kRounding, kSign>::run(const int8_t* a, const int8_t* b, const int32_t* requant, int8_t* y,
                                        const Args& args) const {
  code_sum(op, kRounding, float(kSign), a, b, requant, y, args);
}

template <class V>
struct CodeProduct {  // NUMERICS.md eq. 7
  float scale, moved;
  PairScale<V> pair;

  auto real(int32_t a_zero, int32_t b_zero) const {
    return [f = V::set(scale), away = MovedAway<V>(moved), za = V::set(a_zero), zb = V::set(b_zero)](typename V::I u,
                                                                                                     typename V::I v) {
      return away(V::mul(V::mul(V::to_float(V::sub(u, za)), V::to_float(V::sub(v, zb))), f));
    };
  }
  typename V::I exact(typename V::I u, typename V::I v) const { return pair(V::mul(u, v)); }
};
[[gnu::noinline]] inline void code_product(const Product& op, Rounding rounding, const int8_t* a, const int8_t* b,
                                           const int32_t* requant, int8_t* y, const Args& args) {
  using V = Vector;
  bool exact = false;
  const float scale = real_scale(requant, 16, exact);
  const CodeBounds range = {op.y_zero, low_code(op.clamp), high_code(op.clamp), 0};
  const CodeRuns<V, CodeProduct<V>, int8_t, int8_t> runs = {
      {scale, moved_by(rounding, requant), PairScale<V>(rounding, requant)},
      range.with_limit(0, 65536 * scale, exact),
      op.a_zero,
      op.b_zero,
      a,
      b,
      y};
  runs.run(op.walk, args);
}
template <Rounding kRounding>
void FastCodeProduct<kRounding>::run(const int8_t* a, const int8_t* b, const int32_t* requant, int8_t* y,
                                     const Args& args) const {
  code_product(op, kRounding, a, b, requant, y, args);
}

// ---- One code.

template <class V>
struct CodeScale {  // NUMERICS.md eq. 8
  float scale, moved;
  PairScale<V> pair;

  auto real(int32_t zero, int32_t) const {
    return [f = V::set(scale), away = MovedAway<V>(moved), z = V::set(zero)](typename V::I u, typename V::I) {
      return away(V::mul(V::to_float(V::sub(u, z)), f));
    };
  }
  typename V::I exact(typename V::I u, typename V::I) const { return pair(u); }
};
template <class X, class Y>
[[gnu::noinline]] void scale_codes(const CodeBounds& range, Rounding rounding, int x_zero, int elements, const X* x,
                                   const int32_t* requant, Y* y, const Args& args) {
  using V = Vector;
  bool exact = false;
  const float scale = real_scale(requant, 10, exact);
  const CodeRuns<V, CodeScale<V>, X, Y> runs = {{scale, moved_by(rounding, requant), PairScale<V>(rounding, requant)},
                                                range.with_limit(0, 512 * scale, exact),
                                                x_zero,
                                                0,
                                                x,
                                                x,
                                                y};
  in_runs_of_numbers(args, elements, runs.kOfCode, [&](int first, int count, std::span<std::byte>) {
    runs.template along<1, 0>(&runs, {first, first, first, count});
  });
}

template <Rounding kRounding>
void FastCodeClamp<kRounding>::run(const int8_t* x, Optional<const int32_t> requant, int8_t* y,
                                   const Args& args) const {
  constexpr int32_t kOne[] = {1 << 30, 1};
  scale_codes({op.y_zero, low_code(op.clamp), high_code(op.clamp), 0}, kRounding, op.x_zero, op.elements, x,
              requant ? requant.data : kOne, y, args);
}
template <Rounding kRounding, class X, class Y>
void FastRequantize<kRounding, X, Y>::run(const X* x, const int32_t* requant, Y* y, const Args& args) const {
  constexpr int32_t kLow = std::is_same_v<Y, int8_t> ? -128 : 0;
  scale_codes({op.y_zero, kLow, kLow + 255, 0}, kRounding, op.x_zero, op.elements, x, requant, y, args);
}

inline void look_up(const int8_t* middle, const int8_t* x, int8_t* y, int elements) {
  int i = 0;
  for (; i + 8 <= elements; i += 8) {  // one load of eight codes
    uint64_t codes, values = 0;
    std::memcpy(&codes, x + i, sizeof codes);
    for (int j = 0; j < 8; ++j) values |= uint64_t{uint8_t(middle[int8_t(codes >> 8 * j)])} << 8 * j;
    std::memcpy(y + i, &values, sizeof values);
  }
  for (; i < elements; ++i) y[i] = middle[x[i]];
}
inline void FastLookup::run(const int8_t* x, const int8_t* table, int8_t* y, const Args& args) const {
  constexpr uint64_t kOfLookup = 24;  // one code's time in multiply-accumulates (fast/parallel.h)
  in_runs_of_numbers(args, elements, kOfLookup, [&](int first, int count, std::span<std::byte>) {
    look_up(table + 128, x + first, y + first, count);
  });
}

// ---- One real number.

template <class T>
void FastClamp<T>::run(const T* x, T* y, const Args& args) const {
  RealMap::apply<Vector>(&RealMap::run<Vector, &RealFunctions<Vector>::clamp>, x, y, op.elements,
                         {low_real(op.clamp), high_real(op.clamp)}, args, RealMap::kOfBound);
}

template <class T, RealOp kOp>
void FastReal<T, kOp>::run(const T* x, T* y, const Args& args) const {
  using V = Vector;
  using R = RealFunctions<V>;
  RealMap::Function* f = &RealMap::run<V, &R::leaky_relu>;
  if constexpr (kOp == RealOp::kSigmoid) f = &RealMap::run<V, &R::sigmoid>;
  if constexpr (kOp == RealOp::kTanh) f = &RealMap::run<V, &R::tanh>;
  if constexpr (kOp == RealOp::kHardSwish) f = &RealMap::run<V, &R::hard_swish>;
  if constexpr (kOp == RealOp::kGelu) f = word != 0 ? &RealMap::run<V, &R::gelu_tanh> : &RealMap::run<V, &R::gelu>;
  if constexpr (kOp == RealOp::kSilu) f = &RealMap::run<V, &R::silu>;
  RealMap::apply<V>(f, x, y, elements, {std::bit_cast<float>(word), 0}, args);
}

template <class T>
void FastUnary<T>::run(const T* x, T* y, const Args& args) const {
  RealMap::apply<Vector>(RealMap::of_unary<Vector>(op.function), x, y, op.elements, {op.alpha, op.gamma}, args);
}

}  // namespace nacre::inline NACRE_ISA
