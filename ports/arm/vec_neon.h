// The vector layer (engine/simd/vec.h) with NEON of AArch64, and of ARMv7 with fused multiply-add (VFPv4). In files
// compiled for them, dot products use SDOT, SMMLA, BFMMLA and BFMLAL. NEON of ARMv7 takes subnormal numbers for 0 and
// makes none.
#pragma once

#include <arm_neon.h>

#include "engine/simd/vec.h"
#ifdef __ARM_FEATURE_MATMUL_INT8
#include "ports/arm/matrix_blocks.h"
#endif

namespace nacre::inline NACRE_ISA {

struct Neon {
  static constexpr int kLanes = 4;
#ifdef __aarch64__
  static constexpr int kRealRows = 8;  // 16 of 32 registers hold sums: g++ loads all numbers of x first
#else
  static constexpr int kRealRows = 6;  // 12 of 16 registers hold sums
#endif
  static constexpr int kTallRows = kRealRows;
  static constexpr bool kDotWide = true;

  using F = float32x4_t;
  using I = int32x4_t;
  using M = uint32x4_t;

  static int most(int n) { return n < kLanes ? n : kLanes; }

  static F load(const float* p) { return vld1q_f32(p); }
  static F load(const float* p, int n) {
    F v = vdupq_n_f32(0);
    if (n >= 4) return vld1q_f32(p);
    if (n >= 1) v = vld1q_lane_f32(p, v, 0);
    if (n >= 2) v = vld1q_lane_f32(p + 1, v, 1);
    if (n >= 3) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
  }
  static F load(const Float16* p, int n = kLanes) { return vcvt_f32_f16(vreinterpret_f16_u16(words(p, n))); }
  static F load(const Bfloat16* p, int n = kLanes) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(words(p, n)), 16));
  }
  static F load(const int8_t* p, int n = kLanes) { return to_float(load_integers(p, n)); }
  static F load(const Float8E4M3* p, int n = kLanes) {
    return of_e4m3(load_integers(reinterpret_cast<const int8_t*>(p), n));
  }
  static I load_integers(const int32_t* p) { return vld1q_s32(p); }
  static I load_integers(const int32_t* p, int n) {
    I v = vdupq_n_s32(0);
    if (n >= 4) return vld1q_s32(p);
    if (n >= 1) v = vld1q_lane_s32(p, v, 0);
    if (n >= 2) v = vld1q_lane_s32(p + 1, v, 1);
    if (n >= 3) v = vld1q_lane_s32(p + 2, v, 2);
    return v;
  }
  static I load_integers(const int8_t* p, int n = kLanes) {
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes(p, n)))));
  }

  static void store(float* p, F v) { vst1q_f32(p, v); }
  static void store(float* p, F v, int n) {
    if (n >= 4) return vst1q_f32(p, v);
    if (n >= 1) vst1q_lane_f32(p, v, 0);
    if (n >= 2) vst1q_lane_f32(p + 1, v, 1);
    if (n >= 3) vst1q_lane_f32(p + 2, v, 2);
  }
  static void store(Float16* p, F v, int n = kLanes) { put(p, vreinterpret_u16_f16(vcvt_f16_f32(v)), n); }
  static void store(Bfloat16* p, F v, int n = kLanes) { put(p, to_bf16(v), n); }
  static void store(int32_t* p, I v) { vst1q_s32(p, v); }
  static void store(int32_t* p, I v, int n) {
    if (n >= 4) return vst1q_s32(p, v);
    if (n >= 1) vst1q_lane_s32(p, v, 0);
    if (n >= 2) vst1q_lane_s32(p + 1, v, 1);
    if (n >= 3) vst1q_lane_s32(p + 2, v, 2);
  }
  static void store(int8_t* p, I v, int n = kLanes) {
    const int16x4_t words = vqmovn_s32(v);
    const int8x8_t codes = vqmovn_s16(vcombine_s16(words, words));
    if (n >= 4) {
      const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(codes), 0);
      std::memcpy(p, &four, sizeof four);
      return;
    }
    if (n >= 1) vst1_lane_s8(p, codes, 0);
    if (n >= 2) vst1_lane_s8(p + 1, codes, 1);
    if (n >= 3) vst1_lane_s8(p + 2, codes, 2);
  }
  static void store(int8_t* p, I a, I b, I c, I d) {
    const int8x8_t low = vqmovn_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)));
    const int8x8_t high = vqmovn_s16(vcombine_s16(vqmovn_s32(c), vqmovn_s32(d)));
    vst1q_s8(p, vcombine_s8(low, high));
  }

  static F set(float x) { return vdupq_n_f32(x); }
  static I set(int32_t x) { return vdupq_n_s32(x); }

  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return a / b; }  // ARMv7 has no vector instruction: lane by lane
  static F min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static F max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static F abs(F a) { return vabsq_f32(a); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F scale(F a, F n) {  // multiplies in two steps, because 2^n itself may be beyond float32
    const I whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    const auto power = [](I e) { return as_float(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23)); };
    return mul(mul(a, power(half)), power(vsubq_s32(whole, half)));
  }
#ifdef __aarch64__
  static F sqrt(F a) { return vsqrtq_f32(a); }
  static F floor(F a) { return vrndmq_f32(a); }
  static F nearest(F a) { return vrndnq_f32(a); }
  static float sum(F v) { return vaddvq_f32(v); }
  static float largest(F v) { return vmaxvq_f32(v); }
  static I round_even(F a) { return vcvtnq_s32_f32(a); }
  static bool any(M m) { return vmaxvq_u32(m) != 0; }
#else
  static F sqrt(F a) {
    F v = a;
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(a[i]);
    return v;
  }
  static F floor(F a) {
    const F n = nearest(a);
    return vsubq_f32(n, vbslq_f32(vcltq_f32(a, n), set(1.0f), set(0.0f)));
  }
  // Rounds to a whole number: adding 2^23 to a smaller number and subtracting it again rounds it.
  static F nearest(F a) {
    const M sign = vdupq_n_u32(0x80000000u);
    const F magic = vbslq_f32(sign, a, set(0x1p23f)), n = vsubq_f32(vaddq_f32(a, magic), magic);
    return vbslq_f32(vcltq_f32(abs(a), set(0x1p23f)), vbslq_f32(sign, a, n), a);
  }
  static float sum(F v) {
    const float32x2_t pairs = vpadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(pairs, pairs), 0);
  }
  static float largest(F v) {
    const float32x2_t pairs = vpmax_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpmax_f32(pairs, pairs), 0);
  }
  static I round_even(F a) { return vcvtq_s32_f32(nearest(a)); }
  static bool any(M m) {
    const uint32x2_t both = vorr_u32(vget_low_u32(m), vget_high_u32(m));
    return vget_lane_u64(vreinterpret_u64_u32(both), 0) != 0;
  }
#endif

  static I round_within(F a) { return round_even(a); }

  static I add(I a, I b) { return vaddq_s32(a, b); }
  static I sub(I a, I b) { return vsubq_s32(a, b); }
  static I mul(I a, I b) { return vmulq_s32(a, b); }
  static I min(I a, I b) { return vminq_s32(a, b); }
  static I max(I a, I b) { return vmaxq_s32(a, b); }
  static I shift_left(I a, I by) { return vshlq_s32(a, by); }
  static I shift_right(I a, int by) { return vshlq_s32(a, vdupq_n_s32(-by)); }

  static F to_float(I a) { return vcvtq_f32_s32(a); }
  static I truncate(F a) { return vcvtq_s32_f32(a); }
  static I as_integers(F a) { return vreinterpretq_s32_f32(a); }
  static F as_float(I a) { return vreinterpretq_f32_s32(a); }

  static M less(F a, F b) { return vcltq_f32(a, b); }
  static M is_nan(F a) { return vmvnq_u32(vceqq_f32(a, a)); }
  static F part(int n, F a, F b) {
    const I lane = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(lane, vdupq_n_s32(n)), a, b);
  }
  static F select(M m, F yes, F no) { return vbslq_f32(m, yes, no); }

  static void transpose(F (&rows)[kLanes]) {
    const float32x4x2_t top = vtrnq_f32(rows[0], rows[1]), bottom = vtrnq_f32(rows[2], rows[3]);
    for (int i = 0; i < 2; ++i) {
      rows[i] = vcombine_f32(vget_low_f32(top.val[i]), vget_low_f32(bottom.val[i]));
      rows[2 + i] = vcombine_f32(vget_high_f32(top.val[i]), vget_high_f32(bottom.val[i]));
    }
  }

  static I doubling_high(I a, I b) { return vqrdmulhq_s32(a, b); }
  // The instruction rounds half up. Subtracting 1 from negative numbers first makes it round half away from 0.
  static I rounding_shift(I a, I by) {
    const I right = vnegq_s32(by);
    return vrshlq_s32(vqaddq_s32(a, vshrq_n_s32(vandq_s32(a, right), 31)), right);
  }
  static I scaled(I a, I multiplier, I total) {
    const auto part = [](int32x2_t x, int32x2_t m, int32x2_t n) {
      return vmovn_s64(vrshlq_s64(vmull_s32(x, m), vmovl_s32(vneg_s32(n))));
    };
    return vcombine_s32(part(vget_low_s32(a), vget_low_s32(multiplier), vget_low_s32(total)),
                        part(vget_high_s32(a), vget_high_s32(multiplier), vget_high_s32(total)));
  }
  static I scaled_twice(I a, I b, I c, I by) {
    const I sum = vaddq_s32(vaddq_s32(vqrdmulhq_s32(a, b), c), vshrq_n_s32(a, 31));
    return vshlq_s32(sum, vnegq_s32(by));
  }

  using Code = int8_t;
  using Quads = int8x16_t;
  static void to_codes(Code* p, const int8_t* x, int n) {
    for (; n >= 16; n -= 16, p += 16, x += 16) vst1q_s8(p, vld1q_s8(x));
    for (int i = 0; i < n; ++i) p[i] = x[i];
  }
  static void fill_codes(Code* p, int8_t x, int n) { std::memset(p, x, size_t(n)); }
  static Quads quads(const int8_t* p) { return vld1q_s8(p); }
  static constexpr int kDotOffset = 0;

  // Products of fours (engine/simd/vec.h: column by column) multiply signed codes here, so no offset is added.
  static constexpr int kFoursOffset = 0, kPairs = 0;
  static constexpr bool kPacksWords = false, kHalfFloat8 = false;
  using Fours = int8x16_t;
  using WeightFours = int8x16_t;
  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d) {
    const int8x16x4_t rows = {{vld1q_s8(a), vld1q_s8(b), vld1q_s8(c), vld1q_s8(d)}};
    vst4q_s8(reinterpret_cast<int8_t*>(to), rows);
  }
  static void interleave(uint8_t* to, const int8_t* a, const int8_t* b, const int8_t* c, const int8_t* d, int n) {
    const uint8x8_t ab = vzip_u8(bytes(a, n), bytes(b, n)).val[0], cd = vzip_u8(bytes(c, n), bytes(d, n)).val[0];
    const uint16x4x2_t fours = vzip_u16(vreinterpret_u16_u8(ab), vreinterpret_u16_u8(cd));
    store(reinterpret_cast<int32_t*>(to), vreinterpretq_s32_u16(vcombine_u16(fours.val[0], fours.val[1])), n);
  }
  static Fours fours(const uint8_t* p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
  static WeightFours weight_fours(const int8_t* p) { return vld1q_s8(p); }

#ifdef __ARM_FEATURE_MATMUL_INT8
  using Blocks = MatrixBlocks;

  // Multiply pairs of bfloat16, for products that Blocks does not take. BFMLALB multiplies the even numbers and BFMLALT
  // the odd ones; both round like a float32 multiply-add.
  static constexpr int kRealGroup = 2, kDecodedGroup = 1;
  static bfloat16x8_t pair(const Bfloat16* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return vreinterpretq_bf16_s32(vdupq_n_s32(pair));
  }
  static bfloat16x8_t pairs(const Bfloat16* p) {
    return vreinterpretq_bf16_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(p)));
  }
  static void put_pairs(Bfloat16* to, const Bfloat16* a, const Bfloat16* b, int n) {
    const uint16x4x2_t both = vzip_u16(words(a, n), b == nullptr ? vdup_n_u16(0) : words(b, n));
    vst1q_u16(reinterpret_cast<uint16_t*>(to), vcombine_u16(both.val[0], both.val[1]));
  }
  static F dot(F sum, bfloat16x8_t a, bfloat16x8_t b) { return vbfmlaltq_f32(vbfmlalbq_f32(sum, a, b), a, b); }
#else
  static constexpr int kRealGroup = 1, kDecodedGroup = 1;
#endif

#ifdef __ARM_FEATURE_DOTPROD
  static constexpr int kDotRows = 8;
  using Dot = I;
  using Quad = int8x16_t;
  static Quad quad(const Code* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return vreinterpretq_s8_s32(vdupq_n_s32(codes));
  }
  static Dot dot_from(I v) { return v; }
  static I total(Dot v) { return v; }
  static I dot(I sum, int8x16_t a, int8x16_t b) { return vdotq_s32(sum, b, a); }
#else
  // Dot holds two sums of pairs for each column, side by side: columns 0 and 1 in low, 2 and 3 in high. A product has
  // 16 bits; the sum of two products may have 17, so it is added in 32 bits.
#ifdef __aarch64__
  static constexpr int kDotRows = 4;
#else
  static constexpr int kDotRows = 2;
#endif
  struct Dot {
    I low, high;
  };
  using Quad = int8x8_t;
  static Quad quad(const Code* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof codes);
    return vreinterpret_s8_s32(vdup_n_s32(codes));
  }
  static Dot dot_from(I v) {
    const int32x4x2_t pairs = vzipq_s32(v, vdupq_n_s32(0));
    return {pairs.val[0], pairs.val[1]};
  }
  static I total(Dot v) {
    return vcombine_s32(vpadd_s32(vget_low_s32(v.low), vget_high_s32(v.low)),
                        vpadd_s32(vget_low_s32(v.high), vget_high_s32(v.high)));
  }
  static Dot dot(Dot sum, Quad a, Quads b) {
    return {vpadalq_s16(sum.low, vmull_s8(vget_low_s8(b), a)), vpadalq_s16(sum.high, vmull_s8(vget_high_s8(b), a))};
  }
  static I dot(I sum, Fours a, WeightFours w) {
    const I low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(w)));
    const I high = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(w)));
    return vaddq_s32(sum, total({low, high}));
  }
#endif

 private:
  template <class T>
  static uint16x4_t words(const T* p, int n) {  // loads n numbers of two bytes
    static_assert(sizeof(T) == 2);
    const auto* const from = reinterpret_cast<const uint16_t*>(p);
    uint16x4_t v = vdup_n_u16(0);
    if (n >= 4) return vld1_u16(from);
    if (n >= 1) v = vld1_lane_u16(from, v, 0);
    if (n >= 2) v = vld1_lane_u16(from + 1, v, 1);
    if (n >= 3) v = vld1_lane_u16(from + 2, v, 2);
    return v;
  }
  template <class T>
  static void put(T* p, uint16x4_t v, int n) {
    static_assert(sizeof(T) == 2);
    auto* const to = reinterpret_cast<uint16_t*>(p);
    if (n >= 4) return vst1_u16(to, v);
    if (n >= 1) vst1_lane_u16(to, v, 0);
    if (n >= 2) vst1_lane_u16(to + 1, v, 1);
    if (n >= 3) vst1_lane_u16(to + 2, v, 2);
  }
  template <class T>
  static uint8x8_t bytes(const T* p, int n) {  // loads n numbers of one byte, n <= 4
    static_assert(sizeof(T) == 1);
    const auto* const from = reinterpret_cast<const uint8_t*>(p);
    uint8x8_t v = vdup_n_u8(0);
    if (n >= 4) {
      uint32_t four;
      std::memcpy(&four, from, sizeof four);
      return vreinterpret_u8_u32(vset_lane_u32(four, vdup_n_u32(0), 0));
    }
    if (n >= 1) v = vld1_lane_u8(from, v, 0);
    if (n >= 2) v = vld1_lane_u8(from + 1, v, 1);
    if (n >= 3) v = vld1_lane_u8(from + 2, v, 2);
    return v;
  }
  static uint16x4_t to_bf16(F v) {  // rounds half to even
    const uint32x4_t word = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(word, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(word, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
    return vshrn_n_u32(vbslq_u32(is_nan(v), vdupq_n_u32(0x7FC00000), rounded), 16);
  }
  // Makes a float32 of the code's exponent plus 120, its mantissa and its sign. If the exponent is 0, the number is
  // the mantissa times 2^-9. The code whose exponent and mantissa are all ones is NaN.
  static F of_e4m3(I v) {
    const I magnitude = vandq_s32(v, set(0x7F));
    const F normal = as_float(vaddq_s32(vshlq_n_s32(magnitude, 20), set(120 << 23)));
    const F small = mul(to_float(magnitude), set(0x1p-9f));
    const F real = vbslq_f32(vcltq_s32(magnitude, set(8)), small, normal);
    const M nan = vceqq_s32(magnitude, set(0x7F));
    return vbslq_f32(vdupq_n_u32(0x80000000u), as_float(v), vbslq_f32(nan, set(__builtin_nanf("")), real));
  }
};

using Vector = Neon;

}  // namespace nacre::inline NACRE_ISA
