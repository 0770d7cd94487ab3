// Makes the sums of a block of a depthwise convolution, vector by vector, from rows in scratch (rows.h). A taker, at
// the end of this file, stores the sums: as they are, as clamped reals, or as codes.
#pragma once

#include "engine/kernels/fast/depthwise/rows.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

// Adds products x w to vectors of kLanes sums. Number is the element of a row in scratch and of the table of weights.
// Three is a window of 3 x 3 with its weights in registers. Its add<kRows>(s, x, tap, at) adds to the sums of kRows
// consecutive rows of y, 2 only if t.shared is 2. x points at the kPointers<kRows> rows in scratch that these read.
template <class V>
struct RealTerms {
  using Number = float;
  using Start = float;
  using Sum = typename V::F;
  using Weights = typename V::F;
  template <int kRows>
  static constexpr int kPointers = kRows + 2;
  static constexpr bool kOwnWeights = false;  // whether each row of y that shares rows in scratch has its own weights

  static Sum start(const float* p) { return V::load(p); }
  static Weights weights(const float* p) { return V::load(p); }
  static Sum add(Sum sum, const float* x, Weights w) { return V::fma(V::load(x), w, sum); }

  struct Three {
    static constexpr int kRows = 3;  // rows in scratch for one row of y
    Weights w[9];

    Three(const float* p, int width, int) {
#pragma GCC unroll 9
      for (int i = 0; i < 9; ++i) w[i] = V::load(p + i * width);
    }
    template <int kRows>
    void add(Sum* s, const float* const* x, const ptrdiff_t* tap, ptrdiff_t at) const {
#pragma GCC unroll 4
      for (int i = 0; i < kRows + 2; ++i)
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) {
          const Sum v = V::load(x[i] + tap[j] + at);
#pragma GCC unroll 2
          for (int r = 0; r < kRows; ++r)
            if (i >= r && i < r + 3) s[r] = V::fma(v, w[3 * (i - r) + j], s[r]);
        }
    }
  };
};
template <class V>
struct CodeTerms {
  using Number = uint32_t;  // four codes
  using Start = int32_t;
  using Sum = typename V::I;
  using Weights = typename V::WeightFours;
  template <int kRows>
  static constexpr int kPointers = 1;
  static constexpr bool kOwnWeights = true;

  static Sum start(const int32_t* p) { return V::load_integers(p); }
  static Weights weights(const uint32_t* p) { return V::weight_fours(reinterpret_cast<const int8_t*>(p)); }
  static Sum add(Sum sum, const uint32_t* x, Weights w) {
    return V::dot(sum, V::fours(reinterpret_cast<const uint8_t*>(x)), w);
  }

  struct Three {
    static constexpr int kRows = 1;
    Weights w[2][3];

    Three(const uint32_t* p, int width, int shared) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) w[i / 3][i % 3] = weights(p + (i < 3 * shared ? i : i - 3) * width);
    }
    template <int kRows>
    void add(Sum* s, const uint32_t* const* x, const ptrdiff_t* tap, ptrdiff_t at) const {
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        const typename V::Fours v = V::fours(reinterpret_cast<const uint8_t*>(x[0] + tap[j] + at));
#pragma GCC unroll 2
        for (int r = 0; r < kRows; ++r) s[r] = V::dot(s[r], v, w[r][j]);
      }
    }
  };
};

// Destination of a block's numbers: y is the first number, rows are `row` apart, pixels are `pixel` apart.
template <class Y>
struct DepthwiseOutputs {
  Y* y;
  ptrdiff_t row, pixel;
};
template <class Y, class Row, class Pixel>
DepthwiseOutputs(Y*, Row, Pixel) -> DepthwiseOutputs<Y>;

// Makes the sums of a block. to.channels(k) returns the taker of kLanes channels from k on: put(y, sum), or put(y,
// sum, lanes).
template <class V, class Terms>
struct DepthwiseSumsOf {
  using Number = typename Terms::Number;
  using Sum = typename Terms::Sum;

  const DepthwiseTiling& t;
  int kernel_h, rows, columns;         // rows and columns of a window; `rows` is its number of rows in scratch
  const Number* const* table;          // [rows of the block][rows]; if kOwnWeights [rows of the block / shared][rows]
  const int32_t* taps;                 // [columns]
  const typename Terms::Start* start;  // [width]
  const Number* weights;               // [rows][columns][width], or `shared` such arrays

  template <class To, class Y>
  [[gnu::noinline]] void run(const DepthwiseBlock& block, const To& to, const DepthwiseOutputs<Y>& at) const {
    const bool is_three = kernel_h == 3 && columns == 3;
    const int end = t.flat ? t.width : block.channels;
    const Steps steps = {t.x_step, t.flat ? t.width : at.pixel, at.row};
    for (int first = 0; first < end; first += V::kLanes) {
      const Vectors vectors = vectors_of(first, block);
      if (vectors.full + vectors.partial == 0) return;
      const auto finish = to.channels(block.k + first);
      if (is_three) three(block.rows, first, block.k, vectors, finish, at.y + first, steps);
      else any(block.rows, first, block.k, vectors, finish, at.y + first, steps);
    }
  }

 private:
  // The vectors of the same channels in a row of y: `full` whole ones, then one with only `lanes` numbers.
  struct Vectors {
    int full, partial, lanes;
  };
  Vectors vectors_of(int first, const DepthwiseBlock& block) const {
    if (!t.flat) {
      const int lanes = V::most(block.channels - first);
      if (lanes == V::kLanes) return {block.columns, 0, 0};
      return {0, block.columns, lanes};
    }
    const int numbers = block.columns * t.channels - first;
    const int full = numbers >= V::kLanes ? (numbers - V::kLanes) / t.width + 1 : 0, rest = numbers - full * t.width;
    return {full, rest > 0 ? 1 : 0, rest};
  }

  // In the functions below, vectors begin at `first` of a row in scratch, and at k + first in the table.
  struct Steps {  // from vector to vector, and from row to row of y
    ptrdiff_t x, y, row;
  };

  template <class Finish, class Y>
  void three(int block_rows, int first, int k, const Vectors at, const Finish& to, Y* y, const Steps& by) const {
    const Finish finish = to;  // copies, because stores of codes may alias any object that is not local
    const Vectors vectors = at;
    const Steps steps = by;
    const typename Terms::Three window(weights + k + first, t.width, t.shared);
    const Sum from = Terms::start(start + k + first);
    const ptrdiff_t tap[3] = {first + taps[0], first + taps[1], first + taps[2]};
    const int shared = t.shared;
    const Number* const* row = table;
    int r = 0;
    for (; r + shared <= block_rows && shared == 2; r += 2, y += 2 * steps.row) {
      line<2>(window, from, row, tap, vectors, finish, y, steps);
      row += Terms::kOwnWeights ? 1 : 6;
    }
    for (; r < block_rows; ++r, y += steps.row, row += Terms::Three::kRows)
      line<1>(window, from, row, tap, vectors, finish, y, steps);
  }
  template <int kRows, class Finish, class Y>
  [[gnu::always_inline]] static void line(const typename Terms::Three& window, Sum from, const Number* const* row,
                                          const ptrdiff_t* tap, const Vectors& vectors, const Finish& finish, Y* y,
                                          const Steps& step) {
    constexpr int kPointers = Terms::template kPointers<kRows>;
    const Number* x[kPointers];
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) x[i] = row[i < 3 ? i : i + 2];  // 3: the last row of the second window
    const auto sums = [&](ptrdiff_t at, Sum* s) {
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) s[r] = from;
      window.template add<kRows>(s, x, tap, at);
    };
    Sum s[kRows];
    ptrdiff_t at = 0;
    for (int v = 0; v < vectors.full; ++v, at += step.x, y += step.y) {
      sums(at, s);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) finish.put(y + r * step.row, s[r]);
    }
    for (int v = 0; v < vectors.partial; ++v, at += step.x, y += step.y) {
      sums(at, s);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) finish.put(y + r * step.row, s[r], vectors.lanes);
    }
  }

  template <class Finish, class Y>
  void any(int block_rows, int first, int k, const Vectors& vectors, const Finish& finish, Y* y,
           const Steps& steps) const {
    for (int r = 0; r < block_rows; ++r, y += steps.row) {
      const bool own = Terms::kOwnWeights;
      const Number* const* row = table + (own ? r / t.shared : r) * rows;
      const Number* const w = weights + k + first + (own ? r % t.shared : 0) * rows * columns * t.width;
      ptrdiff_t at = 0;
      Y* to = y;
      int v = 0;
      for (; v + 4 <= vectors.full; v += 4, at += 4 * t.x_step) {
        Sum sums[4];
        some<4>(row, w, start + k + first, first + at, sums);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i, to += steps.y) finish.put(to, sums[i]);
      }
      for (; v < vectors.full + vectors.partial; ++v, at += t.x_step, to += steps.y) {
        Sum sum[1];
        some<1>(row, w, start + k + first, first + at, sum);
        if (v < vectors.full) finish.put(to, sum[0]);
        else finish.put(to, sum[0], vectors.lanes);
      }
    }
  }
  template <int kCount>
  [[gnu::noinline]] void some(const Number* const* row, const Number* w, const typename Terms::Start* from,
                              ptrdiff_t at, Sum* to) const {
    const ptrdiff_t step = t.x_step;
    Sum sums[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sums[v] = Terms::start(from);
    for (int i = 0; i < rows; ++i) {
      const Number* const line = row[i] + at;
      for (int j = 0; j < columns; ++j, w += t.width) {
        const typename Terms::Weights weight = Terms::weights(w);
#pragma GCC unroll 4
        for (int v = 0; v < kCount; ++v) sums[v] = Terms::add(sums[v], line + taps[j] + v * step, weight);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) to[v] = sums[v];
  }
};

// ---- Takers of sums.

template <class V>
struct SumsToScratch {
  const SumsToScratch& channels(int) const { return *this; }
  template <class T, class Sum>
  void put(T* to, Sum sum) const {
    V::store(to, sum);
  }
  template <class T, class Sum>
  void put(T* to, Sum sum, int lanes) const {
    V::store(to, sum, lanes);
  }
};
template <class V>
struct ClampedReals {
  typename V::F low, high;

  const ClampedReals& channels(int) const { return *this; }
  template <class T>
  void put(T* to, typename V::F sum) const {
    V::store(to, V::min(high, V::max(low, sum)));
  }
  template <class T>
  void put(T* to, typename V::F sum, int lanes) const {
    V::store(to, V::min(high, V::max(low, sum)), lanes);
  }
};
template <class V, class Table, class Codes, bool kClamps>
struct RequantizedCodes {
  const Table& table;
  int zero;
  ClampRange range;

  struct Channels {
    Codes codes;
    typename V::I low, high;

    typename V::I clamped(typename V::I sum) const {
      if constexpr (kClamps) return V::max(low, V::min(high, codes(sum)));
      else return codes(sum);
    }
    void put(int8_t* to, typename V::I sum) const { V::store(to, clamped(sum)); }
    void put(int8_t* to, typename V::I sum, int lanes) const { V::store(to, clamped(sum), lanes); }
  };
  Channels channels(int k) const { return {Codes(table, k, zero), V::set(range.low), V::set(range.high)}; }
};

}  // namespace nacre::inline NACRE_ISA
