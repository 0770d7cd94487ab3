// Blocks of products (engine/simd/vec.h) with the matrix instructions of ARMv8.6: SMMLA for int8 codes, BFMMLA for
// bfloat16.
//
//   s_rc += sum_k x_rk w_kc        r of two rows, c of two columns, k of 8 bytes: 8 codes or 4 bfloat16
//
// Weights are stored in groups of 4 bytes, [group][4 columns]. Two groups of a panel are interleaved to 8 bytes of
// columns 0 and 1, and of columns 2 and 3. If the number of groups in a run is odd, zeros stand for the missing
// group.
//
// BFMMLA rounds sums to odd (it sets the last bit if a sum is inexact): the sum of two products, and its addition to
// s_rc. An error is less than one epsilon, twice that of half to even, but s_rc is rounded once for two terms.
//
// Arm Architecture Reference Manual for A-profile, C7.2, SMMLA (vector) and BFMMLA; shared/functions/float/bfloat.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

class MatrixBlocks {
 public:
  static constexpr int kMostRows = 8, kAtOnce = 4;  // rows in a block; blocks of sums at a time
  static constexpr bool kReal = true;               // bfloat16 is multiplied too
  static bool takes(int count, int) { return count >= 2; }

  // Sets the number of rows of the blocks that multiply() takes.
  void prepare(int rows, int) { rows_ = rows; }

  // Multiplies `count` blocks, whose rows begin at from[i], with `vectors` panels of w, which lie `panel` numbers
  // apart; count vectors <= 4. The sums of block i and panel v go to sums + 4 (i vectors + v), with rows `step`
  // numbers apart.
  template <class X, class W, class Sum>
  void multiply(const X* const (&from)[kAtOnce], int count, const BlockRows& rows, const W* w, ptrdiff_t panel,
                int vectors, const Sum* start, Sum* sums, int step) const {
    using Block = void (*)(const Call<Sum>&);
    constexpr Block kBlocks[2][4] = {{&block<1, 1, Sum>, &block<2, 1, Sum>, &block<3, 1, Sum>, &block<4, 1, Sum>},
                                     {&block<1, 2, Sum>, &block<2, 2, Sum>, &block<3, 2, Sum>, &block<4, 2, Sum>}};
    for (int i = 0; i < count; ++i)
      for (int v = 0, taken; v < vectors; v += taken) {
        taken = vectors - v >= 2 ? 2 : 1;
        kBlocks[taken - 1][(rows_ - 1) / 2](
            {reinterpret_cast<const uint8_t*>(from[i]), rows, rows_, reinterpret_cast<const uint8_t*>(w + v * panel),
             panel * ptrdiff_t(sizeof(W)), start + v * 4, sums + 4 * (i * vectors + v), step});
      }
  }

 private:
  template <class Sum>
  struct Call {
    const uint8_t* x;
    const BlockRows& rows;
    int count;
    const uint8_t* w;
    ptrdiff_t panel;
    const Sum* start;
    Sum* sums;
    int step;
  };

  static int32x4_t multiply(int32x4_t sum, uint8x16_t x, uint8x16_t w) {
    return vmmlaq_s32(sum, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(w));
  }
  static float32x4_t multiply(float32x4_t sum, uint8x16_t x, uint8x16_t w) {
    return vbfmmlaq_f32(sum, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(w));
  }
  static int32x4_t twice(const int32_t* p) { return vcombine_s32(vld1_s32(p), vld1_s32(p)); }
  static float32x4_t twice(const float* p) { return vcombine_f32(vld1_f32(p), vld1_f32(p)); }
  static void put(int32_t* to, int32x2_t a, int32x2_t b) { vst1q_s32(to, vcombine_s32(a, b)); }
  static void put(float* to, float32x2_t a, float32x2_t b) { vst1q_f32(to, vcombine_f32(a, b)); }
  static int32x2_t low(int32x4_t v) { return vget_low_s32(v); }
  static int32x2_t high(int32x4_t v) { return vget_high_s32(v); }
  static float32x2_t low(float32x4_t v) { return vget_low_f32(v); }
  static float32x2_t high(float32x4_t v) { return vget_high_f32(v); }
  static uint8x8_t four(const uint8_t* p) {
    uint32_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    return vreinterpret_u8_u32(vset_lane_u32(bytes, vdup_n_u32(0), 0));
  }

  // Multiplies one block. Its sums are [row pair][columns 0 1, columns 2 3]: r0 c0, r0 c1, r1 c0, r1 c1. If the
  // number of rows is odd, the last row stands for both rows of its pair.
  template <int kPairs, int kVectors, class Sum>
  [[gnu::noinline]] static void block(const Call<Sum>& call) {
    using Sums = std::conditional_t<std::is_same_v<Sum, float>, float32x4_t, int32x4_t>;
    Sums sum[kPairs][kVectors][2];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[p][v][0] = twice(call.start + v * 4);
        sum[p][v][1] = twice(call.start + v * 4 + 2);
      }
    const ptrdiff_t last = call.count < 2 * kPairs ? 0 : call.rows.step;  // to the second row of the last pair
    const uint8_t *x = call.x, *w = call.w;
    // Multiplies two groups: eight(row) loads 8 bytes of a row, second(v) the second group of the weights of panel v.
    const auto groups = [&](const auto& eight, int at, const auto& second) __attribute__((always_inline)) {
      uint8x16_t columns[kVectors][2];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const uint32x4_t one = vreinterpretq_u32_u8(vld1q_u8(w + v * call.panel)), two = second(v);
        columns[v][0] = vreinterpretq_u8_u32(vzip1q_u32(one, two));
        columns[v][1] = vreinterpretq_u8_u32(vzip2q_u32(one, two));
      }
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p) {
        const uint8_t* const row = x + 2 * p * call.rows.step + at;
        const uint8x16_t rows = vcombine_u8(eight(row), eight(row + (p == kPairs - 1 ? last : call.rows.step)));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 2
          for (int c = 0; c < 2; ++c) sum[p][v][c] = multiply(sum[p][v][c], rows, columns[v][c]);
      }
    };
    for (int run = 0; run < call.rows.runs; ++run, x += call.rows.run) {
      int i = 0;
#pragma GCC unroll 1
      for (; i + 8 <= call.rows.length; i += 8, w += 32)
        groups([](const uint8_t* p) { return vld1_u8(p); }, i,
               [&](int v) { return vreinterpretq_u32_u8(vld1q_u8(w + v * call.panel + 16)); });
      if (i == call.rows.length) continue;
      groups([](const uint8_t* p) { return four(p); }, i, [](int) { return vdupq_n_u32(0); });
      w += 16;
    }
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const Sums* const s = sum[p][v];
        Sum* const to = call.sums + 2 * p * call.step + 4 * v;
        put(to, low(s[0]), low(s[1]));
        if (2 * p + 1 < call.count) put(to + call.step, high(s[0]), high(s[1]));
      }
  }

  int rows_ = 1;
};

}  // namespace nacre::inline NACRE_ISA
