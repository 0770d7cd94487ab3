// The vector layer (engine/simd/vec.h) with AVX-512 F, BW, DQ and VL. In files compiled for them, dot products use
// VNNI and BF16, and blocks of products use AMX.
#pragma once

#include <immintrin.h>

#include "engine/simd/vec.h"
#include "ports/x86/decoded_avx512.h"
#ifdef __AMX_INT8__
#include "ports/x86/amx.h"
#endif

namespace nacre::inline NACRE_ISA {

struct Avx512 : Avx512Decoded {
  static constexpr int kLanes = 16;
  static constexpr int kRealRows = 12, kTallRows = 16, kFoursOffset = 128, kPairs = 0;
  static constexpr bool kPacksWords = false, kHalfFloat8 = false;
  static constexpr bool kDotWide = true;

  using F = __m512;
  using I = __m512i;
  using M = __mmask16;

  static int most(int n) { return n < kLanes ? n : kLanes; }

  static M first(int n) { return M((1u << n) - 1u); }

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static F load(const Float16* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load(const Float16* p, int n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p)); }
  static F load(const Bfloat16* p) { return of_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load(const Bfloat16* p, int n) { return of_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static F load(const int8_t* p) { return to_float(load_integers(p)); }
  static F load(const int8_t* p, int n) { return to_float(load_integers(p, n)); }
  static F load(const Float8E4M3* p) { return of_e4m3(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static F load(const Float8E4M3* p, int n) { return of_e4m3(_mm_maskz_loadu_epi8(first(n), p)); }
  static I load_integers(const int32_t* p) { return _mm512_loadu_si512(p); }
  static I load_integers(const int32_t* p, int n) { return _mm512_maskz_loadu_epi32(first(n), p); }
  static I load_integers(const int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I load_integers(const int8_t* p, int n) { return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p)); }

  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, F v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
  static void store(Float16* p, F v, int n = kLanes) {
    _mm256_mask_storeu_epi16(p, first(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store(Bfloat16* p, F v, int n = kLanes) { _mm256_mask_storeu_epi16(p, first(n), to_bf16(v)); }
  static void store(int32_t* p, I v) { _mm512_storeu_si512(p, v); }
  static void store(int32_t* p, I v, int n) { _mm512_mask_storeu_epi32(p, first(n), v); }
  static void store(int8_t* p, I v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(v)); }
  static void store(int8_t* p, I v, int n) { _mm_mask_storeu_epi8(p, first(n), _mm512_cvtsepi32_epi8(v)); }
  // Packing works in each 128 bits: dword 4 i + j of the packed result holds vector j, lanes from 4 i on.
  static void store(int8_t* p, I a, I b, I c, I d) {
    const I codes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    const I order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, codes));
  }

  static F set(float x) { return _mm512_set1_ps(x); }
  static I set(int32_t x) { return _mm512_set1_epi32(x); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F floor(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static F nearest(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F scale(F a, F n) { return _mm512_scalef_ps(a, n); }
  static F fma(F a, F b, F c) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));  // tied: what compilers make of the intrinsic spills
    return c;
  }
  static float sum(F v) { return _mm512_reduce_add_ps(v); }
  static float largest(F v) { return _mm512_reduce_max_ps(v); }

  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I min(I a, I b) { return _mm512_min_epi32(a, b); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static I shift_left(I a, I by) { return _mm512_sllv_epi32(a, by); }
  static I shift_right(I a, int by) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128(by)); }

  static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  static F first_codes(I words) {
    return _mm512_permutexvar_ps(words, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
  }
  static F repeated(F v, int shift) {
    const I lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(lane, unsigned(shift)), v);
  }
  // Above the range the instruction gives INT32_MIN. These lanes become INT32_MAX, and NaN becomes 0.
  static I round_even(F a) {
    const I rounded = _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const I high =
        _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(a, set(2147483648.0f), _CMP_GE_OQ), set(INT32_MAX));
    return _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), high);
  }
  static I round_within(F a) { return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static I truncate(F a) {
    const I high = _mm512_mask_mov_epi32(_mm512_cvttps_epi32(a), _mm512_cmp_ps_mask(a, set(2147483648.0f), _CMP_GE_OQ),
                                         set(INT32_MAX));
    return _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), high);
  }
  static I as_integers(F a) { return _mm512_castps_si512(a); }
  static F as_float(I a) { return _mm512_castsi512_ps(a); }

  static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static M is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  static bool any(M m) { return m != 0; }
  static F part(int n, F a, F b) { return _mm512_mask_mov_ps(b, first(n), a); }
  static F select(M m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }

  // Transposes 4 x 4 numbers within each four rows, then 128-bit pieces. In between, piece l of rows[g + c] (g = 0, 4,
  // 8, 12; c < 4) is column 4 l + c of rows g to g + 3.
  static void transpose(F (&rows)[kLanes]) {
    const auto pair = [&](int g, F a, F b) {
      const __m512d low = _mm512_castps_pd(a), high = _mm512_castps_pd(b);
      rows[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      rows[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    };
#pragma GCC unroll 4
    for (int g = 0; g < kLanes; g += 4) {
      const F even = _mm512_unpacklo_ps(rows[g], rows[g + 1]), odd = _mm512_unpackhi_ps(rows[g], rows[g + 1]);
      const F even2 = _mm512_unpacklo_ps(rows[g + 2], rows[g + 3]), odd2 = _mm512_unpackhi_ps(rows[g + 2], rows[g + 3]);
      pair(g, even, even2);
      pair(g + 2, odd, odd2);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const F low0 = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0x88);
      const F low1 = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0x88);
      const F high0 = _mm512_shuffle_f32x4(rows[c], rows[4 + c], 0xDD);
      const F high1 = _mm512_shuffle_f32x4(rows[8 + c], rows[12 + c], 0xDD);
      rows[c] = _mm512_shuffle_f32x4(low0, low1, 0x88);
      rows[4 + c] = _mm512_shuffle_f32x4(high0, high1, 0x88);
      rows[8 + c] = _mm512_shuffle_f32x4(low0, low1, 0xDD);
      rows[12 + c] = _mm512_shuffle_f32x4(high0, high1, 0xDD);
    }
  }

  static I doubling_high(I a, I b) {
    const I half = _mm512_set1_epi64(1 << 30);
    const I even = _mm512_add_epi64(_mm512_mul_epi32(a, b), half);
    const I odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)), half);
    return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
  }
  static I rounding_shift(I a, I by) {
    const I mask = _mm512_sub_epi32(_mm512_sllv_epi32(set(1), by), set(1));
    const I threshold = _mm512_sub_epi32(_mm512_srli_epi32(mask, 1), _mm512_srai_epi32(a, 31));
    const M up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(a, mask), threshold);
    const I shifted = _mm512_srav_epi32(a, by);
    return _mm512_mask_sub_epi32(shifted, up, shifted, set(-1));
  }
  static I scaled(I a, I multiplier, I total) {
    const auto part = [](I x, I m, I n) {
      const I half = _mm512_sllv_epi64(_mm512_set1_epi64(1), _mm512_sub_epi64(n, _mm512_set1_epi64(1)));
      return _mm512_srav_epi64(_mm512_add_epi64(_mm512_mul_epi32(x, m), half), n);
    };
    const I even = part(a, multiplier, _mm512_and_si512(total, _mm512_set1_epi64(63)));
    const I odd = part(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(multiplier, 32), _mm512_srli_epi64(total, 32));
    return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  }
  static I scaled_twice(I a, I b, I c, I by) {
    const auto part = [](I x, I m, I add) {  // x m + 2^31 + 2^32 add, of which the high half is used
      const I start = _mm512_add_epi64(_mm512_slli_epi64(add, 32), _mm512_set1_epi64(INT64_C(1) << 31));
      return _mm512_add_epi64(_mm512_mul_epi32(x, m), start);
    };
    const I twice = _mm512_add_epi32(a, a);
    const F even = as_float(part(twice, b, c));
    const F odd = as_float(part(odd_lanes(twice), odd_lanes(b), odd_lanes(c)));
    const I high = as_integers(_mm512_mask_movehdup_ps(odd, 0x5555, even));
    return _mm512_srav_epi32(_mm512_add_epi32(high, _mm512_srai_epi32(a, 31)), by);
  }

  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d) {
    // Unpacking works in each 128 bits, so dword 4 i + j of the 64 codes goes to dword i of 128-bit quarter j.
    const I order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const auto row = [&](const int8_t* p) {
      return _mm512_permutexvar_epi32(order, _mm512_xor_si512(_mm512_loadu_si512(p), set(int32_t(0x80808080u))));
    };
    const I va = row(a), vb = row(b), vc = row(c), vd = row(d);
    const I ab0 = _mm512_unpacklo_epi8(va, vb), ab1 = _mm512_unpackhi_epi8(va, vb);
    const I cd0 = _mm512_unpacklo_epi8(vc, vd), cd1 = _mm512_unpackhi_epi8(vc, vd);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(ab0, cd0));
    _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(ab0, cd0));
    _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(ab1, cd1));
    _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(ab1, cd1));
  }
  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d, int n) {
    const auto row = [n](const int8_t* p) { return _mm_maskz_loadu_epi8(first(n), p); };
    const __m128i va = row(a), vb = row(b), vc = row(c), vd = row(d);
    const __m128i ab0 = _mm_unpacklo_epi8(va, vb), ab1 = _mm_unpackhi_epi8(va, vb);
    const __m128i cd0 = _mm_unpacklo_epi8(vc, vd), cd1 = _mm_unpackhi_epi8(vc, vd);
    const __m256i low = _mm256_set_m128i(_mm_unpackhi_epi16(ab0, cd0), _mm_unpacklo_epi16(ab0, cd0));
    const __m256i high = _mm256_set_m128i(_mm_unpackhi_epi16(ab1, cd1), _mm_unpacklo_epi16(ab1, cd1));
    const I codes = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    _mm512_mask_storeu_epi32(to, first(n), _mm512_xor_si512(codes, set(int32_t(0x80808080u))));
  }

#ifdef __AVX512BF16__
  static constexpr int kRealGroup = 2;
  static I pair(const Bfloat16* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return set(pair);
  }
  static I pairs(const Bfloat16* p) { return _mm512_loadu_si512(p); }
  static void put_pairs(Bfloat16* to, const Bfloat16* a, const Bfloat16* b, int n) {
    const auto wide = [n](const Bfloat16* p) {
      return _mm512_cvtepu16_epi32(n == kLanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                                               : _mm256_maskz_loadu_epi16(first(n), p));
    };
    const I low = wide(a);
    _mm512_storeu_si512(to, b == nullptr ? low : _mm512_or_si512(low, _mm512_slli_epi32(wide(b), 16)));
  }
  static F dot(F sum, I a, I b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
#else
  static constexpr int kRealGroup = 1;
#endif

#ifdef __AVX512VNNI__
  static constexpr int kDotOffset = 128, kDotRows = 12;
  using Dot = I;
  using Quad = I;
  using Quads = I;
  using Code = uint8_t;  // x + 128
  static void to_codes(Code* p, const int8_t* x, int n) {
    const I top = _mm512_set1_epi8(int8_t(-128));
    for (; n >= 64; n -= 64, p += 64, x += 64) _mm512_storeu_si512(p, _mm512_xor_si512(_mm512_loadu_si512(x), top));
    const __mmask64 rest = (uint64_t{1} << n) - 1;
    _mm512_mask_storeu_epi8(p, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, x), top));
  }
  static void fill_codes(Code* p, int8_t x, int n) {
    const I v = _mm512_set1_epi8(int8_t(x ^ -128));
    for (; n >= 64; n -= 64, p += 64) _mm512_storeu_si512(p, v);
    _mm512_mask_storeu_epi8(p, (uint64_t{1} << n) - 1, v);
  }
  static Quad quad(const Code* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return set(codes);
  }
  static Quads quads(const int8_t* p) { return _mm512_loadu_si512(p); }
  static Dot dot_from(I v) { return v; }
  static I total(Dot v) { return v; }
  static Dot dot(Dot sum, Quad a, Quads b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }

  using Fours = I;
  using WeightFours = I;
  static Fours fours(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static WeightFours weight_fours(const int8_t* p) { return _mm512_loadu_si512(p); }
#else
  // Codes are widened to 16 bits. Dot holds two 32-bit sums of pairs for each column: 0 to 7 in low, 8 to 15 in high.
  static constexpr int kDotOffset = 0, kDotRows = 6;
  struct Dot {
    I low, high;
  };
  using Quad = I;
  struct Quads {
    I low, high;
  };
  using Code = int16_t;
  static void to_codes(Code* p, const int8_t* x, int n) {
    for (; n >= 32; n -= 32, p += 32, x += 32)
      _mm512_storeu_si512(p, _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
    const __mmask32 rest = (uint32_t{1} << n) - 1;
    _mm512_mask_storeu_epi16(p, rest, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(rest, x)));
  }
  static void fill_codes(Code* p, int8_t x, int n) {
    const I v = _mm512_set1_epi16(x);
    for (; n >= 32; n -= 32, p += 32) _mm512_storeu_si512(p, v);
    _mm512_mask_storeu_epi16(p, (uint32_t{1} << n) - 1, v);
  }
  static Quad quad(const Code* p) {
    int64_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return _mm512_set1_epi64(codes);
  }
  static Quads quads(const int8_t* p) {
    const auto half = [p](int i) {
      return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i)));
    };
    return {half(0), half(32)};
  }
  static Dot dot_from(I v) {
    return {_mm512_cvtepu32_epi64(_mm512_castsi512_si256(v)), _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(v, 1))};
  }
  static I total(Dot v) {
    const auto sums = [](I pairs) {
      return _mm512_cvtepi64_epi32(_mm512_add_epi32(pairs, _mm512_srli_epi64(pairs, 32)));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(sums(v.low)), sums(v.high), 1);
  }
  static Dot dot(Dot sum, Quad a, Quads b) {
    I pairs;  // tied operands, as in fma
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum.low), "=&v"(pairs) : "v"(a), "v"(b.low));
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum.high), "=&v"(pairs) : "v"(a), "v"(b.high));
    return sum;
  }

  // The four codes of a column are widened to 16 bits: codes 0 and 2 form a pair, and codes 1 and 3 form one.
  struct Fours {
    I even, odd;
  };
  using WeightFours = Fours;
  static Fours fours(const uint8_t* p) {
    const I v = _mm512_loadu_si512(p);
    return {_mm512_and_si512(v, set(0x00FF00FF)), _mm512_srli_epi16(v, 8)};
  }
  static WeightFours weight_fours(const int8_t* p) {
    const I v = _mm512_loadu_si512(p);
    return {_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8), _mm512_srai_epi16(v, 8)};
  }
  static I dot(I sum, Fours a, WeightFours w) {
    return add(sum, add(_mm512_madd_epi16(a.even, w.even), _mm512_madd_epi16(a.odd, w.odd)));
  }
#endif

 private:
  static I odd_lanes(I v) { return as_integers(_mm512_movehdup_ps(as_float(v))); }
  static F of_bf16(__m256i v) { return as_float(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }
  // Rounds half to even with integers, because the AVX512-BF16 instruction flushes subnormal numbers.
  static __m256i to_bf16(F v) {
    const I bits = as_integers(v);
    const I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), set(1));
    const I rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, set(0x7FFF))), 16);
    const M nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, set(0x7FC0)));
  }
  // Makes a float32 of the code's exponent and mantissa, multiplies it by 2^120, and adds the sign. If exponent and
  // mantissa are all ones, the result is NaN.
  static F of_e4m3(__m128i codes) {
    const I v = _mm512_cvtepi8_epi32(codes);
    const I magnitude = _mm512_and_si512(v, set(0x7F));
    const F real = mul(as_float(_mm512_slli_epi32(magnitude, 20)), set(0x1p120f));
    const I bits = _mm512_or_si512(as_integers(real), _mm512_and_si512(v, set(INT32_MIN)));
    return as_float(_mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(magnitude, set(0x7F)), bits, set(0x7FC00000)));
  }
};

#ifdef __AMX_INT8__
struct Avx512Amx : Avx512 {
  using Blocks = AmxBlocks;
};
using Vector = Avx512Amx;
#else
using Vector = Avx512;
#endif

}  // namespace nacre::inline NACRE_ISA
