// Provides the rows that a product multiplies, block by block. They lie in x, or are copied to scratch as X: float32,
// or the type that the dot products read.
//
//   dense      row r = x[r, ..]
//   conv2d     row r = the window of pixel r, padding included: x[n, h sh - top + i dh, v sw - left + j dw, c] over
//              i, j, c
#pragma once

#include "engine/kernels/fast/matmul/forms.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/pieces.h"
#include "engine/kernels/fast/tile.h"

namespace nacre::inline NACRE_ISA {

// The size of the numbers of rows of type X in scratch, and how many of them are multiplied together.
template <class X>
inline constexpr Numbers kNumbersOf = std::is_same_v<X, float>      ? kFloats
                                      : std::is_same_v<X, Bfloat16> ? kPairs
                                                                    : kCodes;

template <class V, class T>
inline void put_numbers(float* to, const T* from, int n) {
  int i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::store(to + i, V::load(from + i));
  if (i < n) V::store(to + i, V::load(from + i, n - i), n - i);
}
template <class V>
inline void put_numbers(typename V::Code* to, const int8_t* from, int n) {
  V::to_codes(to, from, n);
}
template <class V>
inline void put_numbers(Bfloat16* to, const Bfloat16* from, int n) {
  std::memcpy(to, from, size_t(n) * sizeof(Bfloat16));
}
template <class V>
inline void put_numbers(Bfloat16* to, const Float8E4M3* from, int n) {
  int i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::store(to + i, V::load(from + i));
  if (i < n) V::store(to + i, V::load(from + i, n - i), n - i);
}
template <class V, class T>
inline void store_numbers(T* to, const float* from, int n) {
  int i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::store(to + i, V::load(from + i));
  if (i < n) V::store(to + i, V::load(from + i, n - i), n - i);
}
inline void fill_numbers(float* to, float value, int n) {
  for (int i = 0; i < n; ++i) to[i] = value;
}
template <class V, class T>
inline void fill_numbers(float* to, T, int n) {  // the padding of reals is 0
  fill_numbers(to, 0.0f, n);
}
template <class V, class T>
inline void fill_numbers(Bfloat16* to, T, int n) {
  std::memset(to, 0, size_t(n) * sizeof(Bfloat16));
}
template <class V>
inline void fill_numbers(typename V::Code* to, int8_t code, int n) {
  V::fill_codes(to, code, n);
}

inline int clamped(int v, int high) { return v < 0 ? 0 : v > high ? high : v; }

// Copies columns [left, left + columns) of a row of x, which has `in` columns of c numbers each. Columns outside x
// are padding.
template <class V, class X, class T>
inline void put_row(X* to, const T* row, int in, int left, int columns, int c, T padding) {
  const int before = clamped(-left, columns), inside = clamped(in - left, columns) - before;
  if (before > 0) fill_numbers<V>(to, padding, before * c);
  if (inside > 0) put_numbers<V>(to + before * c, row + ptrdiff_t(left + before) * c, inside * c);
  const int behind = before + (inside > 0 ? inside : 0);
  if (behind < columns) fill_numbers<V>(to + behind * c, padding, (columns - behind) * c);
}

// Returns the number of rows at which a block may begin: in bands, the first pixel of each row of y.
inline int block_starts(const Dense&, const ProductSizes& s) { return s.rows; }
inline int block_starts(const Conv2d& op, const ProductSizes& s) {
  const bool bands = s.source == RowSource::kBands || s.source == RowSource::kBandWindows;
  return bands ? op.batch * op.window.h.out : s.rows;
}

// Divides a product among the workers. Usually each worker takes an equal run of blocks. It copies only its own rows,
// and mostly reads rows that it wrote in the step before. In two cases each worker takes some columns of all blocks
// instead, and reads only its part of the weights: if columns outnumber rows and rows are few or weights many, or if
// there are fewer possible blocks than workers.
struct Share {
  Part part;
  int out, chunk;   // all columns, and those of a unit of work
  int block_rows;   // most rows of a block
  int workers = 1;  // among which the rows are cut
  int first = 0;    // first unit of the current block

  // Cuts `rows` rows of `length` numbers. A block has `most` rows or fewer, and may begin at one of `starts` rows.
  static Share from(const Part& part, int rows, int starts, int most, int out, int length, int lanes) {
    const int panels = (out + lanes - 1) / lanes;
    if (part.count == 1) return {part, out, panels * lanes, most};
    const bool few_rows = rows < kLeastRows * part.count;
    const bool far_weights = int64_t{out} * length > kNearWeights;
    if ((out > rows && (few_rows || far_weights)) || (starts < part.count && starts * kPanels < panels)) {
      const int round = part.count * kPanels, even = (panels + round - 1) / round * kPanels;
      return {part, out, even * lanes, most};
    }
    const int round = most * part.count, blocks = (rows + round - 1) / round * part.count;
    const int even = blocks > 0 ? (rows + blocks - 1) / blocks : 1;
    return {part, out, panels * lanes, even < most ? even : most, part.count};
  }

  // Must be called before the first of the `blocks` into which the rows are cut.
  void begin(int blocks) {
    if (workers > 1) part.all = blocks;
  }
  // any() is called once for each block and returns whether a chunk of its columns is this part's. takes(c) then
  // returns whether chunk c is.
  bool any() {
    first = part.unit;
    return part.any((out + chunk - 1) / chunk);
  }
  bool takes(int c) const { return part.all > 0 || (first + c) % part.count == part.index; }

  static constexpr int kLeastRows = 8;            // least rows of a worker that takes rows
  static constexpr int kNearWeights = 128 << 10;  // numbers that a worker can read again from a near cache
  static constexpr int kPanels = 4;               // multiplied together (product.h): a chunk is whole groups of them
};

inline int blocks_of(int rows, int most) { return most > 0 ? (rows + most - 1) / most : 0; }

// Calls f(rows, shape, count, first row, group 0) for the blocks of rows in a share.
template <class V, class X, class T, class F>
void each_dense_block(const T* x, int rows, int length, int step, Pieces& scratch, Share& share, const F& f) {
  const int block_rows = share.block_rows;
  share.begin(blocks_of(rows, block_rows));
  if constexpr (std::is_same_v<X, T>) {  // in place
    if (step == length) {
      for (int r = 0; r < rows; r += block_rows)
        if (share.any())
          f(x + ptrdiff_t(r) * length, TileRows{length, 1, length, 0}, block_rows < rows - r ? block_rows : rows - r, r,
            0);
      return;
    }
  }
  if constexpr (!std::is_same_v<X, float> || !std::is_same_v<T, float>) {
    X* const block = scratch.take<X>(size_t(block_rows) * size_t(step));
    for (int r = 0; r < rows; r += block_rows) {
      if (!share.any()) continue;
      const int count = block_rows < rows - r ? block_rows : rows - r;
      if (step == length) put_numbers<V>(block, x + ptrdiff_t(r) * length, count * length);
      else
        for (int i = 0; i < count; ++i) {
          put_numbers<V>(block + i * step, x + ptrdiff_t(r + i) * length, length);
          for (int k = length; k < step; ++k) block[i * step + k] = X{};  // its weights are 0
        }
      f(block, TileRows{step, 1, step, 0}, count, r, 0);
    }
  }
}

// Copies `count` pieces of `length` numbers, `step` apart in `from`, to contiguous memory. Reads and writes whole
// pieces of 16 bytes, so up to kSlack numbers past the last piece may be written.
template <class X>
inline X* copy_runs(X* to, const X* from, int count, int length, ptrdiff_t step) {
  constexpr int kPiece = 16 / sizeof(X);
  for (int i = 0; i < count; ++i, to += length, from += step)
    for (int k = 0; k < length; k += kPiece) std::memcpy(to + k, from + k, 16);
  return to;
}

// Returns whether no window reaches beyond x along this axis.
inline bool inside(const WindowAxis& axis) {
  return axis.before == 0 && (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation < axis.in;
}

// Calls f for one row of y at a time, whose windows are read in the band. With kWindows (short runs, or runs that are
// not whole groups) calls f for several rows of y at a time, with a copy of their windows. If x needs no padding, no
// other type and no copies of windows, x itself is the band.
template <class V, class X, bool kWindows, class T, class F>
void each_band(const Conv2d& op, const T* x, Pieces& scratch, T padding, Share& share, const F& f) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  const Band band = Band::from(op, kNumbersOf<X>.size, share.workers);
  const bool in_place = std::is_same_v<X, T> && !kWindows && inside(h) && inside(w);
  const int at_once = band.rows_at_once(op, kWindows ? RowSource::kBandWindows : RowSource::kBands);
  const int c = op.in_c, row = (in_place ? w.in : band.columns) * c;
  const TileRows shape = {w.stride * c, h.kernel, w.kernel * c, h.dilation * row};
  X* const copy = scratch.take<X>(band.elements(op) + kSlack);
  const int length = h.kernel * shape.length, group = kNumbersOf<X>.group;
  const int window_step = (length + group - 1) / group * group;
  const size_t pixels = size_t(at_once) * size_t(w.out);
  X* const windows = kWindows ? scratch.take<X>(pixels * size_t(window_step) + kSlack) : nullptr;
  share.begin(op.batch * blocks_of(h.out, band.out_rows));
  for (int n = 0; n < op.batch; ++n, x += ptrdiff_t(h.in) * w.in * c)
    for (int o = 0; o < h.out; o += band.out_rows) {
      if (!share.any()) continue;
      const int out_rows = band.out_rows < h.out - o ? band.out_rows : h.out - o;
      for (int i = 0; i < Band::rows(op, out_rows) && !in_place; ++i) {
        const int y = h.position(o, 0) + i;
        X* const to = copy + ptrdiff_t(i) * row;
        if (h.inside(y)) put_row<V>(to, x + ptrdiff_t(y) * w.in * c, w.in, -w.before, band.columns, c, padding);
        else fill_numbers<V>(to, padding, row);
      }
      const X* rows = copy;
      if constexpr (std::is_same_v<X, T>)
        if (in_place) rows = x + ptrdiff_t(o) * h.stride * row;
      for (int i = 0; i < out_rows; i += at_once) {
        const int count = at_once < out_rows - i ? at_once : out_rows - i, first = (n * h.out + o + i) * w.out;
        const X* from = rows + ptrdiff_t(i) * h.stride * row;
        if constexpr (kWindows) {
          X* to = windows;
          for (int r = 0; r < count; ++r, from += ptrdiff_t(h.stride) * row)
            for (int v = 0; v < w.out; ++v, to += window_step) {
              copy_runs(to, from + v * shape.rows, h.kernel, shape.length, shape.run);
              if (std::is_same_v<X, Bfloat16> && length < window_step) to[length] = X{};  // 0 times infinity is not 0
            }
          f(windows, TileRows{window_step, 1, window_step, 0}, count * w.out, first, 0);
        } else {
          f(from, shape, w.out, first, 0);
        }
      }
    }
}

// Copies the window of pixel (o, v) of one group's channels.
template <class V, class X, class T>
void put_window(const Conv2d& op, const T* x, int o, int v, X* to, T padding) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  const int c = op.group_in, row = w.kernel * c, left = w.position(v, 0);
  const bool one_run = w.dilation == 1 && c == op.in_c;
  for (int i = 0; i < h.kernel; ++i, to += row) {
    const int y = h.position(o, i);
    const T* const from = x + ptrdiff_t(y) * w.in * op.in_c;
    if (!h.inside(y)) fill_numbers<V>(to, padding, row);
    else if (one_run) put_row<V>(to, from, w.in, left, w.kernel, c, padding);
    else
      for (int j = 0; j < w.kernel; ++j) {
        const int at = left + j * w.dilation;
        if (w.inside(at)) put_numbers<V>(to + j * c, from + ptrdiff_t(at) * op.in_c, c);
        else fill_numbers<V>(to + j * c, padding, c);
      }
  }
}

// Copies the windows of pixels first .. first + count, `step` apart.
template <class V, class X, class T>
void put_windows(const Conv2d& op, const T* x, int first, int count, int group, X* to, int step, T padding) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  int v = first % w.out, o = first / w.out % h.out, n = first / w.out / h.out;
  for (int r = 0; r < count; ++r, to += step) {
    put_window<V>(op, x + ptrdiff_t(n) * h.in * w.in * op.in_c + group * op.group_in, o, v, to, padding);
    if (++v < w.out) continue;
    v = 0;
    if (++o == h.out) o = 0, ++n;
  }
}

template <class V, class X, class T, class F>
void each_window_block(const Conv2d& op, const ProductSizes& s, const T* x, int step, Pieces& scratch, T padding,
                       Share& share, const F& f) {
  const int block_rows = share.block_rows;
  X* const block = scratch.take<X>(size_t(block_rows) * size_t(step));
  share.begin(s.groups * blocks_of(s.rows, block_rows));
  for (int group = 0; group < s.groups; ++group)
    for (int r = 0; r < s.rows; r += block_rows) {
      if (!share.any()) continue;
      const int count = block_rows < s.rows - r ? block_rows : s.rows - r;
      put_windows<V>(op, x, r, count, group, block, step, padding);
      for (int i = 0; i < count; ++i)
        for (int k = s.length; k < step; ++k) block[i * step + k] = X{};  // its weights are 0
      f(block, TileRows{step, 1, step, 0}, count, r, group);
    }
}

template <class V, class X, class T, class F>
void each_block_of(const Dense& op, const ProductSizes& s, const T* x, int step, Pieces& scratch, T, Share& share,
                   const F& f) {
  each_dense_block<V, X>(x, s.rows, op.in, step, scratch, share, f);
}
template <class V, class X, class T, class F>
void each_block_of(const Conv2d& op, const ProductSizes& s, const T* x, int step, Pieces& scratch, T padding,
                   Share& share, const F& f) {
  switch (s.source) {
    case RowSource::kInPlace: return each_dense_block<V, X>(x, s.rows, s.length, step, scratch, share, f);
    case RowSource::kBands: return each_band<V, X, false>(op, x, scratch, padding, share, f);
    case RowSource::kBandWindows: return each_band<V, X, true>(op, x, scratch, padding, share, f);
    case RowSource::kWindows: return each_window_block<V, X>(op, s, x, step, scratch, padding, share, f);
  }
}

}  // namespace nacre::inline NACRE_ISA
