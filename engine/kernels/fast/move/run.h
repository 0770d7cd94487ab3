// Code of the kernel forms that forms.h declares. It is compiled for several instruction sets.
#pragma once

#include <cstring>

#include "engine/kernels/fast/move/forms.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/transpose_block.h"

namespace nacre::inline NACRE_ISA {

template <size_t kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
};
template <class T>
using Word = typename WordOf<sizeof(T)>::Type;

// Transposes a square of 8 / sizeof(W) rows. Each row is read as one 8-byte word. Then words exchange elements: single
// ones with the next word, then two at a time with the second next word, then four with the fourth next.
template <class W>
struct SquareOfWords {
  static constexpr int kSide = 8 / int(sizeof(W));

  [[gnu::always_inline]] static void transpose(const W* from, ptrdiff_t from_step, W* to, ptrdiff_t to_step) {
    uint64_t row[kSide];
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) std::memcpy(&row[i], from + i * from_step, 8);
    exchange<1>(row);
    if constexpr (kSide > 2) exchange<2>(row);
    if constexpr (kSide > 4) exchange<4>(row);
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) std::memcpy(to + i * to_step, &row[i], 8);
  }

 private:
  // Returns the bits of the elements j with j & kDistance = 0.
  template <int kDistance>
  static constexpr uint64_t low_elements() {
    constexpr int kBits = 8 * int(sizeof(W)) * kDistance;
    uint64_t mask = 0;
    for (int bit = 0; bit < 64; ++bit)
      if (bit / kBits % 2 == 0) mask |= uint64_t{1} << bit;
    return mask;
  }
  template <int kDistance>
  [[gnu::always_inline]] static void exchange(uint64_t (&row)[kSide]) {
    constexpr uint64_t kLow = low_elements<kDistance>();
    constexpr int kBits = 8 * int(sizeof(W)) * kDistance;
#pragma GCC unroll 8
    for (int i = 0; i < kSide; ++i) {
      if ((i & kDistance) != 0) continue;
      const uint64_t a = row[i], b = row[i + kDistance];
      row[i] = (a & kLow) | (b & kLow) << kBits;
      row[i + kDistance] = (a >> kBits & kLow) | (b & ~kLow);
    }
  }
};

// Times in multiply-accumulates (fast/parallel.h): of a byte in a row that is copied whole, of an element moved alone.
inline constexpr uint64_t kOfCopied = 2, kOfMoved = 8;

// Transposes: to[c to_step + r] = from[r from_step + c]. Works in blocks of 64 by 64 elements, so that cache lines are
// used up before they leave the cache.
inline constexpr int kTransposeBlock = 64;
template <class W>
[[gnu::noinline]] void transpose_words(const W* from, ptrdiff_t from_step, int rows, int columns, W* to,
                                       ptrdiff_t to_step) {
  constexpr int kBlock = kTransposeBlock;
  const auto block = [&](int r, int c, int high, int wide) {
    const W* const x = from + r * from_step + c;
    W* const y = to + c * to_step + r;
    if constexpr (sizeof(W) == 4) {
      transpose_floats<Vector>(reinterpret_cast<const float*>(x), from_step, high, wide, reinterpret_cast<float*>(y),
                               to_step);
    } else {
      int whole_rows = 0, whole_columns = 0;
      if constexpr (sizeof(W) < 4) {
        using Square = SquareOfWords<W>;
        whole_rows = high / Square::kSide * Square::kSide, whole_columns = wide / Square::kSide * Square::kSide;
        for (int j = 0; j < whole_columns; j += Square::kSide)
          for (int i = 0; i < whole_rows; i += Square::kSide)
            Square::transpose(x + i * from_step + j, from_step, y + j * to_step + i, to_step);
      }
      for (int j = 0; j < wide; ++j)
        for (int i = j < whole_columns ? whole_rows : 0; i < high; ++i) y[j * to_step + i] = x[i * from_step + j];
    }
  };
  for (int c = 0; c < columns; c += kBlock)
    for (int r = 0; r < rows; r += kBlock)
      block(r, c, kBlock < rows - r ? kBlock : rows - r, kBlock < columns - c ? kBlock : columns - c);
}

// Walks along all axes but `one` and `other`, on the workers, and calls f(offset into x, offset into y, part) for each
// of `parts` parts; f goes through these two axes. Each part takes the time of `work` multiply-accumulates.
template <class F>
[[gnu::noinline]] void each_outer(const Walk<1>& walk, int one, int other, int parts, uint64_t work, const Args& args,
                                  const F& f) {
  Walk<2> outer;
  outer.first[0] = walk.first[0];
  int stride = 1;
  for (int axis = walk.rank - 1; axis >= 0; --axis, stride *= walk.size[axis + 1]) outer.stride[1][axis] = stride;
  for (int axis = 0; axis < walk.rank; ++axis) {
    if (axis == one || axis == other) continue;
    outer.size[outer.rank] = walk.size[axis];
    outer.stride[0][outer.rank] = walk.stride[0][axis];
    outer.stride[1][outer.rank++] = outer.stride[1][axis];
  }
  in_runs(args, outer.elements() * parts, work, [&](int first, int count, std::span<std::byte>) {
    int number = 0;
    outer.each([&](const int32_t* at) {
      for (int part = 0; part < parts; ++part, ++number)
        if (number >= first && number < first + count) f(at[0], at[1], part);
    });
  });
}

template <class W>
[[gnu::noinline]] void move_words(const Walk<1>& walk, const W* x, W* y, const Args& args) {
  const int last = walk.rank - 1;
  if (last < 0) {
    *y = x[walk.first[0]];
    return;
  }
  const int count = walk.size[last], step = walk.stride[0][last];
  if (step == 1)
    return each_outer(walk, last, last, 1, uint64_t(count) * sizeof(W) * kOfCopied, args,
                      [&](int from, int to, int) { std::memcpy(y + to, x + from, size_t(count) * sizeof(W)); });
  int side = last - 1;
  while (side >= 0 && walk.stride[0][side] != 1) --side;
  if (side < 0 || step < 0)
    return each_outer(walk, last, last, 1, uint64_t(count) * kOfMoved, args, [&](int from, int to, int) {
      for (int i = 0; i < count; ++i, from += step) y[to + i] = x[from];
    });
  ptrdiff_t to_step = 1;
  for (int axis = side + 1; axis <= last; ++axis) to_step *= walk.size[axis];
  const int columns = walk.size[side], blocks = (columns + kTransposeBlock - 1) / kTransposeBlock;
  each_outer(walk, side, last, blocks, uint64_t(count) * kTransposeBlock * kOfMoved, args,
             [&](int from, int to, int block) {
               const int c = block * kTransposeBlock, left = columns - c;
               transpose_words(x + from + c, step, count, left < kTransposeBlock ? left : kTransposeBlock,
                               y + to + c * to_step, to_step);
             });
}

template <class O, class T>
void FastMove<O, T>::run(const T* x, T* y, const Args& args) const {
  using W = Word<T>;
  move_words(moves.walk, reinterpret_cast<const W*>(x), reinterpret_cast<W*>(y), args);
}

template <class W>
inline void fill_words(W* y, W value, int count) {
  for (int i = 0; i < count; ++i) y[i] = value;
}

// Writes rows [first_row, first_row + rows) of y, where a row is [axis][inner].
template <class W>
[[gnu::noinline]] void pad_words(const PadRows& p, const W* x, W* y, W outside, int first_row, int rows) {
  const int axis = p.axis, in = p.x[axis], before = p.before(axis), out = p.y[axis], row = out * p.inner;
  const Dims dims = dims_of(p.y);
  int number = 0;
  y += ptrdiff_t(first_row) * row;
  each_index(axis, dims.size, [&](const int32_t* index) {
    const int n = number++;
    if (n < first_row || n >= first_row + rows) return;
    int at = 0;
    for (int a = 0; a < axis && at >= 0; ++a) {
      const int i = p.source(a, index[a]);
      at = i < 0 ? -1 : at * p.x[a] + i;
    }
    if (at < 0) {
      fill_words(y, outside, row);
      y += row;
      return;
    }
    const W* const from = x + ptrdiff_t(at) * in * p.inner;
    const auto edge = [&](int first, int end) {
      for (int i = first; i < end; ++i, y += p.inner)
        if (p.constant()) fill_words(y, outside, p.inner);
        else std::memcpy(y, from + p.source(axis, i) * p.inner, size_t(p.inner) * sizeof(W));
    };
    edge(0, before);
    std::memcpy(y, from, size_t(in * p.inner) * sizeof(W));
    y += in * p.inner;
    edge(before + in, out);
  });
}

// Returns the padding value, an attribute's word, as the bits of an element of type T.
template <class T>
Word<T> padding_of(uint32_t word) {
  if constexpr (std::is_same_v<T, Bool>) return uint8_t(word & 1);
  else if constexpr (std::is_integral_v<T>) return Word<T>(T(int32_t(word)));
  else return std::bit_cast<Word<T>>(T(std::bit_cast<float>(word)));
}
template <class T>
void FastPad<T>::run(const T* x, T* y, const Args& args) const {
  using W = Word<T>;
  const int row = rows.y[rows.axis] * rows.inner;
  in_runs(args, rows.y.product(0, rows.axis), uint64_t(row) * sizeof(W) * kOfCopied,
          [&](int first, int count, std::span<std::byte>) {
            pad_words(rows, reinterpret_cast<const W*>(x), reinterpret_cast<W*>(y),
                      padding_of<T>(rows.words[Pad::kValue]), first, count);
          });
}

}  // namespace nacre::inline NACRE_ISA
