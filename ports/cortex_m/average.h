// int8 average_pool, four channels at a time, in pairs of int16 sums over windows W of at most 255 taps (positions).
//
//   y_hvc = clamp(round(sum_W x / |W|)), half away from zero: NUMERICS.md eq. 9
#pragma once

#include "engine/kernels/adapter.h"
#include "engine/ops/pool.h"
#include "ports/cortex_m/dsp.h"

namespace nacre::cortex_m {

struct AveragePool : Pool {
  static constexpr int kMostTaps = 255;  // because 255 * -128 > -2^15

  static constexpr AveragePool from(const Words& words, const Operands& operands) {
    return {Pool::from(words, operands)};
  }
  static bool accepts(const Words& words, const Operands& operands) {
    const AveragePool op = from(words, operands);
    return op.window.h.kernel <= kMostTaps && op.window.h.kernel * op.window.w.kernel <= kMostTaps;
  }

  void run(const int8_t* x, int8_t* y) const {
    for (int n = 0; n < batch; ++n, x += window.h.in * window.w.in * channels)
      for (int h = 0; h < window.h.out; ++h)
        for (int v = 0; v < window.w.out; ++v, y += channels) write_pixel(x, h, v, y);
  }

 private:
  void write_pixel(const int8_t* x, int h, int v, int8_t* y) const {
    const WindowAxis::Taps rows = window.h.taps(h), columns = window.w.taps(v);
    const int count = (rows.end - rows.first) * (columns.end - columns.first);
    const int row_step = window.h.dilation * window.w.in * channels, step = window.w.dilation * channels;
    const int first_row = window.h.position(h, rows.first), first = window.w.position(v, columns.first);
    const int8_t* const from = x + (first_row * window.w.in + first) * channels;
    for (int c = 0; c < channels; c += 4) {
      const int some = channels - c;  // the remaining channels, at most 4
      Quad sums = {0, 0};
      const int8_t* row = from + c;
      for (int i = rows.first; i < rows.end; ++i, row += row_step) {
        const int8_t* at = row;
        for (int j = columns.first; j < columns.end; ++j, at += step) {
          const uint32_t four = some < 4 ? load_some(at, some) : load_four(at);
          sums = {add_even(sums.even, four), add_odd(sums.odd, four)};
        }
      }
      const int32_t sum[4] = {low_of(sums.even), low_of(sums.odd), high_of(sums.even), high_of(sums.odd)};
      for (int i = 0; i < 4 && i < some; ++i)
        y[c + i] = clamp.code((sum[i] > 0 ? sum[i] + count / 2 : sum[i] - count / 2) / count);
    }
  }
};

}  // namespace nacre::cortex_m
