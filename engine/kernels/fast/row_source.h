// Says where the rows of a product (matmul/forms.h) come from, and how many rows are made at a time.
//
// Rows of dense, and pixels of a 1x1 convolution without stride and padding, follow each other in x. For other
// windows some rows of x are copied with their padding (a band), and each row of a window is read there as one run.
// If these runs are short, or are codes and not whole quads, windows are copied from the band, one after the other.
// If there is no such run (dilated columns, groups), windows are copied from x. Pairs of bfloat16 follow the same
// rules, with pairs for quads.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/ops/conv.h"
#include "engine/ops/dense.h"

namespace nacre::inline NACRE_ISA {

enum class RowSource : uint8_t { kInPlace, kBands, kBandWindows, kWindows };

// Runs of at most so many bytes, the part of a window in one row of x, are copied, because beginning a run costs a
// tile more than the copy. (Runs of 9 float32 numbers are faster in place.)
inline constexpr int kShortRun = 16;

// The sizes of the matrix product that dense or conv2d is.
struct ProductSizes {
  int rows, length, out;  // y_rk: r < rows, k < out, of one group; a sum has `length` terms
  int groups;
  RowSource source;
};

// Returns the sizes for numbers that are multiplied in groups of one, of two (pairs) or of four (quads).
inline ProductSizes sizes_of(const Dense& op, int /*group*/) {
  return {op.rows, op.in, op.out, 1, RowSource::kInPlace};
}
inline ProductSizes sizes_of(const Conv2d& op, int group) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  const bool one = h.kernel == 1 && w.kernel == 1 && h.stride == 1 && w.stride == 1 && h.before == 0 && w.before == 0 &&
                   h.out == h.in && w.out == w.in && op.group_in == op.in_c;
  const int run = w.kernel * op.in_c;
  const bool runs = op.group_in == op.in_c && w.dilation == 1;
  const bool is_short = run * (group == 1 ? 4 : 2) <= kShortRun && h.kernel > 1;
  return {op.batch * h.out * w.out, h.kernel * w.kernel * op.group_in, op.group_out, op.in_c / op.group_in,
          one                            ? RowSource::kInPlace
          : !runs                        ? RowSource::kWindows
          : is_short || run % group != 0 ? RowSource::kBandWindows
                                         : RowSource::kBands};
}
inline bool in_bands(const ProductSizes& s) {
  return s.source == RowSource::kBands || s.source == RowSource::kBandWindows;
}

// Turns images of one column into images of one row, because only pixels of one row are taken together.
inline Dense along_rows(const Dense& op) { return op; }
template <class Conv>
Conv along_rows(Conv op) {
  WindowAxis &h = op.window.h, &w = op.window.w;
  if (w.in == 1 && w.out == 1 && w.kernel == 1 && w.before == 0) std::swap(h, w);
  return op;
}

// Rows of x with padding that some rows of y need: [rows(..)][columns][in_c].
struct Band {
  int columns;   // of x, padding included
  int out_rows;  // rows of y that are made from one band

  static constexpr int kBytes = 64 << 10;

  static int rows(const Conv2d& op, int out_rows) {
    return (out_rows - 1) * op.window.h.stride + (op.window.h.kernel - 1) * op.window.h.dilation + 1;
  }
  // Makes bands for `workers` that take them in turn. If the images do not divide evenly, each image is cut for all
  // workers.
  static Band from(const Conv2d& op, size_t size, int workers = 1) {
    Band band = {(op.window.w.out - 1) * op.window.w.stride + op.window.w.kernel, op.window.h.out};
    if (op.batch % workers != 0) band.out_rows = (band.out_rows + workers - 1) / workers;
    while (band.out_rows > 1 && band.elements(op) * size > size_t(kBytes)) band.out_rows = (band.out_rows + 1) / 2;
    return band;
  }
  size_t elements(const Conv2d& op) const { return size_t(rows(op, out_rows)) * size_t(columns) * size_t(op.in_c); }
  // Returns the rows of y that are made at once: several if windows are copied and rows are short, else one.
  int rows_at_once(const Conv2d& op, RowSource source) const {
    constexpr int kPixels = 48;
    if (source == RowSource::kBands || op.window.w.out > kPixels / 2) return 1;
    const int fit = kPixels / (op.window.w.out > 0 ? op.window.w.out : 1);
    return fit < out_rows ? fit : out_rows;
  }
};
inline size_t band_elements(const Conv2d& op, size_t size) { return Band::from(op, size).elements(op); }
inline size_t band_elements(const Dense&, size_t) { return 0; }
inline size_t band_pixels(const Conv2d& op, const ProductSizes& s, size_t size) {
  return size_t(Band::from(op, size).rows_at_once(op, s.source)) * size_t(op.window.w.out);
}
inline size_t band_pixels(const Dense&, const ProductSizes&, size_t) { return 0; }

}  // namespace nacre::inline NACRE_ISA
