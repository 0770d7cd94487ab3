// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/binary/forms.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/runs.h"

namespace nacre::inline NACRE_ISA {

// The functions of binary.h but pow, and the comparisons of select.h, which give 1 or 0.
template <class V>
struct PairFunctions {
  using F = typename V::F;

  static F div(F u, F v) { return V::div(u, v); }
  static F maximum(F u, F v) { return V::select(V::is_nan(u), u, V::max(u, v)); }
  static F minimum(F u, F v) { return V::select(V::is_nan(u), u, V::min(u, v)); }
  static F squared_difference(F u, F v) { return V::mul(V::sub(u, v), V::sub(u, v)); }
  static F floor_div(F u, F v) { return V::floor(V::div(u, v)); }

  static F one() { return V::set(1.0f); }
  static F zero() { return V::set(0.0f); }
  static F less(F u, F v) { return V::select(V::less(u, v), one(), zero()); }
  static F greater(F u, F v) { return less(v, u); }
  static F less_equal(F u, F v) {
    return V::select(V::less(v, u), zero(), V::select(V::is_nan(u), zero(), ordered(v)));
  }
  static F greater_equal(F u, F v) { return less_equal(v, u); }
  static F equal(F u, F v) { return V::select(V::less(u, v), zero(), less_equal(u, v)); }
  static F not_equal(F u, F v) { return V::sub(one(), equal(u, v)); }

  // Compute u^v for the exponents 2, 3, -1 and 0.5. The exponent is the same for a whole run.
  static F square(F u, F) { return V::mul(u, u); }
  static F cube(F u, F) { return V::mul(V::mul(u, u), u); }
  static F reciprocal(F u, F) { return V::div(one(), u); }
  static F root(F u, F) {  // gives 0 for -0, and infinity for -infinity, as pow does
    const F infinity = V::set(__builtin_inff());
    const F rest = V::select(V::is_nan(u), u, infinity);
    return V::select(V::less(V::sub(zero(), infinity), u), V::sqrt(V::add(u, zero())), rest);
  }

 private:
  static F ordered(F v) { return V::select(V::is_nan(v), zero(), one()); }
};

// Two operands along a run of elements, as float32. A step of 0 repeats one number.
struct PairRun {
  const float *a, *b;
  int a_step, b_step, count;
};
struct PairMap {
  using Function = void(const PairRun& run, float* y);

  template <class V, auto kFunction>
  [[gnu::noinline]] static void run(const PairRun& r, float* y) {
    const typename V::F first = V::set(*r.a), second = V::set(*r.b);
    each_vector<V>(r.count, [&](int i, auto n) {
      const typename V::F u = r.a_step == 0 ? first : load<V>(r.a + i, n);
      const typename V::F v = r.b_step == 0 ? second : load<V>(r.b + i, n);
      store<V>(y + i, kFunction(u, v), n);
    });
  }

  template <class V>
  [[gnu::noinline]] static void pow(const PairRun& r, float* y) {
    using P = PairFunctions<V>;
    if (r.b_step == 0) {
      const float exponent = *r.b;
      if (exponent == 2) return run<V, &P::square>(r, y);
      if (exponent == 3) return run<V, &P::cube>(r, y);
      if (exponent == 0.5f) return run<V, &P::root>(r, y);
      if (exponent == -1) return run<V, &P::reciprocal>(r, y);
    }
    for (int i = 0; i < r.count; ++i) y[i] = __builtin_powf(r.a[i * r.a_step], r.b[i * r.b_step]);
  }

  template <class V>
  static Function* of_binary(uint32_t function) {
    using P = PairFunctions<V>;
    static constexpr Function* kFunctions[] = {nullptr,
                                               &run<V, &P::div>,
                                               &pow<V>,
                                               &run<V, &P::maximum>,
                                               &run<V, &P::minimum>,
                                               &run<V, &P::squared_difference>,
                                               &run<V, &P::floor_div>};
    static_assert(sizeof kFunctions / sizeof *kFunctions == Binary::kLast + 1);
    return kFunctions[function];
  }
  template <class V>
  static Function* of_compare(uint32_t function) {
    using P = PairFunctions<V>;
    static constexpr Function* kFunctions[] = {nullptr,
                                               &run<V, &P::equal>,
                                               &run<V, &P::not_equal>,
                                               &run<V, &P::less>,
                                               &run<V, &P::less_equal>,
                                               &run<V, &P::greater>,
                                               &run<V, &P::greater_equal>};
    static_assert(sizeof kFunctions / sizeof *kFunctions == Compare::kLast + 1);
    return kFunctions[function];
  }
};

// Applies a function to two operands, run by run. If an operand or the result is not float32, in pieces of float32.
template <class V, class T, class Y>
struct PairRuns {
  const T *a, *b;
  Y* y;
  PairMap::Function* function;

  static constexpr uint64_t kOfPair = 8;  // one element's time in multiply-accumulates (fast/parallel.h)

  void run(const Walk<2>& walk, const Args& args) const {
    constexpr RunFunctions kAlong = {&along<1, 1>, &along<0, 1>, &along<1, 0>};
    each_run(walk, kAlong, this, args, kOfPair);
  }

 private:
  template <int kA, int kB>
  static void along(const void* context, const RunAt& at) {
    static_cast<const PairRuns*>(context)->pieces(at, kA, kB);
  }
  [[gnu::noinline]] void pieces(const RunAt& at, int a_step, int b_step) const {
    const T *const first = a + at.a, *const second = b + at.b;
    Y* const to = y + at.y;
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Y, float>) {
      function({first, second, a_step, b_step, at.count}, to);
    } else {
      constexpr int kPiece = 64;
      alignas(64) float u[kPiece], v[kPiece];
      for (int i = 0; i < at.count; i += kPiece) {
        const int n = at.count - i < kPiece ? at.count - i : kPiece;
        to_floats<V>(u, first + i * a_step, a_step == 0 ? 1 : n);
        to_floats<V>(v, second + i * b_step, b_step == 0 ? 1 : n);
        float* const result = a_step == 0 ? v : u;
        function({u, v, a_step, b_step, n}, result);
        put(to + i, result, n);
      }
    }
  }
  static void put(T* to, const float* from, int n) { from_floats<V>(to, from, n); }
  static void put(Bool* to, const float* from, int n) {
    each_vector<V>(n, [&](int i, auto lanes) {
      store_codes<V>(reinterpret_cast<int8_t*>(to + i), V::truncate(load<V>(from + i, lanes)), lanes);
    });
  }
};

template <class T>
void FastBinary<T>::run(const T* a, const T* b, T* y, const Args& args) const {
  PairRuns<Vector, T, T>{a, b, y, PairMap::of_binary<Vector>(op.function)}.run(op.walk, args);
}
template <class T>
void FastCompare<T>::run(const T* a, const T* b, Bool* y, const Args& args) const {
  PairRuns<Vector, T, Bool>{a, b, y, PairMap::of_compare<Vector>(op.function)}.run(op.walk, args);
}

// Joins the last axes to one run, as long as each of a, b and c is either contiguous or constant along them.
template <class T>
void FastSelect<T>::run(const T* a, const T* b, const Bool* c, T* y) const {
  using V = Vector;
  Walk<3> outer = op.walk;
  int count = 1, axis = outer.rank - 1, step[3] = {1, 1, 1};
  for (; axis >= 0; --axis) {
    if (outer.size[axis] == 1) continue;
    bool one = true;
    for (int i = 0; i < 3; ++i) {
      if (count == 1) step[i] = outer.stride[i][axis];
      else one = one && outer.stride[i][axis] == step[i] * count;
    }
    if (!one) break;
    count *= outer.size[axis];
  }
  outer.rank = axis + 1;
  outer.each([&](const int32_t* at) {
    const T *const yes = a + at[0], *const no = b + at[1];
    const auto* const when = reinterpret_cast<const int8_t*>(c + at[2]);
    const V::F first = V::set(float(*yes)), second = V::set(float(*no)), chosen = V::set(float(*when));
    each_vector<V>(count, [&](int i, auto n) {
      const V::F u = step[0] == 0 ? first : load<V>(yes + i, n), v = step[1] == 0 ? second : load<V>(no + i, n);
      const V::F flag = step[2] == 0 ? chosen : V::to_float(load_codes<V>(when + i, n));
      store<V>(y + i, V::select(V::less(V::set(0.0f), V::abs(flag)), u, v), n);
    });
    y += count;
  });
}

}  // namespace nacre::inline NACRE_ISA
