// The part of Avx512 (vec_avx512.h) that decodes numbers of 8 bits to pairs of bfloat16, with AVX-512 VBMI.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"

namespace nacre::inline NACRE_ISA {

#if defined(__AVX512BF16__) && defined(__AVX512VBMI__)
struct Avx512Decoded {
  static constexpr int kDecodedGroup = 2;
  using F = __m512;
  using I = __m512i;

  // The bytes of the bfloat16 of each number of 8 bits without its sign: 128 codes, by two registers each.
  struct Decoded {
    alignas(64) uint8_t low[128], high[128];
  };
  template <class Of>
  static constexpr Decoded decoded(const Of& of) {
    Decoded made = {};
    for (int code = 0; code < 128; ++code) {
      const auto bits = uint16_t(std::bit_cast<uint32_t>(of(code)) >> 16);
      made.low[code] = uint8_t(bits), made.high[code] = uint8_t(bits >> 8);
    }
    return made;
  }
  static constexpr float size_of(Float8E4M3, int code) {
    const int exponent = code >> 3, mantissa = code & 7;
    if (code == 127) return std::bit_cast<float>(0x7FC00000u);
    float size = exponent == 0 ? float(mantissa) : float(8 + mantissa);
    for (int e = exponent == 0 ? 1 : exponent; e < 10; ++e) size /= 2;
    for (int e = 10; e < exponent; ++e) size *= 2;
    return size;
  }
  static constexpr float size_of(int8_t, int code) { return float(code); }
  template <class W>
  static constexpr Decoded kDecoded = decoded([](int code) { return size_of(W{}, code); });

  // Codes as indices of the tables. |-128| is 128, the only code above 127.
  static I sizes(const Float8E4M3*, I codes) { return codes; }
  static I sizes(const int8_t*, I codes) { return _mm512_abs_epi8(codes); }
  static I with_sign(const Float8E4M3*, I high, I codes, I) { return signed_by(high, codes); }
  static I with_sign(const int8_t*, I high, I codes, I sizes) {
    const I whole = _mm512_mask_mov_epi8(high, _mm512_movepi8_mask(sizes), _mm512_set1_epi8(0x43));  // 128
    return signed_by(whole, codes);
  }
  // Returns `high`, below 128, with the sign of `codes`, byte by byte. One vpternlogd for both is slower on Zen 4:
  // it shares the units of vdpbf16ps, while these two have others.
  static I signed_by(I high, I codes) {
    return _mm512_add_epi8(high, _mm512_and_si512(codes, _mm512_set1_epi8(char(0x80))));
  }
  template <class W>
  static I low_bytes(I codes) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(kDecoded<W>.low), codes, _mm512_load_si512(kDecoded<W>.low + 64));
  }
  template <class W>
  static I high_bytes(const W* w, I codes, I sizes) {
    return with_sign(
        w,
        _mm512_permutex2var_epi8(_mm512_load_si512(kDecoded<W>.high), sizes, _mm512_load_si512(kDecoded<W>.high + 64)),
        codes, sizes);
  }
  template <class W>
  static I decoded_pairs(const W* p) {
    const I words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    const I codes = _mm512_or_si512(words, _mm512_slli_epi16(words, 8)), all = sizes(p, codes);
    return _mm512_mask_mov_epi8(low_bytes<W>(all), 0xAAAAAAAAAAAAAAAA, high_bytes(p, codes, all));
  }
  static void store_pairs(Bfloat16* to, I pairs) { _mm512_storeu_si512(to, pairs); }

  struct Both {
    I first, second;
  };
  // Columns of two terms as unpacking leaves them: 0 to 3 and 8 to 11 of both terms are first, the others second.
  template <class W>
  static Both both_decoded(const W* p) {
    I codes = _mm512_loadu_si512(p);
    asm("" : "+v"(codes));  // loaded once: copies are free, loads of 64 bytes are not
    const I all = sizes(p, codes), low = low_bytes<W>(all), high = high_bytes(p, codes, all);
    return {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
  }
  static I both(const Bfloat16* p) {
    int32_t pair[2];
    std::memcpy(pair, p, sizeof pair);
    return _mm512_mask_set1_epi32(_mm512_set1_epi32(pair[0]), 0xFF00, pair[1]);
  }
  static F joined(F first, F second) {
    const auto halves = [](F v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); };
    const __m256 a = halves(first), b = halves(second);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  }
};
#else
struct Avx512Decoded {
  static constexpr int kDecodedGroup = 1;
};
#endif

}  // namespace nacre::inline NACRE_ISA
