// The functions of columns.h with Helium (Cortex-M55). Codes stay int8, and one instruction (VMLADAVA) makes 16
// products.
//
//   s_pk = b'_k + sum_i x_pi w_ki,   b'_k = b_k - zero_x sum_i w_ki
//
// A column takes int8 [terms / 4, rounded up, 4]; padding of x is written as the zero point. Columns lie one after
// another, so rows of x without gaps are columns already. b' of some channels takes the other half of the scratch.
//
// The loops over terms are in assembly. g++ 12 makes neither loads that advance their pointer nor loops with a
// predicated end (DLSTP, LETP), in which the last 1 to 16 terms cost as much as 16.
#pragma once

#include <arm_mve.h>

#include "ports/cortex_m/columns.h"

namespace nacre::cortex_m {

inline constexpr bool kColumnsAreCodes = true;

class ColumnWriter {
 public:
  ColumnWriter(Quad* columns, int p, int, int terms, int zero)
      : to_(reinterpret_cast<int8_t*>(columns) + p * 4 * quads_of(terms)), zero_(zero) {}

  void add(const int8_t* x, int count) {
    int8_t* to = to_;
    to_ += count;
    int8x16_t codes;
    asm volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.8 %q[codes], [%[x]], #16\n"
        "vstrb.8 %q[codes], [%[to]], #16\n"
        "letp lr, 1b\n"
        "2:"
        : [codes] "=&w"(codes), [x] "+r"(x), [to] "+r"(to)
        : [count] "r"(count)
        : "lr", "memory");
  }
  void add_padding(int count) {
    if (count == 0) return;
    int8_t* to = to_;
    to_ += count;
    asm volatile(
        "dlstp.8 lr, %[count]\n"
        "1: vstrb.8 %q[codes], [%[to]], #16\n"
        "letp lr, 1b"
        : [to] "+r"(to)
        : [codes] "w"(vdupq_n_s8(int8_t(zero_))), [count] "r"(count)
        : "lr", "memory");
  }

 private:
  int8_t* to_;
  int zero_;
};

// Makes the codes of four sums s of one channel, whose pair is {m, -n}, 1 <= n <= 31: NUMERICS.md eq. 1 with kDouble.
// It also takes {0, 0}, the pair of a channel without weights.
//
//   u = (2 s m + 2^31) >> 32        VQRDMULH: the inner rounding, ties towards +infinity
//   v = (u + (u >> 31)) / 2^n       VRSHL, ties towards +infinity: together half away from zero
//
// u > -2^31, because m < 2^31.
struct FourCodes {
  int32_t multiplier, shift, y_zero;

  static FourCodes of(const int32_t* pair, int y_zero) { return {pair[0], pair[1], y_zero}; }
  bool quick() const { return uint32_t(~shift) < 31 || (shift | multiplier) == 0; }
  int32x4_t operator()(int32x4_t sums) const {
    const int32x4_t u = vqrdmulhq_n_s32(sums, multiplier);
    const int32x4_t v = vaddq_n_s32(vrshlq_n_s32(vaddq_s32(u, vshrq_n_s32(u, 31)), shift), y_zero);
    return vmaxq_s32(vminq_s32(v, vdupq_n_s32(127)), vdupq_n_s32(-128));
  }
};

inline int32_t sum_of(const int8_t* codes, int count) {
  int32_t sum = 0;
  int8x16_t some;
  asm("dlstp.8 lr, %[count]\n"
      "1: vldrb.8 %q[some], [%[codes]], #16\n"
      "vaddva.s8 %[sum], %q[some]\n"
      "letp lr, 1b"
      : [some] "=&w"(some), [codes] "+r"(codes), [sum] "+Te"(sum)
      : [count] "r"(count)
      : "lr", "memory");
  return sum;
}

// b' of channels [first, end), and whether the codes of all these channels are quick.
struct FoldedBiases {
  const int32_t* of;
  bool quick;

  static FoldedBiases fold(const ColumnProduct& product, int first, int end, int32_t* to) {
    FoldedBiases folded = {to, keeps_all(product.epilogue.clamp)};
    const int8_t* row = product.w + first * product.terms;
    for (int k = first; k < end; ++k, row += product.terms) {
      *to++ = wrapping_sub(product.bias(k), product.x_zero * sum_of(row, product.terms));
      folded.quick = folded.quick && FourCodes::of(product.scale + 2 * product.epilogue.scale_index(k), 0).quick();
    }
    return folded;
  }
  // Returns how many b' fit. The scratch has twice the bytes of a block of columns.
  static constexpr int most(int terms) { return quads_of(terms) * kSharedRows; }
  static int32_t* behind(Quad* columns, int terms) {
    return reinterpret_cast<int32_t*>(columns) + quads_of(terms) * kSharedRows;
  }
};

// Makes a vector of four registers. g++ 12 would go through the stack.
[[gnu::always_inline]] inline int32x4_t vector_of(int32_t s0, int32_t s1, int32_t s2, int32_t s3) {
  int32x4_t sums;
  asm("vmov %q[sums][2], %q[sums][0], %[s0], %[s2]\n"
      "vmov %q[sums][3], %q[sums][1], %[s1], %[s3]"
      : [sums] "=&w"(sums)
      : [s0] "r"(s0), [s1] "r"(s1), [s2] "r"(s2), [s3] "r"(s3));
  return sums;
}

// Multiplies four rows, `step` apart, with one channel, 16 terms at a time.
[[gnu::always_inline]] inline int32x4_t four_dots(const int8_t* w, const int8_t* x0, int step, int terms,
                                                  int32_t start) {
  const int8_t *x1 = x0 + step, *x2 = x1 + step, *x3 = x2 + step;
  int32_t s0 = start, s1 = start, s2 = start, s3 = start;
  int8x16_t v, x;
  asm("dlstp.8 lr, %[terms]\n"
      "1: vldrb.8 %q[v], [%[w]], #16\n"
      "vldrb.8 %q[x], [%[x0]], #16\n"
      "vmladava.s8 %[s0], %q[v], %q[x]\n"
      "vldrb.8 %q[x], [%[x1]], #16\n"
      "vmladava.s8 %[s1], %q[v], %q[x]\n"
      "vldrb.8 %q[x], [%[x2]], #16\n"
      "vmladava.s8 %[s2], %q[v], %q[x]\n"
      "vldrb.8 %q[x], [%[x3]], #16\n"
      "vmladava.s8 %[s3], %q[v], %q[x]\n"
      "letp lr, 1b"
      : [v] "=&w"(v), [x] "=&w"(x), [w] "+r"(w), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [x3] "+r"(x3),
        [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3)
      : [terms] "r"(terms)
      : "lr", "memory");
  return vector_of(s0, s1, s2, s3);
}

// Makes channels [first, end) of four rows. Rows of x are `stride` apart, rows of y `step`.
inline void four_rows(const ColumnProduct& product, const FoldedBiases& biases, const int8_t* x, int stride, int first,
                      int end, int8_t* y, int step) {
  const int terms = product.terms, y_zero = product.epilogue.y_zero;
  const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), uint32_t(step));
  const int8_t* row = product.w + first * terms;
  const int32_t *bias = biases.of, *pair = product.scale + 2 * product.epilogue.scale_index(first);
  const int pair_step = 2 * product.epilogue.scale_index(1);
  if (!biases.quick) {
    for (int k = first; k < end; ++k, row += terms) {
      int32_t sums[kSharedRows];
      vstrwq_s32(sums, four_dots(row, x, stride, terms, *bias++));
      product.store_others(sums, k, y++, step);
    }
    return;
  }
  for (int8_t* const last = y + (end - first); y != last; ++y, row += terms, pair += pair_step) {
    const int32x4_t sums = four_dots(row, x, stride, terms, *bias++);
    vstrbq_scatter_offset_s32(y, places, FourCodes::of(pair, y_zero)(sums));
  }
}

// Makes channels [first, end) of one row. The codes of the row are loaded once for the weights of two channels.
inline void one_row(const ColumnProduct& product, const int8_t* x, int first, int end, int8_t* y) {
  const bool all = keeps_all(product.epilogue.clamp);
  const int terms = product.terms, x_zero = product.x_zero;
  const int8_t* row = product.w + first * terms;
  for (int k = first; k < end; k += 2, row += 2 * terms) {
    const bool two = k + 1 < end;  // if the number of channels is odd, the last one is paired with itself
    const int8_t *w0 = row, *w1 = row + (two ? terms : 0), *from = x;
    int32_t s0 = 0, s1 = 0, weights0 = 0, weights1 = 0;
    int8x16_t v, u;
    asm("dlstp.8 lr, %[terms]\n"
        "1: vldrb.8 %q[v], [%[x]], #16\n"
        "vldrb.8 %q[u], [%[w0]], #16\n"
        "vmladava.s8 %[s0], %q[v], %q[u]\n"
        "vaddva.s8 %[weights0], %q[u]\n"
        "vldrb.8 %q[u], [%[w1]], #16\n"
        "vmladava.s8 %[s1], %q[v], %q[u]\n"
        "vaddva.s8 %[weights1], %q[u]\n"
        "letp lr, 1b"
        : [v] "=&w"(v), [u] "=&w"(u), [x] "+r"(from), [w0] "+r"(w0), [w1] "+r"(w1), [s0] "+Te"(s0), [s1] "+Te"(s1),
          [weights0] "+Te"(weights0), [weights1] "+Te"(weights1)
        : [terms] "r"(terms)
        : "lr", "memory");
    *y++ = product.code(k, all, wrapping_add(wrapping_sub(product.bias(k), x_zero * weights0), s0));
    if (!two) return;
    *y++ = product.code(k + 1, all, wrapping_add(wrapping_sub(product.bias(k + 1), x_zero * weights1), s1));
  }
}

// Takes as many channels at a time as the scratch has space for b'. The last block of rows may repeat rows of the
// block before it. rows.codes() returns rows that are columns already, or nullptr. If it is nullptr,
// rows.write_next(columns, p, count) writes one column after another, from the row that rows.seek(row) set.
template <class Rows>
inline void multiply(const ColumnProduct& product, Rows rows, const Part& part, int8_t* y, Quad* scratch) {
  const int8_t* const codes = rows.codes();
  const auto* const columns = reinterpret_cast<const int8_t*>(scratch);
  if (part.rows < kSharedRows) {
    for (int row = 0; row < part.rows; ++row, y += part.step) {
      if (codes == nullptr) rows.write_next(scratch, 0, 1);
      one_row(product, codes == nullptr ? columns : codes + row * rows.stride(), part.first, part.end, y);
    }
    return;
  }
  const int most = FoldedBiases::most(product.terms), last = part.rows - kSharedRows;
  const int stride = codes == nullptr ? 4 * quads_of(product.terms) : rows.stride();
  for (int first = part.first; first < part.end; first += most, y += most) {
    const int end = part.end - first < most ? part.end : first + most;
    const auto biases = FoldedBiases::fold(product, first, end, FoldedBiases::behind(scratch, product.terms));
    if (codes == nullptr) rows.seek(0);
    for (int row = 0; row < part.rows; row += kSharedRows) {
      if (row > last) {
        row = last;
        if (codes == nullptr) rows.seek(row);
      }
      if (codes == nullptr)
        for (int p = 0; p < kSharedRows; ++p) rows.write_next(scratch, p, kSharedRows);
      four_rows(product, biases, codes == nullptr ? columns : codes + row * stride, stride, first, end,
                y + row * part.step, part.step);
    }
  }
}

}  // namespace nacre::cortex_m
