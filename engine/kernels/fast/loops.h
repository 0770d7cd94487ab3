// Loops over rows of numbers, vector by vector. The last vector may be partial; it is loaded and stored in part. In
// to_floats and from_floats each vector is loaded before it is stored.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

struct Whole {};  // takes the place of a number of lanes if a vector is whole

// Calls f(first, n) for every vector of `count` numbers. n is Whole, or the number of lanes of the last vector.
template <class V, class F>
[[gnu::always_inline]] inline void each_vector(int count, const F& f) {
  int i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) f(i, Whole());
  if (i < count) f(i, count - i);
}

template <class V, class T>
[[gnu::always_inline]] inline typename V::F load(const T* p, Whole) {
  return V::load(p);
}
template <class V, class T>
[[gnu::always_inline]] inline typename V::F load(const T* p, int n) {
  return V::load(p, n);
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* p, typename V::F v, Whole) {
  V::store(p, v);
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* p, typename V::F v, int n) {
  V::store(p, v, n);
}

// Loads codes of int8_t, uint8_t or int32_t as int32_t.
template <class V, class Q>
[[gnu::always_inline]] inline typename V::I load_codes(const Q* p, auto n) {
  if constexpr (std::is_same_v<Q, uint8_t>) {
    const auto v = load_codes<V>(reinterpret_cast<const int8_t*>(p), n);  // as int8_t, codes 128 .. 255 are -128 .. -1
    return V::sub(v, V::shift_left(V::shift_right(v, 31), V::set(int32_t{8})));
  } else if constexpr (std::is_same_v<decltype(n), Whole>) {
    return V::load_integers(p);
  } else {
    return V::load_integers(p, n);
  }
}
// Loads int16_t as int32_t: as Bfloat16 they are the upper half of each lane.
template <class V>
[[gnu::always_inline]] inline typename V::I load_words(const int16_t* p, auto n) {
  return V::shift_right(V::as_integers(load<V>(reinterpret_cast<const Bfloat16*>(p), n)), 16);
}
// Stores the first n lanes of v as int16_t, saturated.
template <class V>
[[gnu::always_inline]] inline void store_words(int16_t* p, typename V::I v, int n) {
  alignas(64) int32_t lanes[V::kLanes];
  V::store(lanes, V::max(V::set(int32_t{INT16_MIN}), V::min(V::set(int32_t{INT16_MAX}), v)));
  int16_t words[V::kLanes];
  for (int i = 0; i < V::kLanes; ++i) words[i] = int16_t(lanes[i]);
  std::memcpy(p, words, size_t(n) * sizeof(int16_t));
}
// Stores v, which must be within the range of Q.
template <class V, class Q>
[[gnu::always_inline]] inline void store_codes(Q* p, typename V::I v, auto n) {
  if constexpr (std::is_same_v<Q, uint8_t>) {
    const typename V::I by = V::set(int32_t{24});
    store_codes<V>(reinterpret_cast<int8_t*>(p), V::shift_right(V::shift_left(v, by), 24), n);
  } else if constexpr (std::is_same_v<decltype(n), Whole>) {
    V::store(p, v);
  } else {
    V::store(p, v, n);
  }
}

// Returns v rounded to T, as float32.
template <class V, class T>
[[gnu::always_inline]] inline typename V::F rounded_to(typename V::F v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else {
    alignas(64) T piece[V::kLanes];
    V::store(piece, v);
    return V::load(piece);
  }
}

template <class V, class T>
inline void to_floats(float* to, const T* from, int count) {
  each_vector<V>(count, [&](int i, auto n) { store<V>(to + i, load<V>(from + i, n), n); });
}
template <class V, class T>
inline void from_floats(T* to, const float* from, int count) {
  each_vector<V>(count, [&](int i, auto n) { store<V>(to + i, load<V>(from + i, n), n); });
}

// Operations for fold(). They are structs and not lambdas, so that they are always inlined.
template <class V>
struct Plus {
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const { return V::add(acc, v); }
};
template <class V>
struct Times {
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const { return V::mul(acc, v); }
};
template <class V>
struct Larger {  // ignores a NaN in v
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const { return V::max(v, acc); }
};
template <class V>
struct Smaller {
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const { return V::min(v, acc); }
};
template <class V>
struct LargerOrNan {
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const {
    return V::select(V::is_nan(acc), acc, V::max(acc, v));
  }
};
template <class V>
struct SmallerOrNan {
  [[gnu::always_inline]] typename V::F operator()(typename V::F acc, typename V::F v) const {
    return V::select(V::is_nan(acc), acc, V::min(acc, v));
  }
};

// Folds all numbers: acc = step(acc, f(x_i)), each lane over its share. Missing lanes of a partial vector count as
// `start`. An addition takes three or four cycles, so there are four accumulators, which `step` joins at the end.
template <class V, class T, class Step, class F>
[[gnu::always_inline]] inline typename V::F fold(const T* x, int count, typename V::F start, const Step& step,
                                                 const F& f) {
  typename V::F a = start, b = start, c = start, d = start;
  int i = 0;
  for (; i + 4 * V::kLanes <= count; i += 4 * V::kLanes) {
    a = step(a, f(V::load(x + i)));
    b = step(b, f(V::load(x + i + V::kLanes)));
    c = step(c, f(V::load(x + i + 2 * V::kLanes)));
    d = step(d, f(V::load(x + i + 3 * V::kLanes)));
  }
  for (; i + V::kLanes <= count; i += V::kLanes) a = step(a, f(V::load(x + i)));
  if (i < count) b = step(b, V::part(count - i, f(V::load(x + i, count - i)), start));
  return step(step(a, b), step(c, d));
}
template <class V, class T, class Step>
[[gnu::always_inline]] inline typename V::F fold(const T* x, int count, typename V::F start, const Step& step) {
  return fold<V>(x, count, start, step, [](typename V::F v) { return v; });
}

}  // namespace nacre::inline NACRE_ISA
