// int8 depthwise_conv2d with the rounding kDouble, one output channel per input channel: four channels at a time.
//
//   s_hvc = b_c + sum_ij (x_{h sh - top + i dh, v sw - left + j dw, c} - zero_x) w_ijc
//
// The rows of x that a row of outputs reads are kept in scratch, as int16 with the zero point subtracted. Padding is
// stored as zeros, so no output tests the borders of x. The rows form a ring, to which each row of outputs adds
// `stride` rows. A position of x is a Quad of four channels, and so are the weights of a position (tap) of the window:
// two LDRD and four SMLAxy for each tap.
//
// Scratch: {weights [taps]; offsets in the ring of the window's rows [kernel_h]; ring [span][padded columns]}.
#pragma once

#include "engine/kernels/adapter.h"
#include "engine/ops/conv.h"
#include "ports/cortex_m/columns.h"
#if defined(__ARM_FEATURE_MVE)
#include "ports/cortex_m/depthwise_helium.h"
#endif

namespace nacre::cortex_m {

struct Depthwise : DepthwiseConv2d {
  // Turns images of one column into images of one row, because each row has a cost of its own.
  static constexpr Depthwise from(const Words& words, const Operands& operands) {
    Depthwise op = {DepthwiseConv2d::from(words, operands)};
    const WindowAxis w = op.window.w;
    if (w.in == 1 && w.out == 1 && w.kernel == 1) op.window.w = op.window.h, op.window.h = w;
    return op;
  }
  // y may share the bytes of x, because a row of x is in the ring before outputs are written over it. If images of y
  // were wider than those of x, a row of y could overwrite rows of x that are still needed.
  static bool accepts(const Words& words, const Operands& operands) {
    const Depthwise op = from(words, operands);
    return op.group_out == 1 && op.window.w.out <= op.window.w.in;
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return from(words, operands).scratch_bytes();
  }
  size_t scratch_bytes() const {
    const WindowAxis& h = window.h;
    const int positions = h.kernel * window.w.kernel + span(h) * columns();
    return size_t(positions) * sizeof(Quad) + row_table_quads(h) * sizeof(Quad);
  }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y,
           Scratch<Quad> scratch) const {
#if defined(__ARM_FEATURE_MVE)
    const auto small = SmallWindows::of(*this, scratch.data, scratch_bytes());
    if (small.fit(scratch_bytes())) return small.run(x, w, b, scale, y);
#endif
    Four four = {*this, b.data, scale, scratch.data};
    for (int n = 0; n < batch; ++n, x += window.h.in * window.w.in * in_c, y += window.h.out * window.w.out * out_c)
      for (int c = 0; c < out_c; c += 4) {
        four.start(w, c);
        for (int h = 0; h < window.h.out; ++h) {
          four.read_rows(x, h);
          four.write_row(y + h * window.w.out * out_c);
        }
      }
  }

 private:
  static constexpr int span(const WindowAxis& axis) { return (axis.kernel - 1) * axis.dilation + 1; }
  constexpr int columns() const { return (window.w.out - 1) * window.w.stride + span(window.w); }
  static constexpr size_t row_table_quads(const WindowAxis& h) { return (size_t(h.kernel) + 1) / 2; }

  // Four channels from `channel` on, or the remaining ones.
  struct Four {
    const Depthwise& op;
    const int32_t *b, *scale;
    Quad* scratch;
    int channel = 0, count = 0, next = 0;  // next: the next row of x to read
    bool all = false, quick = false;
    ChannelCodes codes[4] = {};
    int32_t bias[4] = {};

    int taps() const { return op.window.h.kernel * op.window.w.kernel; }
    Quad* weights() const { return scratch; }
    uint32_t* rows() const { return reinterpret_cast<uint32_t*>(scratch + taps()); }  // offsets of rows in the ring
    Quad* ring() const { return scratch + taps() + row_table_quads(op.window.h); }

    void start(const int8_t* w, int c) {
      channel = c, count = op.out_c - c < 4 ? op.out_c - c : 4;
      next = -op.window.h.before;
      all = quick = keeps_all(op.epilogue.clamp);
      for (int tap = 0; tap < taps(); ++tap) widen(w + tap * op.out_c + c, count, 0, weights() + tap);
      for (int i = 0; i < count; ++i) {
        codes[i] = ChannelCodes::of(op.epilogue, scale, c + i);
        bias[i] = b != nullptr ? b[c + i] : 0;
        quick = quick && codes[i].quick();
      }
    }

    // Reads the rows of x that the outputs of row h need, and stores their offsets in the ring.
    void read_rows(const int8_t* x, int h) {
      const WindowAxis& axis = op.window.h;
      const int size = span(axis), first = axis.position(h, 0);
      if (next < first) next = first;
      for (; next < first + size; ++next) read_row(x, next, ring() + slot(next) * op.columns());
      for (int i = 0; i < axis.kernel; ++i) rows()[i] = uint32_t(slot(axis.position(h, i)) * op.columns());
    }
    // Returns the slot of row r in the ring. r is negative in the padding above x.
    int slot(int r) const { return int(uint32_t(r + op.window.h.before) % uint32_t(span(op.window.h))); }

    static Quad* pad(int positions, Quad* to) {
      for (; positions > 0; --positions) *to++ = {0, 0};
      return to;
    }
    void read_row(const int8_t* x, int r, Quad* to) const {
      const WindowAxis& axis = op.window.w;
      if (!op.window.h.inside(r)) {
        pad(op.columns(), to);
        return;
      }
      const int inside = op.columns() - axis.before < axis.in ? op.columns() - axis.before : axis.in;
      to = pad(axis.before, to);
      const int8_t* from = x + r * axis.in * op.in_c + channel;
      if (count == 4) {
        const Pair less = pair_of(-op.x_zero, -op.x_zero);
        for (int v = 0; v < inside; ++v, from += op.in_c) *to++ = widened(load_four(from), less);
      } else {
        for (int v = 0; v < inside; ++v, from += op.in_c) widen(from, count, op.x_zero, to++);
      }
      pad(op.columns() - axis.before - inside, to);
    }

    void write_row(int8_t* y) const {
      y += channel;
      const bool nine = op.window.h.kernel == 3 && op.window.w.kernel == 3 && op.window.w.dilation == 1;
      if (nine && quick && count == 4) return write_row_of_nine(y);
      const Quad* at = ring();
      for (int v = 0; v < op.window.w.out; ++v, y += op.out_c, at += op.window.w.stride) {
        FourSums sums = {bias[0], bias[1], bias[2], bias[3]};
        add_rows(at, sums);
        store(sums, y);
      }
    }
    // Writes a row of outputs of 3 x 3 windows, with pointers that stay in registers.
    void write_row_of_nine(int8_t* y) const {
      const Quad *x0 = ring() + rows()[0], *x1 = ring() + rows()[1], *x2 = ring() + rows()[2];
      const Quad* const first = weights();
      const int left = op.window.w.out, back = op.window.w.stride - 3, step = op.out_c;
      for (int8_t* const end = y + left * step; y != end; y += step, x0 += back, x1 += back, x2 += back) {
        FourSums sums = {bias[0], bias[1], bias[2], bias[3]};
        const Quad* w = first;
        sums.add_three(x0, w);
        sums.add_three(x1, w);
        sums.add_three(x2, w);
        store_quick(sums, y);
      }
    }

    struct FourSums {
      int32_t s0, s1, s2, s3;

      [[gnu::always_inline]] void add(const Quad& x, const Quad& w) {
        s0 = add_low_product(s0, x.even, w.even), s2 = add_high_product(s2, x.even, w.even);
        s1 = add_low_product(s1, x.odd, w.odd), s3 = add_high_product(s3, x.odd, w.odd);
      }
      [[gnu::always_inline]] void add_three(const Quad*& x, const Quad*& w) {
        add(next_quad(x), next_quad(w));
        add(next_quad(x), next_quad(w));
        add(next_quad(x), next_quad(w));
      }
    };
    void add_rows(const Quad* at, FourSums& sums) const {
      const Quad* w = weights();
      const int kernel = op.window.w.kernel, dilation = op.window.w.dilation;
      const uint32_t *row = rows(), *const end = row + op.window.h.kernel;
      while (row != end) {
        const Quad* x = at + *row++;
        if (dilation == 1) {
          for (const Quad* const last = w + kernel; w != last;) sums.add(next_quad(x), next_quad(w));
          continue;
        }
        for (int j = 0; j < kernel; ++j, x += dilation) sums.add(*x, next_quad(w));
      }
    }

    [[gnu::always_inline]] void store_quick(const FourSums& sums, int8_t* y) const {
      y[0] = int8_t(saturated_code(codes[0](sums.s0)));
      y[1] = int8_t(saturated_code(codes[1](sums.s1)));
      y[2] = int8_t(saturated_code(codes[2](sums.s2)));
      y[3] = int8_t(saturated_code(codes[3](sums.s3)));
    }
    void store(const FourSums& four, int8_t* y) const {
      if (quick && count == 4) return store_quick(four, y);
      const int32_t sums[4] = {four.s0, four.s1, four.s2, four.s3};
      for (int i = 0; i < count; ++i)
        y[i] = codes[i].quick() ? op.epilogue.clamp.code(codes[i](sums[i]))
                                : slow_code(op.epilogue, scale, channel + i, sums[i]);
    }
  };
};

}  // namespace nacre::cortex_m
