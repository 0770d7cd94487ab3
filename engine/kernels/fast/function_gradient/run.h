// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/function_gradient/forms.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/real_maps.h"

// Functions are flattened and lambdas inlined, because a call costs more than its work if vectors are plain C++.
namespace nacre::inline NACRE_ISA {

// Computes z_i = f(x_i, y_i) of real numbers. Each function f is compiled once, for float32.
struct GradientMap {
  struct Numbers {
    float a, b;
  };
  using Function = void(const float* x, const float* y, float* z, int count, const Numbers& numbers);

  template <class V, auto kFunction>
  [[gnu::noinline, gnu::flatten]] static void run(const float* x, const float* y, float* z, int count,
                                                  const Numbers& numbers) {
    const typename V::F a = V::set(numbers.a), b = V::set(numbers.b);
    for (int i = 0; i < count; i += V::kLanes) {  // the last vector runs the same copy of the function
      const int n = V::most(count - i);
      if (n == V::kLanes) V::store(z + i, kFunction(V::load(x + i), V::load(y + i), a, b));
      else V::store(z + i, kFunction(V::load(x + i, n), V::load(y + i, n), a, b), n);
    }
  }

  // Applies f to all numbers, which the workers share.
  template <class V, class T>
  static void apply(Function* f, const T* x, const T* y, T* z, int count, const Numbers& numbers, const Args& args) {
    in_runs_of_numbers(args, count, RealMap::kOfFunction, [&](int first, int n, std::span<std::byte>) {
      apply_here<V>(f, x + first, y + first, z + first, n, numbers);
    });
  }

 private:
  template <class V, class T>
  [[gnu::noinline]] static void apply_here(Function* f, const T* x, const T* y, T* z, int count,
                                           const Numbers& numbers) {
    if constexpr (std::is_same_v<T, float>) {
      f(x, y, z, count, numbers);
    } else {
      constexpr int kPiece = 64;
      alignas(64) float first[kPiece], second[kPiece];
      for (int i = 0; i < count; i += kPiece) {
        const int n = count - i < kPiece ? count - i : kPiece;
        to_floats<V>(first, x + i, n);
        to_floats<V>(second, y + i, n);
        f(first, second, first, n, numbers);
        from_floats<V>(z + i, first, n);
      }
    }
  }
};

// Functions that return dx for d = dy at v = x. Their last parameters a and b are alpha and gamma of unary.h.
template <class V>
struct Slopes {
  using F = typename V::F;
  using Math = VectorMath<V>;

  static F one() { return V::set(1.0f); }
  static F zero() { return V::set(0.0f); }
  static F minus(F v) { return V::mul(v, V::set(-1.0f)); }
  static F gate(F v) { return V::div(one(), V::add(one(), Math::exp(minus(v)))); }  // 1 / (1 + e^-v)

  // Returns d (Phi + v exp(-v^2 / 2) / sqrt(2 pi)), with Phi of v as in RealFunctions::gelu.
  static F gelu(F v, F d, F, F) {
    const F power = Math::exp(V::mul(V::mul(v, v), V::set(-0.5f)));
    const F tail = V::mul(Math::erfc_scaled(V::mul(V::abs(v), V::set(float(RealFunction::kSqrtHalf)))),
                          V::mul(power, V::set(0.5f)));
    const F phi = V::select(V::less(zero(), v), V::sub(one(), tail), tail);
    return V::mul(d, V::fma(V::mul(v, power), V::set(float(Gelu::kInverseSqrt2Pi)), phi));
  }
  // Returns d (Phi + v Phi (1 - Phi) 2 u') of gelu.h. Far from 0, where v^2 may be infinite, Phi (1 - Phi) is 0.
  static F gelu_tanh(F v, F d, F, F) {
    constexpr float kSlope = float(2 * RealFunction::kSqrt2OverPi), kCubic = float(RealFunction::kGeluCubic);
    const F square = V::mul(v, v);
    const F phi = gate(V::mul(V::mul(V::set(kSlope), v), V::fma(V::set(kCubic), square, one())));
    const F bend = V::mul(phi, V::sub(one(), phi));
    const F inner = V::mul(V::set(kSlope), V::fma(V::set(3 * kCubic), square, one()));
    const F slope = V::fma(V::mul(v, bend), inner, phi);
    return V::mul(d, V::select(V::less(zero(), bend), slope, V::select(V::is_nan(bend), bend, phi)));
  }
  static F silu(F v, F d, F, F) {
    const F s = gate(v);
    return V::mul(V::mul(d, s), V::fma(v, V::sub(one(), s), one()));
  }

  static F exp(F d, F v, F, F) { return V::mul(d, Math::exp(v)); }
  static F log(F d, F v, F, F) { return V::div(d, v); }
  static F sqrt(F d, F v, F, F) { return V::div(d, V::mul(V::set(2.0f), V::sqrt(v))); }
  static F rsqrt(F d, F v, F, F) { return V::div(minus(d), V::mul(V::mul(V::set(2.0f), v), V::sqrt(v))); }
  static F reciprocal(F d, F v, F, F) { return V::div(minus(d), V::mul(v, v)); }
  static F abs(F d, F v, F a, F b) { return V::mul(d, RealFunctions<V>::sign(v, a, b)); }
  static F neg(F d, F, F, F) { return minus(d); }
  static F step(F, F v, F, F) { return V::select(V::is_nan(v), v, zero()); }  // floor, ceil, round, sign
  static F square(F d, F v, F, F) { return V::mul(V::mul(V::set(2.0f), v), d); }
  static F softplus(F d, F v, F, F) { return V::div(d, V::add(one(), Math::exp(minus(v)))); }
  static F elu(F d, F v, F a, F) { return V::select(V::less(zero(), v), d, V::mul(V::mul(a, Math::exp(v)), d)); }
  static F selu(F d, F v, F a, F b) { return V::mul(b, elu(d, v, a, b)); }
  static F erf(F d, F v, F, F) {
    return V::mul(V::mul(d, V::set(1.12837916709551257390f)), Math::exp(minus(V::mul(v, v))));  // 2 / sqrt(pi)
  }
  static F softsign(F d, F v, F, F) {
    const F root = V::add(one(), V::abs(v));
    return V::div(d, V::mul(root, root));
  }
};

template <class V>
GradientMap::Function* slope_of_unary(uint32_t function) {
  using S = Slopes<V>;
  static constexpr GradientMap::Function* kFunctions[] = {
      nullptr,
      &GradientMap::run<V, &S::exp>,
      &GradientMap::run<V, &S::log>,
      &GradientMap::run<V, &S::sqrt>,
      &GradientMap::run<V, &S::rsqrt>,
      &GradientMap::run<V, &S::reciprocal>,
      &GradientMap::run<V, &S::abs>,
      &GradientMap::run<V, &S::neg>,
      &GradientMap::run<V, &S::step>,
      &GradientMap::run<V, &S::step>,
      &GradientMap::run<V, &S::step>,
      &GradientMap::run<V, &S::step>,
      &GradientMap::run<V, &S::square>,
      &GradientMap::run<V, &S::softplus>,
      &GradientMap::run<V, &S::elu>,
      &GradientMap::run<V, &S::selu>,
      &GradientMap::run<V, &S::erf>,
      &GradientMap::run<V, &S::softsign>,
  };
  static_assert(sizeof kFunctions / sizeof *kFunctions == Unary::kSoftsign + 1);
  return kFunctions[function];
}

template <class T, bool kGelu>
void FastGateGradient<T, kGelu>::run(const T* x, const T* dy, T* dx, const Args& args) const {
  using V = Vector;
  using S = Slopes<V>;
  GradientMap::Function* function = &GradientMap::run<V, &S::silu>;
  if constexpr (kGelu) function = tanh ? &GradientMap::run<V, &S::gelu_tanh> : &GradientMap::run<V, &S::gelu>;
  GradientMap::apply<V>(function, x, dy, dx, elements, {0, 0}, args);
}
template <class T>
void FastUnaryGradient<T>::run(const T* dy, const T* x, T* dx, const Args& args) const {
  GradientMap::apply<Vector>(slope_of_unary<Vector>(op.function), dy, x, dx, op.elements, {op.alpha, op.gamma}, args);
}

// Makes random words by philox for kCounters counters at a time, in loops that the compiler can vectorize.
struct RandomWords {
  static constexpr int kCounters = 32;
  uint32_t word[4 * kCounters];

  [[gnu::noinline]] void fill(uint32_t first, uint32_t layer, const uint32_t* random) {
    uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters], k0 = random[0], k1 = random[1];
    for (int i = 0; i < kCounters; ++i)
      c0[i] = first + uint32_t(i), c1[i] = layer, c2[i] = random[2], c3[i] = random[3];
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85)
      for (int i = 0; i < kCounters; ++i) {
        const uint64_t p0 = uint64_t{0xD2511F53} * c0[i], p1 = uint64_t{0xCD9E8D57} * c2[i];
        c0[i] = uint32_t(p1 >> 32) ^ c1[i] ^ k0, c1[i] = uint32_t(p1);
        c2[i] = uint32_t(p0 >> 32) ^ c3[i] ^ k1, c3[i] = uint32_t(p0);
      }
    for (int i = 0; i < kCounters; ++i)
      word[4 * i] = c0[i], word[4 * i + 1] = c1[i], word[4 * i + 2] = c2[i], word[4 * i + 3] = c3[i];
  }
};

template <class T>
void FastDropout<T>::run(const T* x, const uint32_t* random, T* y) const {
  using V = Vector;
  const auto dropped = uint32_t(op.rate * 0x1p32f);
  const V::F kept = V::set(1 - op.rate), zero = V::set(0.0f);
  RandomWords words;
  constexpr int kWords = 4 * RandomWords::kCounters;
  alignas(64) float keeps[kWords];
  for (int e = 0; e < op.elements; e += kWords) {
    words.fill(uint32_t(e / 4), op.layer, random);
    for (int i = 0; i < kWords; ++i) keeps[i] = words.word[i] >= dropped ? 1.0f : 0.0f;
    const int count = op.elements - e < kWords ? op.elements - e : kWords;
    each_vector<V>(count, [&](int i, auto n) {
      const V::F scaled = V::div(load<V>(x + e + i, n), kept);
      store<V>(y + e + i, V::select(V::less(zero, V::load(keeps + i)), scaled, zero), n);
    });
  }
}

inline void FastUpdateStatistics::run(const float* sum, const float* batches, Update<float> running) const {
  using V = Vector;
  if (!(batches[0] > 0)) return;
  const V::F count = V::set(batches[0]), keep = V::set(op.momentum), take = V::set(1 - op.momentum);
  each_vector<V>(op.channels, [&](int c, auto n) {
    const V::F mean = V::div(load<V>(sum + c, n), count), old = load<V>(running.data + c, n);
    const V::F next = V::add(V::mul(keep, old), V::mul(take, mean));
    store<V>(running.data + c, V::select(V::is_nan(V::sub(mean, mean)), old, next), n);
  });
}

// ---- Losses of single numbers

template <class V, NumberLoss kLoss>
struct NumberLossOf {
  using F = typename V::F;
  F delta;

  [[gnu::always_inline]] F value(F y, F t) const {
    [[maybe_unused]] const F zero = V::set(0.0f);
    const F d = V::sub(y, t), size = V::abs(d);
    if constexpr (kLoss == NumberLoss::kSigmoid) {
      const F power = VectorMath<V>::exp(V::sub(zero, V::abs(y)));
      return V::add(V::sub(V::max(zero, y), V::mul(y, t)), VectorMath<V>::log1p(power));
    }
    if constexpr (kLoss == NumberLoss::kSquared) return V::mul(d, d);
    if constexpr (kLoss == NumberLoss::kAbsolute) return size;
    const F half = V::set(0.5f), far = V::mul(delta, V::sub(size, V::mul(delta, half)));
    return V::select(V::less(delta, size), far, V::mul(V::mul(d, d), half));
  }
  [[gnu::always_inline]] F slope(F y, F t) const {
    [[maybe_unused]] const F zero = V::set(0.0f), one = V::set(1.0f), d = V::sub(y, t);
    if constexpr (kLoss == NumberLoss::kSigmoid) {
      const F power = VectorMath<V>::exp(V::sub(zero, V::abs(y)));
      return V::sub(V::div(V::select(V::less(y, zero), power, one), V::add(one, power)), t);
    }
    if constexpr (kLoss == NumberLoss::kSquared) return V::mul(V::set(2.0f), d);
    if constexpr (kLoss == NumberLoss::kAbsolute)
      return V::select(V::less(zero, d), one, V::select(V::less(d, zero), V::set(-1.0f), d));
    return V::max(V::sub(zero, delta), V::min(delta, d));  // NaN passes
  }
};

template <class T, NumberLoss kLoss>
[[gnu::flatten]] void FastNumberLoss<T, kLoss>::run(const T* y, const T* t, Update<float> loss,
                                                    Update<float> count) const {
  using V = Vector;
  const NumberLossOf<V, kLoss> f = {V::set(op.delta)};
  float all = 0;
  for (int r = 0; r < op.rows; ++r, y += op.width, t += op.width) {
    V::F even = V::set(0.0f), odd = even;
    int i = 0;
    for (; i + 2 * V::kLanes <= op.width; i += 2 * V::kLanes) {
      even = V::add(even, f.value(V::load(y + i), V::load(t + i)));
      odd = V::add(odd, f.value(V::load(y + i + V::kLanes), V::load(t + i + V::kLanes)));
    }
    for (; i < op.width; i += V::kLanes) {
      const int n = V::most(op.width - i);
      even = V::add(even, V::part(n, f.value(V::load(y + i, n), V::load(t + i, n)), V::set(0.0f)));
    }
    all += V::sum(V::add(even, odd)) / float(op.width);
  }
  loss.data[0] += all;
  count.data[0] += float(op.rows);
}

template <class T, NumberLoss kLoss>
[[gnu::flatten]] void FastNumberLossGradient<T, kLoss>::run(const T* y, const T* t, const float* seed, T* dy) const {
  using V = Vector;
  const NumberLossOf<V, kLoss> f = {V::set(op.delta)};
  const V::F scale = V::set(seed[0] / float(op.width));
  each_vector<V>(
      op.rows * op.width, [&](int i, auto n) __attribute__((always_inline)) {
        store<V>(dy + i, V::mul(scale, f.slope(load<V>(y + i, n), load<V>(t + i, n))), n);
      });
}

}  // namespace nacre::inline NACRE_ISA
