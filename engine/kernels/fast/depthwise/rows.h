// Copies to scratch the rows of x that a depthwise convolution reads. forms.h says how these rows lie there.
#pragma once

#include "engine/kernels/fast/depthwise/forms.h"
#include "engine/kernels/fast/windows.h"

namespace nacre::inline NACRE_ISA {

inline int least(int a, int b) { return a < b ? a : b; }

// A block of image n of y: its first row h, column v and channel k, their numbers, and the index `at` of the block's
// first number in y.
struct DepthwiseBlock {
  int n, h, v, k, rows, columns, channels, at;

  // Returns the state before the first block. next() moves to this part's next block; returns false if there is none.
  static DepthwiseBlock before() { return {0, 0, 0, 0, 0, 0, 0, 0}; }
  bool next(const DepthwiseConv2d& op, const DepthwiseTiling& t, Part& part) {
    const int piece = piece_of(op, t, part.count), pieces = (op.window.h.out + piece - 1) / piece;
    while (next(op, t, part.count, piece)) {
      const bool mine = part.takes();
      if (pieces == part.count ? h / piece == part.index : mine) return true;
    }
    return false;
  }

 private:
  // Returns the rows of an image that one of several workers gets: a whole number of the rows that are made together.
  static int piece_of(const DepthwiseConv2d& op, const DepthwiseTiling& t, int workers) {
    const int each = (op.window.h.out + workers - 1) / workers, together = t.shared > 1 ? t.shared : 1;
    return each > 0 ? (each + together - 1) / together * together : 1;
  }
  // Moves to the next block. With several workers no block lies in two pieces, and a piece has nearly equal blocks.
  bool next(const DepthwiseConv2d& op, const DepthwiseTiling& t, int workers, int piece) {
    const int out_h = op.window.h.out, out_w = op.window.w.out;
    h += rows;
    if (rows > 0 && h == out_h) h = 0, k += channels;
    if (k == op.out_c) k = 0, v += columns;
    if (v == out_w) v = 0, ++n;
    if (n == op.batch || out_h == 0 || out_w == 0) return false;
    rows = least(t.rows, out_h - h);
    if (workers > 1) {
      const int left = piece - h % piece, blocks = (left + t.rows - 1) / t.rows;
      const int together = t.shared > 1 ? t.shared : 1, even = (left + blocks - 1) / blocks;
      rows = least(least(rows, left), (even + together - 1) / together * together);
    }
    columns = least(t.columns, out_w - v);
    channels = least(t.channels, op.out_c - k);
    at = ((n * out_h + h) * out_w + v) * op.out_c + k;
    return true;
  }
};

// Columns q of a padded row, counted from the first one that output v0 reads. Columns [first, end) are columns q +
// shift of x; the others of `all` are padding.
struct DepthwiseColumns {
  int first, end, all, shift;

  DepthwiseColumns(const DepthwiseTiling& t, const WindowAxis& w, int v0)
      : all(t.planes * t.plane), shift(v0 * w.stride - w.before) {
    first = within(-shift);
    end = within(w.in - shift);
  }

  // Calls f(offset in a row in scratch, column of x, count) for columns that are neighbours both in x and in scratch:
  // for all columns at once if there is one plane and all channels are copied, else one by one.
  template <class F>
  void each_piece(const DepthwiseTiling& t, const F& f) const {
    if (t.planes == 1 && t.channels == t.out_c) {
      if (first < end) f(first * t.channels, first + shift, end - first);
      return;
    }
    int plane = first % t.planes, at = first / t.planes;
    for (int q = first; q < end; ++q) {
      f((plane * t.plane + at) * t.channels, q + shift, 1);
      if (++plane == t.planes) plane = 0, ++at;
    }
  }
  // Calls f(offset in a row in scratch) for each column of padding.
  template <class F>
  void each_padding(const DepthwiseTiling& t, const F& f) const {
    for (int q = 0; q < first; ++q) f(t.place(q));
    for (int q = end; q < all; ++q) f(t.place(q));
  }

 private:
  int within(int q) const { return q < 0 ? 0 : q > all ? all : q; }
};

// Rows in float32. Each row of x is copied once for some columns and channels: row i lies in slot i mod slots. All
// rows outside x share one row of zeros.
template <class V, class T>
struct RealDepthwiseRows {
  const DepthwiseConv2d& op;
  const DepthwiseTiling& t;
  int slots;
  float *rows, *zeros;
  const float** table;  // [rows of a block][kernel_h]

  RealDepthwiseRows(const DepthwiseConv2d& o, const DepthwiseTiling& tiling, float* at, const float** to)
      : op(o), t(tiling), slots(int(FastDepthwise<V::kLanes>::slots(o.window.h, tiling.rows))), rows(at),
        zeros(at + ptrdiff_t(slots) * tiling.row_numbers), table(to) {
    if (!t.direct) fill_numbers<V>(zeros, 0.0f, t.row_numbers);
  }

  // Writes the padding of the rows for outputs from column v0 on, of any image and channels.
  [[gnu::noinline]] void begin(int v0) {
    const DepthwiseColumns columns(t, op.window.w, v0);
    const int used = columns.all * t.channels;
    float* row = rows;
    for (int i = 0; i < slots; ++i, row += t.row_numbers) {
      columns.each_padding(t, [&](int place) { fill_numbers<V>(row + place, 0.0f, t.channels); });
      fill_numbers<V>(row + used, 0.0f, t.row_numbers - used);
    }
  }
  void begin_channels() { next = 0; }

  // Copies the rows of the image x that a block of y reads and earlier blocks did not. Points the table at the rows.
  [[gnu::noinline]] void block(const T* x, const DepthwiseBlock& y) {
    const WindowAxis& axis = op.window.h;
    const DepthwiseColumns columns(t, op.window.w, y.v);
    const int h = y.h, count = y.rows;
    const int last = axis.position(h + count - 1, axis.kernel - 1), top = axis.position(h, 0);
    const int end = last < axis.in ? last + 1 : axis.in;
    for (int i = next < top ? top : next; i < end; ++i) row(x + ptrdiff_t(i) * op.window.w.in * op.in_c, i, columns, y);
    next = next < end ? end : next;
    const float** to = table;
    const int from = top < 0 ? 0 : top, from_slot = from % slots;  // the slot where the block's rows begin
    for (int r = h; r < h + count; ++r)
      for (int i = 0; i < axis.kernel; ++i) {
        const int at = axis.position(r, i), slot = from_slot + at - from;
        *to++ = axis.inside(at) ? rows + ptrdiff_t(slot < slots ? slot : slot - slots) * t.row_numbers : zeros;
      }
  }

 private:
  int next = 0;  // rows of x before this one have been copied or passed

  void row(const T* x, int i, const DepthwiseColumns& columns, const DepthwiseBlock& y) const {
    float* const to = rows + ptrdiff_t(i % slots) * t.row_numbers;
    columns.each_piece(t, [&](int place, int column, int count) {
      const T* const from = x + ptrdiff_t(column) * op.in_c;
      if (op.out_c == op.in_c) return put_numbers<V>(to + place, from + y.k, count * y.channels);
      const int multiplier = op.out_c / op.in_c;
      for (int k = 0; k < count * y.channels; ++k) to[place + k] = float(from[(y.k + k) / multiplier]);
    });
  }
};

// Rows of fours: four codes of one column and channel, with kFoursOffset added. Each row of y, or two of them if they
// share it, has one such row for every four rows of x that it reads.
template <class V>
struct CodeDepthwiseRows {
  const DepthwiseConv2d& op;
  const DepthwiseTiling& t;
  int fours;
  ptrdiff_t source;        // bytes of `padding`, and from one row of `repeated` to the next
  const uint32_t** table;  // [rows of a block / shared][fours]
  int8_t *padding, *repeated;
  uint32_t* rows;

  CodeDepthwiseRows(const DepthwiseConv2d& o, const DepthwiseTiling& tiling, Pieces& scratch)
      : op(o), t(tiling), fours((o.window.h.kernel + 3) / 4),
        source(ptrdiff_t(FastDepthwise<V::kLanes>::source_bytes(tiling, o.window.w))),
        table(scratch.take<const uint32_t*>(size_t(t.rows) * size_t(fours))),
        padding(scratch.take<int8_t>(size_t(source))),
        repeated(scratch.take<int8_t>(o.out_c > o.in_c ? size_t(4 * source) : 0)),
        rows(scratch.take<uint32_t>(size_t(t.block_bytes) / sizeof(uint32_t))) {}

  [[gnu::noinline]] void begin(int8_t zero, int v0) const {
    const DepthwiseColumns columns(t, op.window.w, v0);
    std::memset(padding, zero, size_t(source));  // in a loop, stores of codes might alias `source`
    uint32_t* row = rows;
    const int count = (t.rows + t.shared - 1) / t.shared * fours;
    for (int i = 0; i < count; ++i, row += t.row_numbers) {
      table[i] = row;
      columns.each_padding(t, [&](int place) {
        const int8_t* const from[] = {padding, padding, padding, padding};
        interleave(row + place, from, t.channels);
      });
    }
  }

  [[gnu::noinline]] void block(const int8_t* x, const DepthwiseBlock& y) const {
    const DepthwiseColumns columns(t, op.window.w, y.v);
    uint32_t* to = rows;
    for (int r = 0; r < y.rows; r += t.shared) {
      const int used = op.window.h.kernel + (r + 1 < y.rows ? t.shared - 1 : 0);
      for (int i = 0; i < fours; ++i, to += t.row_numbers)
        row(x, op.window.h.position(y.h + r, 4 * i), used - 4 * i, columns, y, to);
    }
  }

 private:
  // Writes `left` rows of x from `position` on as a row of fours. If there are fewer than 4, the others have weights 0.
  void row(const int8_t* x, int position, int left, const DepthwiseColumns& columns, const DepthwiseBlock& y,
           uint32_t* to) const {
    const int first = columns.first + columns.shift;
    const int8_t* from[4];
    ptrdiff_t step[4];  // bytes from one column to the next
    for (int i = 0; i < 4; ++i) {
      const int at = position + i * op.window.h.dilation;
      step[i] = t.channels;
      if (i >= left) {
        from[i] = from[0];
        step[i] = step[0];
      } else if (!op.window.h.inside(at)) {
        from[i] = padding;
      } else {
        const int8_t* const row = x + (ptrdiff_t(at) * op.window.w.in + first) * op.in_c;
        if (op.out_c == op.in_c) from[i] = row + y.k, step[i] = op.in_c;
        else from[i] = repeat(row, columns, y, i);
      }
    }
    columns.each_piece(t, [&](int place, int column, int count) {
      const int8_t* at[4];
      for (int i = 0; i < 4; ++i) at[i] = from[i] + (column - first) * step[i];
      interleave(to + place, at, count * y.channels);
    });
  }
  const int8_t* repeat(const int8_t* x, const DepthwiseColumns& columns, const DepthwiseBlock& y, int i) const {
    const int multiplier = op.out_c / op.in_c;
    int8_t* to = repeated + i * source;
    const int8_t* const all = to;
    for (int q = columns.first; q < columns.end; ++q, to += t.channels, x += op.in_c)
      for (int k = 0; k < y.channels; ++k) to[k] = x[(y.k + k) / multiplier];
    return all;
  }

  // Interleaves n fours. The last whole piece may overlap the one before it.
  static void interleave(uint32_t* fours, const int8_t* const* from, int n) {
    const int8_t *a = from[0], *b = from[1], *c = from[2], *d = from[3];
    auto* const to = reinterpret_cast<uint8_t*>(fours);
    constexpr int kStep = 4 * V::kLanes;
    int i = 0;
    for (; i + kStep <= n; i += kStep) V::interleave(to + 4 * i, a + i, b + i, c + i, d + i);
    if (i == n) return;
    if (n >= kStep) {
      i = n - kStep;
      return V::interleave(to + 4 * i, a + i, b + i, c + i, d + i);
    }
    for (; i < n; i += V::kLanes) V::interleave(to + 4 * i, a + i, b + i, c + i, d + i, V::most(n - i));
  }
};

}  // namespace nacre::inline NACRE_ISA
