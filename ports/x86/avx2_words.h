// Parts of the vector layer (engine/simd/vec.h) for AVX2 that go through 16 bits: the operations of kPacksWords,
// kHalfFloat8 and kPairs.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

struct Avx2Words {
  using I = __m256i;

  static constexpr bool kPacksWords = true;
  struct CodeRange {
    I zero, low, high;
    CodeRange(int32_t zero_point, int32_t least, int32_t most)
        : zero(_mm256_set1_epi16(int16_t(zero_point))), low(_mm256_set1_epi8(code(least))),
          high(_mm256_set1_epi8(code(most))) {}
    I codes(I a, I b) const {
      const I packed = _mm256_packs_epi16(_mm256_adds_epi16(a, zero), _mm256_adds_epi16(b, zero));
      return _mm256_max_epi8(low, _mm256_min_epi8(high, packed));
    }

   private:
    static int8_t code(int32_t c) { return int8_t(c < -128 ? -128 : c > 127 ? 127 : c); }
  };
  // Rounds to integers. Numbers above 2^30 and NaN become 2^30, and numbers below -2^31 become -2^31.
  static I round_word(__m256 a) { return _mm256_cvtps_epi32(_mm256_min_ps(a, _mm256_set1_ps(0x1p30f))); }
  static void store(int8_t* p, ptrdiff_t step, I a, I b, I c, I d, const CodeRange& range) {
    const I codes = range.codes(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    const I rows = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const auto put = [](int8_t* to, __m128i two, ptrdiff_t by) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), two);
      _mm_storeh_pd(reinterpret_cast<double*>(to + by), _mm_castsi128_pd(two));
    };
    put(p, _mm256_castsi256_si128(rows), step);
    put(p + 2 * step, _mm256_extracti128_si256(rows, 1), step);
  }

  // Float8E4M3 is decoded by way of float16, whose exponent has one bit more and a bias that is larger by 8.
  static constexpr bool kHalfFloat8 = true;
  using Bytes = __m128i;
  static Bytes bytes() { return _mm_setzero_si128(); }
  static void half_numbers(const Float8E4M3* p, Bytes& largest, __m256& first, __m256& second) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    largest = _mm_max_epu8(largest, _mm_or_si128(codes, _mm_set1_epi8(int8_t(-128))));
    const I shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    const I halves = _mm256_and_si256(shifted, _mm256_set1_epi16(int16_t(0xBF80)));  // drops the copied sign bit
    first = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    second = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  static bool any_nan(Bytes largest) {
    return _mm_movemask_epi8(_mm_cmpeq_epi8(largest, _mm_set1_epi8(int8_t(-1)))) != 0;
  }

  using Words = I;
  struct WordPairs {
    I low, high;
  };
  struct PairSums {
    I low, high;
  };
  static Words words(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static WordPairs pairs(Words a, Words b) { return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}; }
  static void dot(PairSums& sums, WordPairs x, const int16_t* w) {
    struct Weights {
      int16_t w[16];
    };
    const auto* const from = reinterpret_cast<const Weights*>(w);
    I product;  // the weights stay in memory, because registers are few
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sums.low), "=&x"(product) : "x"(x.low), "m"(from[0]));
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sums.high), "=&x"(product) : "x"(x.high), "m"(from[1]));
  }
  static void store(int8_t* p, int8_t* q, PairSums a, PairSums b, const CodeRange& range) {
    const I codes = range.codes(_mm256_packs_epi32(a.low, a.high), _mm256_packs_epi32(b.low, b.high));
    const I ordered = _mm256_permute4x64_epi64(codes, 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(ordered));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm256_extracti128_si256(ordered, 1));
  }
};

}  // namespace nacre::inline NACRE_ISA
