// int8 conv2d and dense with the rounding kDouble, in blocks of four pixels or rows (columns.h).
//
// Scratch holds the columns of a block. If the channels of a convolution are no multiple of 4 and its window has more
// than one pixel, it also has room to gather the codes of one column before they are widened. The size does not depend
// on the instruction set, because programs may be bound on a PC.
#pragma once

#include <cstring>

#include "engine/kernels/adapter.h"
#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "ports/cortex_m/columns.h"

namespace nacre::cortex_m {

struct Convolution : Conv2d {
  static constexpr Convolution from(const Words& words, const Operands& operands) {
    return {Conv2d::from(words, operands)};
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return from(words, operands).scratch_bytes();
  }
  size_t scratch_bytes() const {
    const size_t columns = pixels() >= kSharedRows ? kSharedRows : 1;
    return columns * column_bytes(terms()) + (gathers() ? size_t(quads_of(terms())) * 4 : 0);
  }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y,
           Scratch<Quad> scratch) const {
    const ColumnProduct product = {w, b.data, scale, terms(), x_zero, epilogue};
    for (int first = 0; first < out_c; first += group_out) {
      const Pixels rows = {*this, x + first / group_out * group_in};
      multiply(product, rows, {pixels(), first, first + group_out, out_c}, y + first, scratch.data);
    }
  }

 private:
  struct Position {
    int n, h, v;  // position of an output
  };

  // The rows that outputs read, as a matrix [pixels, terms].
  struct Pixels {
    const Convolution& op;
    const int8_t* x;  // from the group's first channel
    Position at = {0, 0, 0};

    // Writes the next row of the matrix as column p of `count`.
    void write_next(Quad* columns, int p, int count) {
      op.fill(x, at, columns, p, count);
      at = op.next(at);
    }
    void seek(int row) {
      const int width = op.window.w.out, height = op.window.h.out;
      at = {row / (width * height), row / width % height, row % width};
    }
    // Returns x if its pixels are the rows of the matrix (a 1 x 1 window); else nullptr.
    const int8_t* codes() const { return op.is_matrix() ? x : nullptr; }
    int stride() const { return op.in_c; }
  };

  static constexpr bool is_point(const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.in == axis.out;
  }
  constexpr bool is_matrix() const { return is_point(window.h) && is_point(window.w); }

  constexpr int pixels() const { return batch * window.h.out * window.w.out; }
  constexpr int terms() const { return w_channel; }
  // Returns whether the codes of a window must be gathered, because the channels of a pixel are not whole words.
  constexpr bool gathers() const { return group_in % 4 != 0 && w_channel != group_in; }

  Position next(Position at) const {
    if (++at.v == window.w.out) {
      at.v = 0;
      if (++at.h == window.h.out) at.h = 0, ++at.n;
    }
    return at;
  }

  // Writes the window of output `at` as column p of `count`.
  void fill(const int8_t* x, const Position& at, Quad* columns, int p, int count) const {
    ColumnWriter column(columns, p, count, terms(), x_zero);
    const bool whole_rows = group_in == in_c && window.w.dilation == 1;
    if (kColumnsAreCodes || !gathers()) {
      each_row(x, at, [&](const int8_t* from, int before, int inside, int after) {
        column.add_padding(before * group_in);
        if (whole_rows) column.add(from, inside * group_in);
        else
          for (int j = 0; j < inside; ++j, from += window.w.dilation * in_c) column.add(from, group_in);
        column.add_padding(after * group_in);
      });
      return;
    }
    auto* const codes = reinterpret_cast<int8_t*>(columns + size_t(quads_of(terms())) * size_t(count));
    int8_t* code = codes;
    each_row(x, at, [&](const int8_t* from, int before, int inside, int after) {
      code = repeat(int8_t(x_zero), before * group_in, code);
      if (whole_rows) code = copy(from, inside * group_in, code);
      else
        for (int j = 0; j < inside; ++j, from += window.w.dilation * in_c) code = copy(from, group_in, code);
      code = repeat(int8_t(x_zero), after * group_in, code);
    });
    column.add(codes, terms());
  }

  // Copies a few codes. A call of memcpy would take longer, and one of memset for repeat().
  static int8_t* copy(const int8_t* from, int count, int8_t* to) {
    for (; count >= 4; count -= 4, from += 4, to += 4) std::memcpy(to, from, 4);
    for (; count > 0; --count) *to++ = *from++;
    return to;
  }
  static int8_t* repeat(int8_t code, int count, int8_t* to) {
    for (; count > 0; --count) *to++ = code;
    return to;
  }

  static bool is_inside(const WindowAxis& axis, int first) {
    return first >= 0 && first + (axis.kernel - 1) * axis.dilation < axis.in;
  }
  // Returns what WindowAxis::taps() returns, without loops that every pixel would run.
  static WindowAxis::Taps taps_of(const WindowAxis& axis, int o) {
    if (axis.dilation != 1) return axis.taps(o);
    const int before = -axis.position(o, 0), inside = axis.in + before;
    const int first = before < 0 ? 0 : before < axis.kernel ? before : axis.kernel;
    const int end = inside < axis.kernel ? inside : axis.kernel;
    return {first, end < first ? first : end};
  }

  // Calls f(address of the first pixel in x, pixels of padding before, pixels in x, padding after) for each window row.
  template <class F>
  void each_row(const int8_t* x, const Position& at, const F& f) const {
    const int top = window.h.position(at.h, 0), left = window.w.position(at.v, 0);
    if (is_inside(window.h, top) && is_inside(window.w, left)) {
      const int8_t* from = x + ((at.n * window.h.in + top) * window.w.in + left) * in_c;
      const int step = window.h.dilation * window.w.in * in_c;
      for (int i = window.h.kernel; i > 0; --i, from += step) f(from, 0, window.w.kernel, 0);
      return;
    }
    const WindowAxis::Taps rows = taps_of(window.h, at.h), columns = taps_of(window.w, at.v);
    const int inside = columns.end - columns.first;
    for (int i = 0; i < window.h.kernel; ++i) {
      if (i < rows.first || i >= rows.end || inside == 0) {
        f(x, window.w.kernel, 0, 0);
        continue;
      }
      const int row = at.n * window.h.in + window.h.position(at.h, i);
      const int column = window.w.position(at.v, columns.first);
      f(x + (row * window.w.in + column) * in_c, columns.first, inside, window.w.kernel - columns.end);
    }
  }
};

struct FullyConnected : Dense {
  static constexpr FullyConnected from(const Words& words, const Operands& operands) {
    return {Dense::from(words, operands)};
  }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return from(words, operands).scratch_bytes();
  }
  size_t scratch_bytes() const { return (rows >= kSharedRows ? kSharedRows : 1) * column_bytes(in); }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y,
           Scratch<Quad> columns) const {
    const ColumnProduct product = {w, b.data, scale, in, x_zero, epilogue};
    multiply(product, Rows{*this, x, x}, {rows, 0, out, out}, y, columns.data);
  }

 private:
  struct Rows {
    const FullyConnected& op;
    const int8_t *x, *at;

    void write_next(Quad* columns, int p, int count) {
      ColumnWriter(columns, p, count, op.in, op.x_zero).add(at, op.in);
      at += op.in;
    }
    void seek(int row) { at = x + row * op.in; }
    const int8_t* codes() const { return x; }
    int stride() const { return op.in; }
  };
};

}  // namespace nacre::cortex_m
