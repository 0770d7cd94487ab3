// Depthwise windows of at most 4 x 4 with Helium (Cortex-M55). One instruction (VMLADAVA) makes all products of an
// output.
//
//   s_hv = b' + sum_ij x_{h sh - top + i, v sw - left + j} w_ij,   b' = b - zero_x sum_ij w_ij,   channel by channel
//
// The rows of x that a row of outputs reads are kept in scratch as codes, with the zero point as padding. A column
// has four bytes, row r in byte r mod 4. So the window of an output is up to 4 adjacent words, and the next window
// begins `stride` words further. The weights have the same order, with 0 in unused bytes. For each row that the window
// moves down, the four bytes of a column of weights are rotated by one.
#pragma once

#include <arm_mve.h>

#include "engine/ops/conv.h"
#include "ports/cortex_m/columns.h"

namespace nacre::cortex_m {

// An axis of the image, and the distances between neighbours along it in x, y and w.
struct MapAxis {
  WindowAxis window;
  int x_step, y_step, w_step;

  int columns() const { return (window.out - 1) * window.stride + window.kernel; }
};

struct SmallWindows {
  static constexpr int kMostTaps = 4;  // along an axis
  static constexpr int kVector = 16;

  const DepthwiseConv2d& op;
  MapAxis rows, columns;
  int8_t* scratch;

  static SmallWindows of(const DepthwiseConv2d& op, Quad* scratch, size_t bytes) {
    const WindowAxis &h = op.window.h, &w = op.window.w;
    const SmallWindows made = {op,
                               {h, w.in * op.in_c, w.out * op.out_c, w.kernel * op.out_c},
                               {w, op.in_c, op.out_c, op.out_c},
                               reinterpret_cast<int8_t*>(scratch)};
    // Long rows are quick, so high images are turned. y may share the bytes of x: if both have the same size, columns
    // may be written one after another too.
    const SmallWindows turned = {op, made.columns, made.rows, made.scratch};
    const bool turns = h.out > w.out && h.in == h.out && w.in == w.out;
    return turns && turned.fit(bytes) ? turned : made;
  }

  bool fit(size_t bytes) const {
    const int stride = columns.window.stride;
    return fit(rows.window) && fit(columns.window) && stride <= 2 && columns.x_step <= INT16_MAX / 8 &&
           size_t(2 * kVector + 4 * (columns.columns() + 3 * stride)) <= bytes;
  }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y) const {
    fill_with_zero_point();
    for (int n = 0; n < op.batch; ++n) {
      for (int c = 0; c < op.out_c; ++c) run_channel(x + c, w + c, b ? b[c] : 0, scale, c, y + c);
      x += op.window.h.in * op.window.w.in * op.in_c;
      y += op.window.h.out * op.window.w.out * op.out_c;
    }
  }

 private:
  static bool fit(const WindowAxis& axis) { return axis.kernel <= kMostTaps && axis.dilation == 1; }

  // {weights [16]; ring [columns][4]; bytes that windows read past the last column}
  int8_t* ring() const { return scratch + kVector; }
  void fill_with_zero_point() const {
    int8_t* to = ring();
    for (int left = columns.columns(); left > 0; left -= 4, to += kVector) vstrbq_s8(to, vdupq_n_s8(int8_t(op.x_zero)));
  }

  int8x16_t weights(const int8_t* w) const {
    vstrbq_s8(scratch, vdupq_n_s8(0));
    int8_t* to = scratch;
    for (int j = 0; j < columns.window.kernel; ++j, to += 4, w += columns.w_step) {
      const int8_t* from = w;
      for (int i = 0; i < rows.window.kernel; ++i, from += rows.w_step) to[i] = *from;
    }
    return vldrbq_s8(scratch);
  }
  static int8x16_t turned(int8x16_t w) {
    const uint32x4_t words = vreinterpretq_u32_s8(w);
    return vreinterpretq_s8_u32(vsriq_n_u32(vshlq_n_u32(words, 8), words, 24));
  }

  void run_channel(const int8_t* x, const int8_t* w, int32_t bias, const int32_t* scale, int c, int8_t* y) const {
    int8x16_t turning = weights(w);
    const int32_t folded = wrapping_sub(bias, op.x_zero * vaddvq_s8(turning));
    const WindowAxis axis = rows.window;
    int next = 0;  // next row of x to read, counted from the first row of padding
    for (int h = 0; h < axis.out; ++h, y += rows.y_step) {
      const int first = h * axis.stride;
      if (next < first) next = first;
      for (; next < first + axis.kernel; ++next) read_row(x, next);
      columns.window.stride == 1 ? write_row<1>(turning, folded, scale, c, y)
                                 : write_row<2>(turning, folded, scale, c, y);
      for (int i = axis.stride; i > 0; --i) turning = turned(turning);
    }
  }

  void read_row(const int8_t* x, int r) const {
    const WindowAxis& axis = columns.window;
    const int space = columns.columns() - axis.before, count = space < axis.in ? space : axis.in;
    if (count <= 0) return;
    int8_t* to = ring() + 4 * axis.before + r % 4;
    const uint16x8_t indices = vidupq_n_u16(0, 1), places = vshlq_n_u16(indices, 2);
    const int row = r - rows.window.before;
    if (!rows.window.inside(row)) {
      for (int v = 0; v < count; ++v, to += 4) *to = int8_t(op.x_zero);
      return;
    }
    const int8_t* from = x + row * rows.x_step;
    uint16x8_t codes;
    asm volatile(
        "dlstp.16 lr, %[count]\n"
        "1: vldrb.u16 %q[codes], [%[from], %q[steps]]\n"
        "vstrb.16 %q[codes], [%[to], %q[places]]\n"
        "add %[from], %[from], %[eight]\n"
        "add %[to], %[to], #32\n"
        "letp lr, 1b"
        : [codes] "=&w"(codes), [from] "+r"(from), [to] "+r"(to)
        : [steps] "w"(vmulq_n_u16(indices, uint16_t(columns.x_step))), [places] "w"(places),
          [eight] "r"(8 * columns.x_step), [count] "r"(count)
        : "lr", "memory");
  }

  // Returns the sums of four outputs, and moves x to the window after them.
  template <int kStride>
  [[gnu::always_inline]] static int32x4_t four_windows(const int8_t*& x, int8x16_t w, int32_t start) {
    int32_t s0 = start, s1 = start, s2 = start, s3 = start;
    int8x16_t v;
    asm("vldrb.8 %q[v], [%[x]], %[step]\n"
        "vmladava.s8 %[s0], %q[v], %q[w]\n"
        "vldrb.8 %q[v], [%[x]], %[step]\n"
        "vmladava.s8 %[s1], %q[v], %q[w]\n"
        "vldrb.8 %q[v], [%[x]], %[step]\n"
        "vmladava.s8 %[s2], %q[v], %q[w]\n"
        "vldrb.8 %q[v], [%[x]], %[step]\n"
        "vmladava.s8 %[s3], %q[v], %q[w]"
        : [v] "=&w"(v), [x] "+r"(x), [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3)
        : [w] "w"(w), [step] "i"(4 * kStride)
        : "memory");
    return vector_of(s0, s1, s2, s3);
  }

  // Writes a row of outputs, four at a time. The last four may overlap the four before. If a row has fewer than four
  // outputs, only these are stored.
  template <int kStride>
  void write_row(int8x16_t w, int32_t bias, const int32_t* scale, int c, int8_t* y) const {
    const int out = columns.window.out, step = columns.y_step;
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), uint32_t(step));
    const int8_t* from = ring();
    const auto codes = FourCodes::of(scale + 2 * op.epilogue.scale_index(c), op.epilogue.y_zero);
    if (!codes.quick() || !keeps_all(op.epilogue.clamp)) {
      for (int v = 0; v < out; v += 4) {
        int32_t sums[4];
        vstrwq_s32(sums, four_windows<kStride>(from, w, bias));
        for (int i = 0; i < 4 && v + i < out; ++i, y += step) *y = slow_code(op.epilogue, scale, c, sums[i]);
      }
      return;
    }
    if (out < 4) {
      vstrbq_scatter_offset_p_s32(y, places, codes(four_windows<kStride>(from, w, bias)), vctp32q(uint32_t(out)));
      return;
    }
    for (int left = out; left > 0; left -= 4, y += 4 * step) {
      if (left < 4) from -= 4 * kStride * (4 - left), y -= step * (4 - left);
      vstrbq_scatter_offset_s32(y, places, codes(four_windows<kStride>(from, w, bias)));
    }
  }
};

}  // namespace nacre::cortex_m
