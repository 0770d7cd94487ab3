// Cuts a depthwise convolution into blocks. forms.h says what scratch holds.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/ops/conv.h"

namespace nacre::inline NACRE_ISA {

// The demands of a type of numbers on blocks. A block that has not all channels has a multiple of `step` of them, about
// `least` or more, and about `pixels` pixels, so that loading the weights pays. `lanes` is the length of a vector.
// `shared` is the number of rows of y that are made together.
struct DepthwiseCut {
  int lanes, step, least, pixels, shared;
};

// Cuts a step into blocks of outputs (some columns, rows and channels of y). Their rows of x in scratch take at most
// kBlockBytes, to fit the first-level cache, if the least block allows it.
struct DepthwiseTiling {
  static constexpr int64_t kBlockBytes = 20 << 10, kMostBytes = 1 << 24;
  static constexpr int kMostRows = 16;
  static constexpr int kDirectColumns = 3;  // columns of y that a direct step makes together, or one more
  // Channels that a direct step takes at a time, so that the rows of x that several rows of y read stay in the cache.
  // Fewer are slower: pixels of 1024 float32 channels are a page apart, so pieces of them share few sets of the
  // first-level cache.
  static constexpr int kDirectChannels = 512;
  static constexpr int kWholePixels = 192;  // with fewer channels whole pixels are copied, as long runs of memory

  int out_c;                    // channels of y
  int columns, rows, channels;  // of a block; the last block's may be smaller
  int planes, plane;            // planes of a row in scratch, and columns of a plane
  int width;                    // channels of the table, rounded up to whole vectors
  int x_step;                   // numbers from a vector to the next one of the same channels
  bool flat;                    // whether vectors run over pixels; else a pixel's last vector may be partial
  int lanes;                    // lanes of a vector of a direct step
  bool direct;                  // x is read in place; then a nonzero row_numbers means only that the step is taken
  int shared;                   // consecutive rows of y that can be made together
  int row_numbers;              // numbers of a row in scratch, and room for a vector that begins at the last one
  int64_t block_bytes;          // bytes of scratch of a block

  // Cuts a step that is not direct. A block of `rows` rows has rows_of(rows) rows in scratch; a number takes 4 bytes.
  template <class RowsOf>
  static DepthwiseTiling of(const DepthwiseConv2d& op, const DepthwiseCut& cut, const RowsOf& rows_of) {
    const int lanes = cut.lanes, shared = cut.shared;
    const WindowAxis& w = op.window.w;
    DepthwiseTiling t = {};
    t.out_c = op.out_c;
    t.shared = shared;

    const int reach = (w.kernel - 1) * w.dilation / w.stride;  // columns of a plane after those of tap 0
    const bool few = op.out_c < lanes || (op.out_c < 4 * lanes && w.stride == 1);
    t.channels = few ? op.out_c : channels_of(op, cut, reach, rows_of);
    const int64_t column = int64_t{w.stride} * t.channels;
    const int64_t fit = kBlockBytes / 4 / rows_of(t.channels < op.out_c ? shared : 1) / column - reach;
    const int blocks = fit < 1 ? w.out : fit < w.out ? int((w.out + fit - 1) / fit) : 1;
    t.columns = (w.out + blocks - 1) / blocks;
    const int64_t numbers = (t.columns + reach) * column, row = (numbers + lanes + 15) / 16 * 16;
    if (row * 4 > kMostBytes || rows_of(1) > kMostBytes) return t;  // row_numbers stays 0: the step is not taken
    const auto fits = [&](int rows) { return rows_of(rows) * row * 4 <= kBlockBytes && rows <= kMostRows; };
    for (t.rows = 1; t.rows < op.window.h.out && fits(t.rows + 1);) ++t.rows;
    if (t.rows > shared && t.rows < op.window.h.out) t.rows -= t.rows % shared;
    t.block_bytes = rows_of(t.rows) * row * 4;
    t.row_numbers = t.block_bytes <= kMostBytes ? int(row) : 0;

    int whole = op.out_c;  // vectors and pixels begin together at the least common multiple (lanes: a power of two)
    for (int rest = lanes; rest > 1 && whole % lanes != 0; rest /= 2) whole *= 2;
    t.flat = few && (whole == lanes || whole <= int64_t{t.columns} * op.out_c);
    t.planes = t.flat ? w.stride : 1;
    t.plane = t.flat ? t.columns + reach : (t.columns + reach) * w.stride;
    t.width = t.flat ? whole : (op.out_c + lanes - 1) / lanes * lanes;
    t.x_step = t.flat ? whole : t.channels * w.stride;
    return t;
  }
  // Cuts a direct step into blocks of two rows. If the channels are whole vectors of `lanes`, a block has at most
  // kDirectChannels of them, and, if the sums go to scratch, only as many as fit.
  static DepthwiseTiling direct_of(const DepthwiseConv2d& op, int lanes, bool sums) {
    DepthwiseTiling t = {};
    t.out_c = t.channels = op.out_c;
    t.columns = op.window.w.out;
    t.rows = op.window.h.out < 2 ? op.window.h.out : 2;
    const int64_t vector = int64_t{t.rows} * t.columns * lanes * 4, fit = vector > 0 ? kBlockBytes / vector : 0;
    if (op.out_c % lanes == 0) {  // then each block has a whole vector
      if (t.channels > kDirectChannels) t.channels = kDirectChannels;
      if (sums && fit * lanes < t.channels) t.channels = fit > 0 ? int(fit) * lanes : lanes;
    }
    t.planes = t.plane = t.shared = t.row_numbers = 1;
    t.lanes = lanes;
    t.width = (op.out_c + lanes - 1) / lanes * lanes;
    t.direct = true;
    return t;
  }
  // Returns the channels of a block: all if below kWholePixels or if they fit with cut.pixels of y; else equal parts.
  template <class RowsOf>
  static int channels_of(const DepthwiseConv2d& op, const DepthwiseCut& cut, int reach, const RowsOf& rows_of) {
    const WindowAxis &h = op.window.h, &w = op.window.w;
    if (op.out_c < kWholePixels || h.out == 0 || w.out == 0) return op.out_c;
    const int columns = w.out < cut.pixels ? w.out : cut.pixels;
    int rows = (cut.pixels + columns - 1) / columns;
    rows = rows > h.out ? h.out : rows < cut.shared ? cut.shared : rows;
    const int64_t fit = kBlockBytes / 4 / rows_of(rows) / ((int64_t{columns} + reach) * w.stride);
    if (fit >= op.out_c) return op.out_c;
    const int steps = (op.out_c + cut.step - 1) / cut.step, most = (fit < cut.least ? cut.least : int(fit)) / cut.step;
    const int blocks = (steps + most - 1) / most, channels = (steps + blocks - 1) / blocks * cut.step;
    return channels < op.out_c ? channels : op.out_c;
  }

  // Returns the channel of column k of a table, or -1 if there is none.
  int channel(int k) const {
    if (!direct) return flat ? k % channels : k < out_c ? k : -1;
    const int first = k / lanes * lanes, last = out_c - lanes;  // the last vector may overlap the one before
    return (first < last ? first : last) + k % lanes;
  }

  // Returns the offset of column j of output 0's window in a row in scratch, in numbers.
  int tap(int j, const WindowAxis& w) const { return place(j * w.dilation); }
  int place(int q) const { return (q % planes * plane + q / planes) * channels; }
};

}  // namespace nacre::inline NACRE_ISA
