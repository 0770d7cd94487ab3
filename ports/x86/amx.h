// Blocks of products (engine/simd/vec.h) with AMX: tiles of up to 16 rows of 64 bytes.
//
//   sums[r][c] += sum over the groups k of a tile: x[r][k] w[k][c]     a group: 4 codes or 2 bfloat16, so 4 bytes
//
// Tiles 0 to 3 hold sums, 4 and 5 rows of x, 6 and 7 columns of w. A row of x is one or more runs of memory. A run is
// cut into pieces of equal length, at most 16 groups each. A shorter last piece is copied and filled up with zeros.
//
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/small_float.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

class AmxBlocks {
 public:
  static constexpr int kMostRows = 16, kAtOnce = 4;  // rows in a block; blocks of sums at a time
  static constexpr bool kReal = true;                // bfloat16 is multiplied too
  // Returns whether `count` rows with runs of `length` bytes are enough to repay the cost of loading tiles.
  static bool takes(int count, int length) { return count * length >= kLeastBytes; }

  AmxBlocks() = default;
  AmxBlocks(const AmxBlocks&) = delete;
  AmxBlocks& operator=(const AmxBlocks&) = delete;
  ~AmxBlocks() {
    if (rows_ != 0) __asm__ volatile("tilerelease");  // otherwise the system keeps 8 KiB for the thread
  }

  // Configures the tiles for blocks of `rows` rows with runs of `length` bytes (whole groups). multiply() needs it.
  void prepare(int rows, int length) {
    const int all = length / 4, pieces = (all + 15) / 16, groups = (all + pieces - 1) / pieces;
    pieces_ = pieces;
    last_ = all - (pieces - 1) * groups;
    if (rows == rows_ && groups == groups_) return;
    rows_ = rows;
    groups_ = groups;
    struct Config {
      uint8_t palette, first_row, unused[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    } config = {};
    static_assert(sizeof(Config) == 64);
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = uint16_t(i == 4 || i == 5 ? groups * 4 : 64);
      config.rows[i] = uint8_t(i < 6 ? rows : groups);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }

  // Multiplies `count` blocks, whose rows begin at from[i], with `vectors` panels of w, which lie `panel` numbers
  // apart; count vectors <= 4. The sums of block i and panel v go to sums + 16 (i vectors + v), with rows `step`
  // numbers apart.
  template <class X, class W, class Sum>
  void multiply(const X* const (&from)[kAtOnce], int count, const BlockRows& rows, const W* w, ptrdiff_t panel,
                int vectors, const Sum* start, Sum* sums, int step) {
    const std::byte* x[kAtOnce];
    for (int i = 0; i < count; ++i) x[i] = reinterpret_cast<const std::byte*>(from[i]);
    const auto* const columns = reinterpret_cast<const std::byte*>(w);
    const Call call = {x, rows, columns, panel * ptrdiff_t(sizeof(W)), start, sums, ptrdiff_t(step) * 4};
    constexpr bool kPairs = std::is_same_v<W, Bfloat16>;
    switch (vectors * 4 + count) {
      case 4 * 4 + 1: run<kPairs, 1, 4>(call); break;
      case 2 * 4 + 2: run<kPairs, 2, 2>(call); break;
      case 2 * 4 + 1: run<kPairs, 1, 2>(call); break;
      case 1 * 4 + 4: run<kPairs, 4, 1>(call); break;
      case 1 * 4 + 3: run<kPairs, 3, 1>(call); break;
      case 1 * 4 + 2: run<kPairs, 2, 1>(call); break;
      default: run<kPairs, 1, 1>(call); break;
    }
  }

 private:
  static constexpr int kLeastBytes = 1024;

  struct Call {
    const std::byte* const* x;
    const BlockRows& rows;
    const std::byte* w;
    ptrdiff_t panel;
    const void* start;  // start values, 4 bytes for each column
    void* sums;
    ptrdiff_t step;
  };

  // The numbers of tiles are part of the instructions. The intrinsics of g++ 12 take no template arguments for these
  // numbers and do not say that they touch memory.
  template <int kTile>
  [[gnu::always_inline]] static void load(const void* from, ptrdiff_t step) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(void* to, ptrdiff_t step) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(step), "i"(kTile) : "memory");
  }
  template <bool kPairs, int kTile, int kX, int kW>
  [[gnu::always_inline]] static void dot() {
    if constexpr (kPairs) __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTile), "i"(kX), "i"(kW));
    else __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTile), "i"(kX), "i"(kW));
  }
  template <int kCount, int kVectors, int kTile = 0>
  [[gnu::always_inline]] static void begin(const Call& call) {
    if constexpr (kTile < kCount * kVectors) {
      load<kTile>(static_cast<const std::byte*>(call.start) + kTile % kVectors * 64, 0);  // into each row
      begin<kCount, kVectors, kTile + 1>(call);
    }
  }
  template <int kCount, int kVectors, int kTile = 0>
  [[gnu::always_inline]] static void end(const Call& call) {
    if constexpr (kTile < kCount * kVectors) {
      store<kTile>(static_cast<std::byte*>(call.sums) + kTile * 64, call.step);
      end<kCount, kVectors, kTile + 1>(call);
    }
  }
  // Multiplies one piece, at x(i) for block i and at w(v) for panel v.
  template <bool kPairs, int kCount, int kVectors, class X, class W>
  [[gnu::always_inline]] static void piece(const X& x, ptrdiff_t x_step, const W& w) {
    if constexpr (kCount == 1) {
      load<4>(x(0), x_step);
      load<6>(w(0), 64);
      dot<kPairs, 0, 4, 6>();
      if constexpr (kVectors > 1) {
        load<7>(w(1), 64);
        dot<kPairs, 1, 4, 7>();
      }
      if constexpr (kVectors > 2) {
        load<6>(w(2), 64);
        dot<kPairs, 2, 4, 6>();
        load<7>(w(3), 64);
        dot<kPairs, 3, 4, 7>();
      }
    } else if constexpr (kVectors == 2) {
      load<4>(x(0), x_step);
      load<6>(w(0), 64);
      dot<kPairs, 0, 4, 6>();
      load<7>(w(1), 64);
      dot<kPairs, 1, 4, 7>();
      load<5>(x(1), x_step);
      dot<kPairs, 2, 5, 6>();
      dot<kPairs, 3, 5, 7>();
    } else {
      load<6>(w(0), 64);
      load<4>(x(0), x_step);
      dot<kPairs, 0, 4, 6>();
      load<5>(x(1), x_step);
      dot<kPairs, 1, 5, 6>();
      if constexpr (kCount > 2) {
        load<4>(x(2), x_step);
        dot<kPairs, 2, 4, 6>();
      }
      if constexpr (kCount > 3) {
        load<5>(x(3), x_step);
        dot<kPairs, 3, 5, 6>();
      }
    }
  }

  template <bool kPairs, int kCount, int kVectors>
  [[gnu::noinline]] void run(const Call& call) const {
    const ptrdiff_t x_piece = groups_ * 4, w_piece = groups_ * 64;
    const int whole = last_ == groups_ ? pieces_ : pieces_ - 1;
    const std::byte* w = call.w;
    begin<kCount, kVectors>(call);
    for (int run = 0; run < call.rows.runs; ++run) {
      ptrdiff_t at = run * call.rows.run;
      for (int i = 0; i < whole; ++i, at += x_piece, w += w_piece)
        piece<kPairs, kCount, kVectors>([&](int b) { return call.x[b] + at; }, call.rows.step,
                                        [&](int v) { return w + v * call.panel; });
      if (whole == pieces_) continue;
      alignas(64) std::byte x_last[kCount][16][64] = {}, w_last[kVectors][16][64] = {};
      for (int b = 0; b < kCount; ++b)
        for (int r = 0; r < rows_; ++r)
          std::memcpy(x_last[b][r], call.x[b] + at + r * call.rows.step, size_t(last_) * 4);
      for (int v = 0; v < kVectors; ++v) std::memcpy(w_last[v], w + v * call.panel, size_t(last_) * 64);
      piece<kPairs, kCount, kVectors>([&](int b) { return x_last[b]; }, 64, [&](int v) { return w_last[v]; });
      w += ptrdiff_t(last_) * 64;
    }
    end<kCount, kVectors>(call);
  }

  int rows_ = 0, groups_ = 0;  // rows in a block; groups in a piece
  int pieces_ = 0, last_ = 0;  // pieces in a run; groups in its last piece
};

}  // namespace nacre::inline NACRE_ISA
