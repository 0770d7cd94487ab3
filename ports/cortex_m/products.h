// int8 conv2d and dense with double rounding: blocks of four pixels or rows, each widened once (columns.h).
//
// Scratch: the columns of a block; of a convolution whose channels are no multiple of 4 also the codes of one, gathered
// before they are widened.
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
    const Convolution op = from(words, operands);
    const size_t columns = op.pixels() >= kSharedRows ? kSharedRows : 1;
    return columns * column_bytes(op.terms()) + (op.gathers() ? size_t(quads_of(op.terms())) * 4 : 0);
  }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y,
           Scratch<Quad> scratch) const {
    const ColumnProduct product = {w, b.data, scale, terms(), epilogue};
    const int rows = pixels();
    for (int first = 0; first < out_c; first += group_out) {
      Position at = {0, 0, 0};
      int8_t* to = y + first;
      int left = rows;
      const int8_t* const from = x + first / group_out * group_in;
      for (; left >= kSharedRows; left -= kSharedRows, to += kSharedRows * out_c) {
        for (int p = 0; p < kSharedRows; ++p, at = next(at)) fill(from, at, scratch.data, p, kSharedRows);
        product.four_rows(scratch.data, first, first + group_out, to, out_c);
      }
      for (; left > 0; --left, to += out_c, at = next(at)) {
        fill(from, at, scratch.data, 0, 1);
        product.one_row(scratch.data, first, first + group_out, to);
      }
    }
  }

 private:
  struct Position {
    int n, h, v;  // of an output
  };

  constexpr int pixels() const { return batch * window.h.out * window.w.out; }
  constexpr int terms() const { return w_channel; }
  // The codes of the taps of a row of the window are not whole words.
  constexpr bool gathers() const { return group_in % 4 != 0 && w_channel != group_in; }

  Position next(Position at) const {
    if (++at.v == window.w.out) {
      at.v = 0;
      if (++at.h == window.h.out) at.h = 0, ++at.n;
    }
    return at;
  }

  // Column p of `step`.
  void fill(const int8_t* x, const Position& at, Quad* columns, int p, int step) const {
    Quad* to = columns + p;
    if (!gathers()) {
      each_row(x, at, [&](const int8_t* from, int before, int inside, int after) {
        to = widen_zeros(before * group_in, to, step);
        if (group_in == in_c && window.w.dilation == 1) {
          to = widen(from, inside * group_in, x_zero, to, step);
        } else {
          for (int j = 0; j < inside; ++j, from += window.w.dilation * in_c)
            to = widen(from, group_in, x_zero, to, step);
        }
        to = widen_zeros(after * group_in, to, step);
      });
      return;
    }
    auto* const codes = reinterpret_cast<int8_t*>(columns + size_t(quads_of(terms())) * size_t(step));
    int8_t* code = codes;
    each_row(x, at, [&](const int8_t* from, int before, int inside, int after) {
      std::memset(code, x_zero, size_t(before * group_in));
      code += before * group_in;
      for (int j = 0; j < inside; ++j, from += window.w.dilation * in_c)
        for (int c = 0; c < group_in; ++c) *code++ = from[c];
      std::memset(code, x_zero, size_t(after * group_in));
      code += after * group_in;
    });
    widen(codes, terms(), x_zero, to, step);
  }

  // f(first tap inside x, taps before it, inside, behind) for the rows of the window.
  template <class F>
  void each_row(const int8_t* x, const Position& at, const F& f) const {
    const WindowAxis::Taps rows = window.h.taps(at.h), columns = window.w.taps(at.v);
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
    const FullyConnected op = from(words, operands);
    return (op.rows >= kSharedRows ? kSharedRows : 1) * column_bytes(op.in);
  }

  void run(const int8_t* x, const int8_t* w, Optional<const int32_t> b, const int32_t* scale, int8_t* y,
           Scratch<Quad> columns) const {
    const ColumnProduct product = {w, b.data, scale, in, epilogue};
    int left = rows;
    for (; left >= kSharedRows; left -= kSharedRows, y += kSharedRows * out) {
      for (int p = 0; p < kSharedRows; ++p, x += in) widen(x, in, x_zero, columns.data + p, kSharedRows);
      product.four_rows(columns.data, 0, out, y, out);
    }
    for (; left > 0; --left, x += in, y += out) {
      widen(x, in, x_zero, columns.data, 1);
      product.one_row(columns.data, 0, out, y);
    }
  }
};

}  // namespace nacre::cortex_m
