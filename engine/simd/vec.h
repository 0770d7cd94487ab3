// The vector layer: the operations in which the fast kernels (engine/kernels/fast) are written. A port provides them
// for its instruction set (ports/x86/vec_avx512.h, ...) as a struct of static functions and types. Lanes<n> below
// provides them in plain C++, but for the optional ones (kHalfFloat8, kRealGroup 2, Blocks, kPairs, kPacksWords).
//
//   kLanes     numbers in a vector: float32 in F, int32 in I; M holds a condition for each lane
//   load(p)    reads kLanes numbers from p, which needs no alignment; load(p, n) reads the first n, 0 <= n <= kLanes,
//              touches nothing after them and gives 0 for the rest; store(p, v), store(p, v, n) write likewise. load
//              takes float, Float16, Bfloat16, Float8E4M3 or int8_t; store of F writes the first three (it rounds half
//              to even; NaN stays a NaN). load_integers, and store of I (which saturates), take int32_t or int8_t
//              store(int8_t*, a, b, c, d): four vectors of I, one behind the other
//   most(n)    the smaller of n and kLanes
//   fma        a b + c with one rounding, or with two if there is no such instruction
//   min, max   of F: b if a or b is NaN, or if they are equal
//   floor, nearest   whole numbers in F, nearest half to even
//   scale      a 2^n, rounded once for |a| in [0.5, 2]; n is in F, a whole number within [-252, 254]
//   part(n, a, b)    a in the first n lanes, b in the rest; 0 <= n <= kLanes
//   truncate   towards 0; NaN gives 0; saturated to int32 at both ends
//   round_even NaN gives 0; saturated to int32 at both ends; round_within: the same for |a| < 2^31 that is not NaN
//   transpose  takes kLanes vectors; afterwards vector i holds number i of each of them
//   doubling_high, rounding_shift, scaled   doubling_high_multiply and rounding_shift_right of numeric/fixed_point.h,
//              and multiply<kSingle> of it (total: 31 - shift); but INT32_MIN times INT32_MIN may be INT32_MIN
//   scaled_twice(a, b, c, by)   (doubling_high(a, b) + c - (a < 0 ? 1 : 0)) >> by, for |a| < 2^30, b >= 0, |c| <= 2^30
//
// Vectors with kHalfFloat8 decode many Float8E4M3 in turn:
//
//   half_numbers(p, largest, first, second)   2 kLanes numbers, each times 2^-8, in two vectors. NaN becomes what its
//                                             bits would be, 480. `largest`, Bytes, begins as bytes() and notes NaN
//   any_nan(largest)                          whether a NaN was noted
//
// Products of codes take four at a time. The weights' four codes for each of kLanes columns stand together (Quads). The
// activations' four codes of one row are multiplied with all columns (Quad). Activations are first copied in the form
// that the instruction reads, Code:
//
//   to_codes(p, x, n)  copies n activations; fill_codes(p, x, n) writes one n times
//   dot(sum, a, b)     sum + (a + kDotOffset) b over the four. If the instruction takes one side unsigned,
//                      kDotOffset is 128, and the start of the sum has 128 sum(b) subtracted
//   Dot                kLanes unfinished sums; dot_from(I) starts them, and total(Dot) finishes them
//
// Vectors whose kRealGroup is 2 multiply bfloat16 in pairs, summed in float32. Other vectors have kRealGroup 1; they
// convert bfloat16 to float32 first:
//
//   pair(p), pairs(p)   two numbers of a row, and two for each of kLanes columns
//   put_pairs(to, a, b, n)   stores kLanes pairs of a_i and b_i, i < n; zeros after those, and for b if it is null
//   dot(F sum, a, b)    sum + a_0 b_0 + a_1 b_1, each sum rounded half to even; subnormal numbers may be taken for 0
//
// Vectors whose kDecodedGroup is 2 decode numbers of 8 bits, W = Float8E4M3 or int8_t, to such pairs. They also decode
// the pairs of two terms at once. The columns are then in another order, which joined() mends:
//
//   decoded_pairs(W*)     two for each of kLanes columns, exact; store_pairs(to, pairs) stores them
//   both(p), both_decoded(W*)   four numbers of a row, and four for each of kLanes columns: {first, second}
//   joined(F, F)          the sums of kLanes columns, from those of first and of second
//
// If V has Blocks, they multiply blocks of rows with panels of weights, in groups of four codes or two bfloat16:
//
//   kMostRows, kAtOnce   most rows of a block, blocks of sums at a time; takes(rows, bytes of a run): if it is faster
//   kReal                whether it multiplies bfloat16 as well
//   prepare(rows, bytes of a run), then multiply(..) of BlockRows
//
// Products of codes may also go column by column. Activations are then four codes for each of kLanes columns, too:
//
//   interleave(to, a, b, c, d)   codes + kFoursOffset of four rows, [4 kLanes columns][4]; or (.., n) of n columns,
//                                n <= kLanes
//   fours(p), weight_fours(w)    kLanes columns of those, and of weights, int8 [kLanes][4]
//   dot(I sum, fours, weights)   sum + (a + kFoursOffset) w over the four
//
// Vectors whose kPairs is not 0 also take pairs of 16-bit numbers, of kPairs = 2 kLanes columns. The columns are not
// in the order of memory: with kPairs 16, columns 0 to 3 and 8 to 11 are low, 4 to 7 and 12 to 15 high:
//
//   words(p)                     codes of kPairs columns in 16 bits
//   pairs(a, b)                  pairs a_k, b_k, low and high
//   dot(PairSums, pairs, w)      adds a w_0 + b w_1, of weights int16 [low, high][kLanes][2]
//   store(p, q, a, b, range)     stores the codes of kPairs columns of sums a to p, and of sums b to q
//
// Optional: repeated(F, shift) and first_codes(words), which are faster than what fast/decoded/nibbles.h does without.
//
// Vectors with kPacksWords pack the codes of several vectors by way of 16 bits. They saturate, add `zero` of
// CodeRange(zero, low, high), saturate again and clamp.
//
//   round_word(F)                     round_even if the result has 16 bits; else a number that saturates to the same;
//                                     NaN gives a large number
//   store(p, step, a, b, c, d, range) stores the codes of four vectors, `step` bytes apart
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

// Says where the rows of a block (V::Blocks) lie, in bytes. Rows are `step` apart. Each row has `runs` runs of
// memory of `length` bytes, `run` apart.
struct BlockRows {
  ptrdiff_t step;
  int runs, length;
  ptrdiff_t run;
};

template <int kCount>
struct Lanes {
  static constexpr int kLanes = kCount;
  static constexpr int kDotOffset = 0, kFoursOffset = 128, kRealGroup = 1, kDecodedGroup = 1, kPairs = 0;
  static constexpr bool kPacksWords = false, kHalfFloat8 = false;
  // Rows of a tile of a product whose sums fit the registers: kRealRows for float32 with two vectors of columns,
  // kTallRows with one vector, kDotRows for codes.
  static constexpr int kRealRows = 4, kTallRows = kRealRows, kDotRows = 4;
  static constexpr bool kDotWide = true;  // whether tiles of codes have two vectors of columns, else one

  // These are vectors of the compiler (vector_size), which exist on every machine. Arrays would be computed number by
  // number, or in memory.
  struct F {
    float lane [[gnu::vector_size(4 * kCount)]];
  };
  struct I {
    int32_t lane [[gnu::vector_size(4 * kCount)]];
  };
  struct M {  // 0 or -1
    int32_t lane [[gnu::vector_size(4 * kCount)]];
  };
  using Dot = I;
  using Code = int8_t;
  struct Quad {
    int8_t code[4];
  };
  struct Quads {
    int8_t code[4 * kCount];
  };
  struct Fours {
    uint8_t code[4 * kCount];
  };
  using WeightFours = Quads;

  static int most(int n) { return n < kLanes ? n : kLanes; }

  template <class T>
  static F load(const T* p, int n = kCount) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (n == kCount) return {__builtin_convertvector(raw(p).lane, decltype(F::lane))};
      F v = {};
      for (int i = 0; i < n; ++i) v.lane[i] = float(p[i]);
      return v;
    } else {
      return decoded(p, n);
    }
  }
  template <class T>
  static void store(T* p, F v, int n = kCount) {
    if constexpr (std::is_arithmetic_v<T>)
      for (int i = 0; i < n; ++i) p[i] = T(v.lane[i]);
    else encoded(p, v, n);
  }
  template <class T>
  static I load_integers(const T* p, int n = kCount) {
    if (n == kCount) return {__builtin_convertvector(raw(p).lane, decltype(I::lane))};
    I v = {};
    for (int i = 0; i < n; ++i) v.lane[i] = int32_t(p[i]);
    return v;
  }
  static void store(int32_t* p, I v, int n = kCount) {
    for (int i = 0; i < n; ++i) p[i] = v.lane[i];
  }
  static void store(int8_t* p, I v, int n = kCount) {
    const I within = max(set(int32_t{-128}), min(set(int32_t{127}), v));
    const Raw<int8_t> codes = {__builtin_convertvector(within.lane, decltype(Raw<int8_t>::lane))};
    std::memcpy(p, &codes, size_t(n));
  }
  static void store(int8_t* p, I a, I b, I c, I d) {
    store(p, a), store(p + kLanes, b), store(p + 2 * kLanes, c), store(p + 3 * kLanes, d);
  }

  static F set(float x) { return {x - decltype(F::lane){}}; }
  static I set(int32_t x) { return {x - decltype(I::lane){}}; }

  static F add(F a, F b) { return {a.lane + b.lane}; }
  static F sub(F a, F b) { return {a.lane - b.lane}; }
  static F mul(F a, F b) { return {a.lane * b.lane}; }
  static F div(F a, F b) { return {a.lane / b.lane}; }
  static F min(F a, F b) { return {a.lane < b.lane ? a.lane : b.lane}; }
  static F max(F a, F b) { return {a.lane > b.lane ? a.lane : b.lane}; }
  static F sqrt(F a) {
    return each(a, a, [](float x, float) { return std::sqrt(x); });
  }
  static F abs(F a) { return as_float({as_integers(a).lane & INT32_MAX}); }
  static F floor(F a) {
    return each(a, a, [](float x, float) { return std::floor(x); });
  }
  static F nearest(F a) {
    return each(a, a, [](float x, float) { return std::nearbyint(x); });
  }
  static F scale(F a, F n) {        // in two steps, since 2^n itself may not be a float
    const float magic = 0x1.8p23f;  // the bits of n + magic are n + those of magic
    const I whole = sub(as_integers(add(n, set(magic))), set(std::bit_cast<int32_t>(magic)));
    const I half = shift_right(whole, 1);
    const auto power = [](I e) { return as_float(shift_left(add(e, set(127)), set(23))); };
    return mul(mul(a, power(half)), power(sub(whole, half)));
  }
  static F fma(F a, F b, F c) { return {a.lane * b.lane + c.lane}; }
  static float sum(F v) {
    float sum = 0;
    for (int i = 0; i < kCount; ++i) sum += v.lane[i];
    return sum;
  }
  static float largest(F v) {
    float largest = v.lane[0];
    for (int i = 1; i < kCount; ++i) largest = v.lane[i] > largest ? v.lane[i] : largest;
    return largest;
  }

  static I add(I a, I b) { return wrapped({bits(a).lane + bits(b).lane}); }
  static I sub(I a, I b) { return wrapped({bits(a).lane - bits(b).lane}); }
  static I mul(I a, I b) { return wrapped({bits(a).lane * bits(b).lane}); }
  static I min(I a, I b) { return {a.lane < b.lane ? a.lane : b.lane}; }
  static I max(I a, I b) { return {a.lane > b.lane ? a.lane : b.lane}; }
  static I shift_left(I a, I by) { return wrapped({bits(a).lane << (bits(by).lane & 31)}); }
  static I shift_right(I a, int by) { return {a.lane >> by}; }

  static F to_float(I a) { return {__builtin_convertvector(a.lane, decltype(F::lane))}; }
  // Rounds numbers within 2^22 by an addition. The bits of the sum are those of 1.5 2^23 plus the whole number.
  static I round_even(F a) {
    const float magic = 0x1.8p23f;
    if (!any(not_less(abs(a), set(0x1p22f))))
      return sub(as_integers(add(a, set(magic))), set(std::bit_cast<int32_t>(magic)));
    I v = {};
    for (int i = 0; i < kCount; ++i) v.lane[i] = round_half_even(a.lane[i]);
    return v;
  }
  static I round_within(F a) { return round_even(a); }
  static I truncate(F a) {
    if (!any(not_less(abs(a), set(2147483648.0f)))) return {__builtin_convertvector(a.lane, decltype(I::lane))};
    I v = {};
    for (int i = 0; i < kCount; ++i) {
      const float x = a.lane[i];
      v.lane[i] = x >= 2147483648.0f ? INT32_MAX : x > -2147483648.0f ? int32_t(x) : x == x ? INT32_MIN : 0;
    }
    return v;
  }
  static I as_integers(F a) { return std::bit_cast<I>(a); }
  static F as_float(I a) { return std::bit_cast<F>(a); }

  static M less(F a, F b) { return {a.lane < b.lane}; }
  static M is_nan(F a) { return {a.lane != a.lane}; }
  static bool any(M m) {
    int32_t any = 0;
    for (int i = 0; i < kCount; ++i) any |= m.lane[i];
    return any != 0;
  }
  static F part(int n, F a, F b) {
    for (int i = 0; i < n; ++i) b.lane[i] = a.lane[i];
    return b;
  }
  static F select(M m, F yes, F no) { return {m.lane ? yes.lane : no.lane}; }

  static void transpose(F (&rows)[kCount]) {
    for (int i = 0; i < kCount; ++i)
      for (int j = 0; j < i; ++j) {
        const float kept = rows[i].lane[j];
        rows[i].lane[j] = rows[j].lane[i];
        rows[j].lane[i] = kept;
      }
  }

  static I doubling_high(I a, I b) {
    return each(a, b, [](int32_t x, int32_t y) { return int32_t((int64_t{x} * y + (int64_t{1} << 30)) >> 31); });
  }
  static I rounding_shift(I a, I by) {
    return each(a, by, [](int32_t x, int32_t n) { return rounding_shift_right(x, n); });
  }
  static I scaled(I a, I multiplier, I total) {
    I v = {};
    for (int i = 0; i < kCount; ++i)
      v.lane[i] = multiply<Rounding::kSingle>(a.lane[i], {multiplier.lane[i], 31 - total.lane[i]});
    return v;
  }
  static I scaled_twice(I a, I b, I c, I by) {
    const I high = doubling_high(a, b);
    for (int i = 0; i < kCount; ++i) a.lane[i] = (high.lane[i] + c.lane[i] - (a.lane[i] < 0 ? 1 : 0)) >> by.lane[i];
    return a;
  }

  static void to_codes(Code* p, const int8_t* x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
  static void fill_codes(Code* p, int8_t x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x;
  }
  static Quad quad(const Code* p) {
    Quad q;
    std::memcpy(q.code, p, sizeof q);
    return q;
  }
  static Quads quads(const int8_t* p) {
    Quads q;
    std::memcpy(q.code, p, sizeof q);
    return q;
  }
  static Dot dot_from(I v) { return v; }
  static I total(Dot v) { return v; }
  static Dot dot(Dot sum, Quad a, Quads b) {
    for (int i = 0; i < kCount; ++i)
      for (int j = 0; j < 4; ++j) sum.lane[i] = wrapping_add(sum.lane[i], a.code[j] * b.code[4 * i + j]);
    return sum;
  }

  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d,
                         int n = 4 * kCount) {
    for (int i = 0; i < n; ++i) {
      const int8_t codes[] = {a[i], b[i], c[i], d[i]};
      for (const int8_t code : codes) *to++ = uint8_t(code ^ 0x80);
    }
  }
  static Fours fours(const uint8_t* p) {
    Fours v;
    std::memcpy(v.code, p, sizeof v);
    return v;
  }
  static WeightFours weight_fours(const int8_t* p) { return quads(p); }
  static I dot(I sum, Fours a, WeightFours w) {
    for (int i = 0; i < kCount; ++i)
      for (int j = 0; j < 4; ++j) sum.lane[i] = wrapping_add(sum.lane[i], a.code[4 * i + j] * w.code[4 * i + j]);
    return sum;
  }

 private:
  template <class T>
  [[gnu::noinline]] static F decoded(const T* p, int n) {  // not inlined, to save code size
    F v = {};
    for (int i = 0; i < n; ++i) v.lane[i] = float(p[i]);
    return v;
  }
  template <class T>
  [[gnu::noinline]] static void encoded(T* p, F v, int n) {
    for (int i = 0; i < n; ++i) p[i] = T(v.lane[i]);
  }

  template <class T>
  struct Raw {
    T lane [[gnu::vector_size(kCount * int(sizeof(T)))]];
  };
  template <class T>
  static Raw<T> raw(const T* p) {
    Raw<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  struct Bits {
    uint32_t lane [[gnu::vector_size(4 * kCount)]];
  };
  static Bits bits(I a) { return std::bit_cast<Bits>(a); }
  static I wrapped(Bits a) { return std::bit_cast<I>(a); }
  static M not_less(F a, F b) { return {~(a.lane < b.lane)}; }  // true for NaN too

  template <class R, class Function>
  static R each(R a, R b, Function f) {
    for (int i = 0; i < kCount; ++i) a.lane[i] = f(a.lane[i], b.lane[i]);
    return a;
  }
};

}  // namespace nacre::inline NACRE_ISA
