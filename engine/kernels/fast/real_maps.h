// Computes y_i = f(x_i) of real numbers. Each function f is compiled once, for float32. Rows of 16-bit numbers become
// float32 piece by piece and are rounded once, after the function.
#pragma once

#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/ops/real_functions.h"
#include "engine/ops/unary.h"
#include "engine/simd/math.h"

namespace nacre::inline NACRE_ISA {

// The functions of activation.h, gelu.h and unary.h. a and b are alpha and gamma, or bounds.
template <class V>
struct RealFunctions {
  using F = typename V::F;
  using Math = VectorMath<V>;

  static F one() { return V::set(1.0f); }
  static F zero() { return V::set(0.0f); }
  static F minus(F v) { return V::mul(v, V::set(-1.0f)); }

  static F clamp(F v, F low, F high) { return V::min(high, V::max(low, v)); }  // NaN stays NaN
  static F leaky_relu(F v, F a, F) { return V::select(V::less(zero(), v), v, V::mul(a, v)); }
  static F sigmoid(F v, F, F) { return Math::sigmoid(v); }
  static F tanh(F v, F, F) { return Math::tanh(v); }
  static F hard_swish(F v, F, F) {
    const F gate = clamp(V::add(v, V::set(3.0f)), zero(), V::set(6.0f));
    return V::mul(V::mul(v, gate), V::set(1.0f / 6));
  }
  static F silu(F v, F, F) { return V::div(v, V::add(one(), Math::exp(minus(v)))); }

  // Returns v Phi(v). Phi(v) = erfc(-v / sqrt(2)) / 2; for v < 0 it is e^(-v^2 / 2) erfc_scaled(|v| / sqrt(2)) / 2.
  static F gelu(F v, F, F) {
    const F power = Math::exp(V::mul(V::mul(v, v), V::set(-0.5f)));
    const F tail = V::mul(Math::erfc_scaled(V::mul(V::abs(v), V::set(float(RealFunction::kSqrtHalf)))),
                          V::mul(power, V::set(0.5f)));
    return V::mul(v, V::select(V::less(zero(), v), V::sub(one(), tail), tail));
  }
  static F gelu_tanh(F v, F, F) {
    const F cube = V::mul(V::mul(V::mul(V::set(float(RealFunction::kGeluCubic)), v), v), v);
    const F exponent = V::mul(V::set(-2 * float(RealFunction::kSqrt2OverPi)), V::add(v, cube));
    return V::mul(v, V::div(one(), V::add(one(), Math::exp(exponent))));
  }

  static F exp(F v, F, F) { return Math::exp(v); }
  static F log(F v, F, F) { return Math::log(v); }
  static F sqrt(F v, F, F) { return V::sqrt(v); }
  static F rsqrt(F v, F, F) { return V::div(one(), V::sqrt(v)); }
  static F reciprocal(F v, F, F) { return V::div(one(), v); }
  static F abs(F v, F, F) { return V::abs(v); }
  static F neg(F v, F, F) { return minus(v); }
  static F floor(F v, F, F) { return V::floor(v); }
  static F ceil(F v, F, F) { return minus(V::floor(minus(v))); }
  static F round(F v, F, F) { return V::nearest(v); }
  static F sign(F v, F, F) {
    return V::select(V::less(zero(), v), one(), V::select(V::less(v, zero()), V::set(-1.0f), V::add(v, zero())));
  }
  static F square(F v, F, F) { return V::mul(v, v); }
  static F softplus(F v, F, F) { return V::add(V::max(zero(), v), Math::log1p(Math::exp(minus(V::abs(v))))); }
  static F elu(F v, F a, F) { return V::select(V::less(zero(), v), v, V::mul(a, Math::expm1(v))); }
  static F selu(F v, F a, F b) { return V::mul(b, elu(v, a, b)); }
  static F erf(F v, F, F) { return Math::erf(v); }
  static F softsign(F v, F, F) { return V::div(v, V::add(one(), V::abs(v))); }
  static F sin(F v, F, F) {
    if (V::any(V::less(V::set(Math::kMostRadians), V::abs(v))))
      return each(v, [](float x) { return __builtin_sinf(x); });
    return Math::sine(v, 0);
  }
  static F cos(F v, F, F) {
    if (V::any(V::less(V::set(Math::kMostRadians), V::abs(v))))
      return each(v, [](float x) { return __builtin_cosf(x); });
    return Math::sine(v, 1);
  }

 private:
  [[gnu::cold, gnu::noinline]] static F each(F v, float (*f)(float)) {
    alignas(64) float lanes[V::kLanes];
    V::store(lanes, v);
    for (float& lane : lanes) lane = f(lane);
    return V::load(lanes);
  }
};

struct RealMap {
  struct Numbers {
    float a, b;
  };
  using Function = void(const float* x, float* y, int count, const Numbers& numbers);

  template <class V, auto kFunction>
  [[gnu::noinline]] static void run(const float* x, float* y, int count, const Numbers& numbers) {
    const typename V::F a = V::set(numbers.a), b = V::set(numbers.b);
    for (int i = 0; i < count; i += V::kLanes) {  // the last vector runs the same copy of the function
      const int n = V::most(count - i);
      if (n == V::kLanes) V::store(y + i, kFunction(V::load(x + i), a, b));
      else V::store(y + i, kFunction(V::load(x + i, n), a, b), n);
    }
  }

  // Applies f to all numbers, which the workers share. Each number takes kOfFunction or kOfBound
  // multiply-accumulates.
  static constexpr uint64_t kOfFunction = 32, kOfBound = 2;
  template <class V, class T>
  static void apply(Function* f, const T* x, T* y, int count, const Numbers& numbers, const Args& args,
                    uint64_t each = kOfFunction) {
    in_runs_of_numbers(args, count, each, [&](int first, int n, std::span<std::byte>) {
      apply_here<V>(f, x + first, y + first, n, numbers);
    });
  }

 private:
  template <class V, class T>
  [[gnu::noinline]] static void apply_here(Function* f, const T* x, T* y, int count, const Numbers& numbers) {
    if constexpr (std::is_same_v<T, float>) {
      f(x, y, count, numbers);
    } else {
      constexpr int kPiece = 64;
      alignas(64) float piece[kPiece];
      for (int i = 0; i < count; i += kPiece) {
        const int n = count - i < kPiece ? count - i : kPiece;
        to_floats<V>(piece, x + i, n);
        f(piece, piece, n, numbers);
        from_floats<V>(y + i, piece, n);
      }
    }
  }

 public:
  template <class V>
  static Function* of_unary(uint32_t function) {
    using R = RealFunctions<V>;
    static constexpr Function* kFunctions[] = {
        nullptr,
        &run<V, &R::exp>,
        &run<V, &R::log>,
        &run<V, &R::sqrt>,
        &run<V, &R::rsqrt>,
        &run<V, &R::reciprocal>,
        &run<V, &R::abs>,
        &run<V, &R::neg>,
        &run<V, &R::floor>,
        &run<V, &R::ceil>,
        &run<V, &R::round>,
        &run<V, &R::sign>,
        &run<V, &R::square>,
        &run<V, &R::softplus>,
        &run<V, &R::elu>,
        &run<V, &R::selu>,
        &run<V, &R::erf>,
        &run<V, &R::softsign>,
        &run<V, &R::sin>,
        &run<V, &R::cos>,
    };
    static_assert(sizeof kFunctions / sizeof *kFunctions == Unary::kLast + 1);
    return kFunctions[function];
  }
};

}  // namespace nacre::inline NACRE_ISA
