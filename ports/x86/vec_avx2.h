// The vector layer (engine/simd/vec.h) with AVX2, FMA and F16C. Dot products use AVX-VNNI in files compiled for it.
#pragma once

#include <immintrin.h>

#include "engine/simd/vec.h"
#include "ports/x86/avx2_words.h"

namespace nacre::inline NACRE_ISA {

struct Avx2 : Avx2Words {
  static constexpr int kLanes = 8;
  static constexpr int kRealRows = 6, kTallRows = kRealRows, kRealGroup = 1, kDecodedGroup = 1, kFoursOffset = 128;

  using F = __m256;
  using I = __m256i;
  using M = __m256;

  using Avx2Words::bytes;
  using Avx2Words::dot;
  using Avx2Words::store;
  using Avx2Words::words;

  static int most(int n) { return n < kLanes ? n : kLanes; }

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
  static F load(const Float16* p, int n = kLanes) { return _mm256_cvtph_ps(words(p, n)); }
  static F load(const Bfloat16* p, int n = kLanes) {
    return as_float(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words(p, n)), 16));
  }
  static F load(const int8_t* p, int n = kLanes) { return to_float(load_integers(p, n)); }
  static F load(const Float8E4M3* p, int n = kLanes) { return of_e4m3(bytes(p, n)); }
  static I load_integers(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const I*>(p)); }
  static I load_integers(const int32_t* p, int n) { return _mm256_maskload_epi32(p, first(n)); }
  static I load_integers(const int8_t* p, int n = kLanes) { return _mm256_cvtepi8_epi32(bytes(p, n)); }

  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  // Stores without masks. On AMD processors before Zen 4 a masked store takes about 40 micro-operations and 12
  // cycles.
  [[gnu::always_inline]] static void store(float* p, F v, int n) {
    if (n == kLanes) store(p, v);
    else store_part(p, v, n);
  }
  static void store(Float16* p, F v, int n = kLanes) { put(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), n); }
  [[gnu::always_inline]] static void store(Bfloat16* p, F v, int n = kLanes) { put(p, to_bf16(v), n); }
  static void store(int32_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<I*>(p), v); }
  [[gnu::always_inline]] static void store(int32_t* p, I v, int n) {
    if (n == kLanes) store(p, v);
    else store_part(p, as_float(v), n);
  }
  static void store(int8_t* p, I v, int n = kLanes) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    put(p, _mm_packs_epi16(words, words), n);
  }
  // Packing works in each 128 bits: dword 4 i + j of the packed result holds vector j, lanes from 4 i on.
  static void store(int8_t* p, I a, I b, I c, I d) {
    const I codes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<I*>(p), _mm256_permutevar8x32_epi32(codes, order));
  }

  static F set(float x) { return _mm256_set1_ps(x); }
  static I set(int32_t x) { return _mm256_set1_epi32(x); }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  static F abs(F a) { return _mm256_andnot_ps(set(-0.0f), a); }
  static F floor(F a) { return _mm256_floor_ps(a); }
  static F nearest(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F scale(F a, F n) {  // multiplies in two steps, because 2^n itself may be beyond float32
    const I whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const auto power = [](I e) { return as_float(_mm256_slli_epi32(_mm256_add_epi32(e, set(127)), 23)); };
    return mul(mul(a, power(half)), power(_mm256_sub_epi32(whole, half)));
  }
  static F fma(F a, F b, F c) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));  // tied: what compilers make of the intrinsic spills
    return c;
  }
  static float sum(F v) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float largest(F v) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }

  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I min(I a, I b) { return _mm256_min_epi32(a, b); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  static I shift_left(I a, I by) { return _mm256_sllv_epi32(a, by); }
  static I shift_right(I a, int by) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128(by)); }

  static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
  static F repeated(F v, int shift) {
    const I lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_permutevar8x32_ps(v, _mm256_srl_epi32(lane, _mm_cvtsi32_si128(shift)));
  }
  // Above the range the instruction gives INT32_MIN. These lanes become INT32_MAX, and NaN becomes 0.
  static I round_even(F a) {
    const I rounded = _mm256_cvtps_epi32(_mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    const I over = as_integers(_mm256_cmp_ps(a, set(2147483648.0f), _CMP_GE_OQ));
    const I ordered = as_integers(_mm256_cmp_ps(a, a, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_blendv_epi8(rounded, set(INT32_MAX), over), ordered);
  }
  static I round_within(F a) { return _mm256_cvtps_epi32(a); }
  static I truncate(F a) {
    const I over = as_integers(_mm256_cmp_ps(a, set(2147483648.0f), _CMP_GE_OQ));
    const I ordered = as_integers(_mm256_cmp_ps(a, a, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_blendv_epi8(_mm256_cvttps_epi32(a), set(INT32_MAX), over), ordered);
  }
  static I as_integers(F a) { return _mm256_castps_si256(a); }
  static F as_float(I a) { return _mm256_castsi256_ps(a); }

  static M less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static M is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  static bool any(M m) { return _mm256_movemask_ps(m) != 0; }
  static F part(int n, F a, F b) { return _mm256_blendv_ps(b, a, as_float(first(n))); }
  static F select(M m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }

  static void transpose(F (&rows)[kLanes]) {
    const auto pair = [&](int g, F a, F b) {
      const __m256d low = _mm256_castps_pd(a), high = _mm256_castps_pd(b);
      rows[g] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
      rows[g + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
    };
#pragma GCC unroll 2
    for (int g = 0; g < kLanes; g += 4) {
      const F even = _mm256_unpacklo_ps(rows[g], rows[g + 1]), odd = _mm256_unpackhi_ps(rows[g], rows[g + 1]);
      const F even2 = _mm256_unpacklo_ps(rows[g + 2], rows[g + 3]), odd2 = _mm256_unpackhi_ps(rows[g + 2], rows[g + 3]);
      pair(g, even, even2);
      pair(g + 2, odd, odd2);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const F low = rows[c], high = rows[4 + c];
      rows[c] = _mm256_permute2f128_ps(low, high, 0x20);
      rows[4 + c] = _mm256_permute2f128_ps(low, high, 0x31);
    }
  }

  static I doubling_high(I a, I b) {
    const I half = _mm256_set1_epi64x(1 << 30);
    const I even = _mm256_add_epi64(_mm256_mul_epi32(a, b), half);
    const I odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
  }
  static I rounding_shift(I a, I by) {
    const I mask = _mm256_sub_epi32(_mm256_sllv_epi32(set(1), by), set(1));
    const I threshold = _mm256_sub_epi32(_mm256_srli_epi32(mask, 1), _mm256_srai_epi32(a, 31));
    const I up = _mm256_cmpgt_epi32(_mm256_and_si256(a, mask), threshold);
    return _mm256_sub_epi32(_mm256_srav_epi32(a, by), up);
  }
  static I scaled(I a, I multiplier, I total) {
    const I one = _mm256_set1_epi64x(1), top = _mm256_set1_epi64x(INT64_MIN);
    const auto part = [&](I x, I m, I n) {  // (x m + 2^(n-1)) >> n: shifted without sign, with an offset of 2^63
      const I sum = _mm256_add_epi64(_mm256_mul_epi32(x, m), _mm256_sllv_epi64(one, _mm256_sub_epi64(n, one)));
      return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(sum, top), n), _mm256_srlv_epi64(top, n));
    };
    const I even = part(a, multiplier, _mm256_and_si256(total, _mm256_set1_epi64x(63)));
    const I odd = part(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(multiplier, 32), _mm256_srli_epi64(total, 32));
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  }
  static I scaled_twice(I a, I b, I c, I by) {
    const auto part = [](I x, I m, I add) {  // x m + 2^31 + 2^32 add, of which the high half is used
      const I start = _mm256_add_epi64(_mm256_slli_epi64(add, 32), _mm256_set1_epi64x(INT64_C(1) << 31));
      return _mm256_add_epi64(_mm256_mul_epi32(x, m), start);
    };
    const auto odd_lanes = [](I v) { return _mm256_shuffle_epi32(v, 0xF5); };
    const I twice = _mm256_add_epi32(a, a);
    const I even = part(twice, b, c), odd = part(odd_lanes(twice), odd_lanes(b), odd_lanes(c));
    const I high = _mm256_blend_epi32(odd_lanes(even), odd, 0xAA);
    return _mm256_srav_epi32(_mm256_add_epi32(high, _mm256_srai_epi32(a, 31)), by);
  }

  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d) {
    // Unpacking works in each 128 bits, so dword 2 i + j of the 32 codes goes to dword i of 128-bit half j.
    const I order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const auto row = [&](const int8_t* p) {
      const I codes = _mm256_loadu_si256(reinterpret_cast<const I*>(p));
      return _mm256_permutevar8x32_epi32(_mm256_xor_si256(codes, set(int32_t(0x80808080u))), order);
    };
    const I va = row(a), vb = row(b), vc = row(c), vd = row(d);
    const I ab0 = _mm256_unpacklo_epi8(va, vb), ab1 = _mm256_unpackhi_epi8(va, vb);
    const I cd0 = _mm256_unpacklo_epi8(vc, vd), cd1 = _mm256_unpackhi_epi8(vc, vd);
    I* const out = reinterpret_cast<I*>(to);
    _mm256_storeu_si256(out, _mm256_unpacklo_epi16(ab0, cd0));
    _mm256_storeu_si256(out + 1, _mm256_unpackhi_epi16(ab0, cd0));
    _mm256_storeu_si256(out + 2, _mm256_unpacklo_epi16(ab1, cd1));
    _mm256_storeu_si256(out + 3, _mm256_unpackhi_epi16(ab1, cd1));
  }
  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d, int n) {
    const __m128i ab = _mm_unpacklo_epi8(bytes(a, n), bytes(b, n)), cd = _mm_unpacklo_epi8(bytes(c, n), bytes(d, n));
    const I codes = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
    store(reinterpret_cast<int32_t*>(to), _mm256_xor_si256(codes, set(int32_t(0x80808080u))), n);
  }

#ifdef __AVXVNNI__
  static constexpr int kPairs = 0;
  static constexpr int kDotOffset = 128, kDotRows = 6;
  static constexpr bool kDotWide = true;
  using Dot = I;
  using Quad = I;
  using Quads = I;
  using Code = uint8_t;  // x + 128
  static void to_codes(Code* p, const int8_t* x, int n) {
    const I top = _mm256_set1_epi8(int8_t(-128));
    for (; n >= 32; n -= 32, p += 32, x += 32)
      _mm256_storeu_si256(reinterpret_cast<I*>(p), _mm256_xor_si256(quads(x), top));
    for (int i = 0; i < n; ++i) p[i] = Code(x[i] ^ -128);
  }
  static void fill_codes(Code* p, int8_t x, int n) { std::memset(p, x ^ -128, size_t(n)); }
  static Quad quad(const Code* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return set(codes);
  }
  static Quads quads(const int8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const I*>(p)); }
  static Dot dot_from(I v) { return v; }
  static I total(Dot v) { return v; }
  static Dot dot(Dot sum, Quad a, Quads b) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
  }

  using Fours = I;
  using WeightFours = I;
  static Fours fours(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const I*>(p)); }
  static WeightFours weight_fours(const int8_t* p) { return quads(p); }
#else
  // Codes are widened to 16 bits and multiplied in pairs. Dot holds two 32-bit sums for each column side by side: `low`
  // those of columns 0 to 3, `high` of 4 to 7. (The instruction for products of bytes would saturate.)
  static constexpr int kPairs = 16;
  static constexpr int kDotOffset = 0, kDotRows = 5;
  static constexpr bool kDotWide = false;
  struct Dot {
    I low, high;
  };
  using Quad = I;
  struct Quads {
    I low, high;
  };
  using Code = int16_t;
  static void to_codes(Code* p, const int8_t* x, int n) {
    for (; n >= 16; n -= 16, p += 16, x += 16)
      _mm256_storeu_si256(reinterpret_cast<I*>(p),
                          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
  static void fill_codes(Code* p, int8_t x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x;
  }
  static Quad quad(const Code* p) {
    int64_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return _mm256_set1_epi64x(codes);
  }
  static Quads quads(const int8_t* p) {
    const auto half = [p](int i) {
      return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)));
    };
    return {half(0), half(16)};
  }
  static Dot dot_from(I v) {
    return {_mm256_cvtepu32_epi64(_mm256_castsi256_si128(v)), _mm256_cvtepu32_epi64(_mm256_extracti128_si256(v, 1))};
  }
  static I total(Dot v) {
    const F low = as_float(v.low), high = as_float(v.high);  // the sums of pairs: columns 0 1 4 5 2 3 6 7
    const F even = _mm256_shuffle_ps(low, high, 0x88), odd = _mm256_shuffle_ps(low, high, 0xDD);
    return _mm256_permute4x64_epi64(_mm256_add_epi32(as_integers(even), as_integers(odd)), 0xD8);
  }
  static Dot dot(Dot sum, Quad a, Quads b) {
    I pairs;  // tied operands, as in fma
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum.low), "=&x"(pairs) : "x"(a), "x"(b.low));
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum.high), "=&x"(pairs) : "x"(a), "x"(b.high));
    return sum;
  }

  // The four codes of a column are widened to 16 bits: codes 0 and 2 form a pair, and codes 1 and 3 form one.
  struct Fours {
    I even, odd;
  };
  using WeightFours = Fours;
  static Fours fours(const uint8_t* p) {
    const I v = _mm256_loadu_si256(reinterpret_cast<const I*>(p));
    return {_mm256_and_si256(v, set(0x00FF00FF)), _mm256_srli_epi16(v, 8)};
  }
  static WeightFours weight_fours(const int8_t* p) {
    const I v = _mm256_loadu_si256(reinterpret_cast<const I*>(p));
    return {_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8)};
  }
  static I dot(I sum, Fours a, WeightFours w) {
    return add(sum, add(_mm256_madd_epi16(a.even, w.even), _mm256_madd_epi16(a.odd, w.odd)));
  }
#endif

 private:
  static I first(int n) { return _mm256_cmpgt_epi32(set(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

  // Stores n < kLanes numbers of four bytes. Not inlined, to save code.
  [[gnu::noinline]] static void store_part(void* to, F v, int n) {
    auto* p = static_cast<char*>(to);
    __m128i four = _mm_castps_si128(_mm256_castps256_ps128(v));
    if ((n & 4) != 0) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), four);
      p += 16, four = _mm_castps_si128(_mm256_extractf128_ps(v, 1));
    }
    if ((n & 2) != 0) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(p), four);
      p += 8, four = _mm_unpackhi_epi64(four, four);
    }
    if ((n & 1) != 0) {
      const int32_t last = _mm_cvtsi128_si32(four);
      std::memcpy(p, &last, sizeof last);
    }
  }

  // Reads at most 8 bytes. A call of memcpy would take longer than a row with few channels.
  static uint64_t few(const void* from, int bytes) {
    const auto* const p = static_cast<const char*>(from);
    uint64_t v = 0;
    int at = 0;
    const auto take = [&](auto piece) {
      std::memcpy(&piece, p + at, sizeof piece);
      v |= uint64_t{piece} << (8 * at & 63);
      at += int(sizeof piece);
    };
    if (bytes == 8) take(uint64_t{});
    if ((bytes & 4) != 0) take(uint32_t{});
    if ((bytes & 2) != 0) take(uint16_t{});
    if ((bytes & 1) != 0) take(uint8_t{});
    return v;
  }
  static void put_few(void* to, uint64_t v, int bytes) {
    auto* const p = static_cast<char*>(to);
    int at = 0;
    const auto put_piece = [&](auto piece) {
      piece = decltype(piece)(v >> (8 * at & 63));
      std::memcpy(p + at, &piece, sizeof piece);
      at += int(sizeof piece);
    };
    if (bytes == 8) put_piece(uint64_t{});
    if ((bytes & 4) != 0) put_piece(uint32_t{});
    if ((bytes & 2) != 0) put_piece(uint16_t{});
    if ((bytes & 1) != 0) put_piece(uint8_t{});
  }
  // Loads n numbers of two bytes. Not inlined, to save code.
  [[gnu::noinline]] static __m128i few_words(const void* from, int n) {
    const auto* const p = static_cast<const char*>(from);
    const int low = n < 4 ? n : 4;
    return _mm_set_epi64x(int64_t(few(p + 2 * low, 2 * (n - low))), int64_t(few(p, 2 * low)));
  }
  [[gnu::noinline]] static void put_few_words(void* to, __m128i v, int n) {
    const int low = n < 4 ? n : 4;
    put_few(to, uint64_t(_mm_cvtsi128_si64(v)), 2 * low);
    if (n > low) put_few(static_cast<char*>(to) + 8, uint64_t(_mm_extract_epi64(v, 1)), 2 * (n - low));
  }
  template <class T>
  static __m128i words(const T* p, int n) {
    if (n == kLanes) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return few_words(p, n);
  }
  template <class T>
  static __m128i bytes(const T* p, int n) {
    if (n == kLanes) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_cvtsi64_si128(int64_t(few(p, n)));
  }
  template <class T>
  static void put(T* p, __m128i v, int n) {  // stores n numbers of one or two bytes
    if constexpr (sizeof(T) == 2) {
      if (n == kLanes) _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
      else put_few_words(p, v, n);
    } else {
      if (n == kLanes) _mm_storel_epi64(reinterpret_cast<__m128i*>(p), v);
      else put_few(p, uint64_t(_mm_cvtsi128_si64(v)), n);
    }
  }

  static __m128i to_bf16(F v) {  // rounds half to even
    const I bits = as_integers(v);
    const I odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), set(1));
    const I rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, set(0x7FFF))), 16);
    const I nan = as_integers(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const I codes = _mm256_blendv_epi8(rounded, set(0x7FC0), nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
  }
  // Makes a float32 of the code's sign, exponent and mantissa, and multiplies it by 2^120. If exponent and mantissa
  // are all ones, the result is NaN.
  static F of_e4m3(__m128i codes) {
    const I bits = _mm256_and_si256(_mm256_slli_epi32(_mm256_cvtepi8_epi32(codes), 20), set(int32_t(0x87F00000u)));
    const I nan = _mm256_cmpeq_epi32(_mm256_or_si256(bits, set(INT32_MIN)), set(int32_t(0x87F00000u)));
    return _mm256_or_ps(mul(as_float(bits), set(0x1p120f)), as_float(nan));
  }
};
using Vector = Avx2;
}  // namespace nacre::inline NACRE_ISA
