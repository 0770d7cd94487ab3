// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/gradient/bfloat16_pairs.h"
#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/matmul/run.h"
#include "engine/kernels/fast/outer_product.h"

namespace nacre::inline NACRE_ISA {

// Computes dx = dy w, numbers of 16 bits a block of rows at a time. `all_rows` is the number of rows of the whole
// product; s may have fewer.
template <class V, class T>
void matrix_gradient_x(const MatrixSizes& s, int all_rows, const T* dy, const T* w, T* dx, Pieces scratch) {
  constexpr bool kConverted = !std::is_same_v<T, float>;
  const int whole = s.in / V::kLanes * V::kLanes, block = kConverted ? std::min(s.rows, kGradientRows) : s.rows;
  float* const start = scratch.take<float>(size_t(rounded_up(s.in, V::kLanes)));
  fill_numbers(start, 0.0f, rounded_up(s.in, V::kLanes));
  const RealProduct<V, T> product = {whole, w, V::kLanes, start, low_of({}), high_of({}), s.in, nullptr, all_rows};
  RealProduct<V, T> rest = product;
  rest.out = s.in - whole;
  rest.step = V::kLanes;
  if (whole < s.in) {  // the last columns, where a vector would read past w
    T* const panel = scratch.take<T>(size_t(s.out) * V::kLanes);
    for (int k = 0; k < s.out; ++k)
      for (int i = whole; i < s.in; ++i) panel[k * V::kLanes + i - whole] = w[k * s.in + i];
    rest.w = panel;
  }
  const auto multiply = [&](const float* rows, int count, float* y) {
    const TileRows shape = {s.out, 1, s.out, 0};
    product.run(rows, shape, count, y, s.in);
    if (whole < s.in) rest.run(rows, shape, count, y + whole, s.in);
  };
  if constexpr (!kConverted) {
    multiply(dy, s.rows, dx);
  } else {
    float* const rows = scratch.take<float>(size_t(block) * size_t(s.out));
    float* const sums = scratch.take<float>(size_t(block) * size_t(s.in));
    for (int r = 0; r < s.rows; r += block) {
      const int count = std::min(block, s.rows - r);
      put_numbers<V>(rows, dy + ptrdiff_t(r) * s.out, count * s.out);
      multiply(rows, count, sums);
      store_numbers<V>(dx + ptrdiff_t(r) * s.in, sums, count * s.in);
    }
  }
}

// Computes dw += dy^T x, a block of terms at a time. `step` is the distance from a row of dy to the next; s may have
// only some of its columns.
template <class V, class T>
void matrix_gradient_w(const MatrixSizes& s, ptrdiff_t step, const T* dy, const T* x, float* dw, Pieces scratch) {
  constexpr bool kInPlace = std::is_same_v<T, float>;
  const int block = std::min(s.rows, kGradientTerms);
  float* const panel = scratch.take<float>(size_t(block) * 2 * V::kLanes);
  const OuterProduct<V> product = {s.out, s.in, kInPlace ? step : s.out, s.in, s.in, panel};
  [[maybe_unused]] float *a = nullptr, *b = nullptr;
  if constexpr (!kInPlace) {
    a = scratch.take<float>(size_t(block) * size_t(s.out));
    b = scratch.take<float>(size_t(block) * size_t(rounded_up(s.in, V::kLanes)));
  }
  for (int r = 0; r < s.rows; r += block) {
    const int count = std::min(block, s.rows - r);
    const T *dy_rows = dy + r * step, *x_rows = x + ptrdiff_t(r) * s.in;
    if constexpr (kInPlace) {
      product.run(dy_rows, x_rows, count, dw);
    } else {
      for (int i = 0; i < count; ++i) put_numbers<V>(a + ptrdiff_t(i) * s.out, dy_rows + i * step, s.out);
      put_numbers<V>(b, x_rows, count * s.in);
      product.run(a, b, count, dw);
    }
  }
}

// Compute dx or dw, with pairs of bfloat16 if kGroup is 2 and rows are many. The workers share the rows of the result.
template <class V, int kGroup, class T>
void any_gradient_x(const MatrixSizes& s, const T* dy, const T* w, T* dx, const Args& args) {
  const uint64_t each = uint64_t(s.in) * uint64_t(s.out);
  in_runs(args, s.rows, each, [&](int first, int count, std::span<std::byte> memory) {
    const MatrixSizes mine = {count, s.in, s.out};
    const T* const from = dy + ptrdiff_t(first) * s.out;
    T* const to = dx + ptrdiff_t(first) * s.in;
    if constexpr (kGroup == 2)
      if (s.takes_pairs()) return pair_gradient_x<V>(mine, s.rows, from, w, to, Pieces{memory.data()});
    matrix_gradient_x<V>(mine, s.rows, from, w, to, Pieces{memory.data()});
  });
}
template <class V, int kGroup, class T>
void any_gradient_w(const MatrixSizes& s, const T* dy, const T* x, float* dw, const Args& args) {
  const uint64_t each = uint64_t(s.in) * uint64_t(s.rows);
  in_runs(args, s.out, each, [&](int first, int count, std::span<std::byte> memory) {
    const MatrixSizes mine = {s.rows, s.in, count};
    float* const to = dw + ptrdiff_t(first) * s.in;
    if constexpr (kGroup == 2)
      if (s.takes_pairs()) return pair_gradient_w<V>(mine, s.out, dy + first, x, to, Pieces{memory.data()});
    matrix_gradient_w<V>(mine, s.out, dy + first, x, to, Pieces{memory.data()});
  });
}

template <int kLanes, class T, int kGroup>
void DenseGradientXForm<kLanes, T, kGroup>::run(const T* dy, const T* w, T* dx, const Args& args) const {
  any_gradient_x<Vector, kGroup>(matrix_of(op), dy, w, dx, args);
}

template <int kLanes, class T, int kGroup>
void DenseGradientWForm<kLanes, T, kGroup>::run(const T* dy, const T* x, Update<float> dw, const Args& args) const {
  any_gradient_w<Vector, kGroup>(matrix_of(op), dy, x, dw.data, args);
}

// Sums each block of kBlockRows rows first, as the reference does, and adds the sums of the blocks.
template <int kLanes, class T>
void BiasGradientForm<kLanes, T>::run(const T* dy, Update<float> sum, const Args&) const {
  using V = Vector;
  constexpr int kVectors = 4, kWidth = kVectors * V::kLanes;
  for (int r = 0; r < op.rows; r += kBlockRows) {
    const int end = std::min(op.rows, r + kBlockRows);
    for (int c = 0; c < op.columns; c += kWidth) {
      const int vectors = std::min(kVectors, ceil_div(op.columns - c, V::kLanes));
      const auto count = [&](int v) { return V::most(op.columns - c - v * V::kLanes); };
      typename V::F part[kVectors];
      for (auto& v : part) v = V::set(0.0f);
      const T* d = dy + ptrdiff_t(r) * op.columns + c;
      for (int i = r; i < end; ++i, d += op.columns) {
        if (op.columns - c >= kWidth) {
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) part[v] = V::add(part[v], V::load(d + v * V::kLanes));
        } else {
          for (int v = 0; v < vectors; ++v) part[v] = V::add(part[v], V::load(d + v * V::kLanes, count(v)));
        }
      }
      for (int v = 0; v < vectors; ++v) {
        float* const to = sum.data + c + v * V::kLanes;
        V::store(to, V::add(V::load(to, count(v)), part[v]), count(v));
      }
    }
  }
}

// The pixels of x of one phase (Reach), their rows of gathered dy, and the part of w that multiplies these rows.
template <int kLanes, class T, int kGroup>
struct Conv2dGradientXForm<kLanes, T, kGroup>::Phase {
  using V = Vector;

  const Conv2dGradientXForm& op;
  int group, first_h, first_w;  // the first pixel
  Reach h, w;
  int high, wide;  // pixels along both axes

  static int count(const WindowAxis& axis, int phase) {
    return phase < axis.in ? (axis.in - 1 - phase) / axis.stride + 1 : 0;
  }
  static Phase of(const Conv2dGradientXForm& op, int group, int phase_h, int phase_w) {
    const WindowAxis &h = op.window.h, &w = op.window.w;
    return {op,
            group,
            phase_h,
            phase_w,
            Reach::of(h, phase_h),
            Reach::of(w, phase_w),
            count(h, phase_h),
            count(w, phase_w)};
  }

  int length() const { return h.taps * w.taps * op.group_out; }
  int pixels() const { return op.batch * high * wide; }

  // Packs the weights w_k,tap,c into panels of kLanes channels c; a row of a panel is one (tap, k).
  void pack(const T* weights, float* to) const {
    const T* const from = weights + ptrdiff_t(group) * op.group_out * op.w_channel;
    for (int c = 0; c < op.group_in; c += V::kLanes) {
      const int n = V::most(op.group_in - c);
      for (int i = 0; i < h.taps; ++i)
        for (int j = 0; j < w.taps; ++j) {
          const int tap = (h.first + i * h.period) * op.window.w.kernel + w.first + j * w.period;
          const T* row = from + tap * op.w_column + c;
          for (int k = 0; k < op.group_out; ++k, row += op.w_channel, to += V::kLanes) V::store(to, V::load(row, n));
        }
    }
  }

  // Packs the weights in the order of pack(), but with rows (tap, k) and (tap, k + 1) as pairs.
  template <class Pairs>
  void pack_pairs(const T* weights, T* to) const {
    const T* const from = weights + ptrdiff_t(group) * op.group_out * op.w_channel;
    for (int c = 0; c < op.group_in; c += V::kLanes) {
      const int n = V::most(op.group_in - c);
      for (int i = 0; i < h.taps; ++i)
        for (int j = 0; j < w.taps; ++j) {
          const int tap = (h.first + i * h.period) * op.window.w.kernel + w.first + j * w.period;
          const T* row = from + tap * op.w_column + c;
          for (int k = 0; k < op.group_out; k += 2, row += 2 * op.w_channel, to += 2 * V::kLanes)
            Pairs::put_pairs(to, row, row + op.w_channel, n);
        }
    }
  }

  struct At {
    int n, a, b;  // pixel (first_h + a stride, first_w + b stride) of image n
    void next(const Phase& phase) {
      if (++b < phase.wide) return;
      b = 0;
      if (++a < phase.high) return;
      a = 0;
      ++n;
    }
  };
  At at(int pixel) const { return {pixel / (high * wide), pixel / wide % high, pixel % wide}; }

  template <class X>
  void gather(const T* dy, At at, int rows, X* to) const {
    const int c = op.group_out, out_h = op.window.h.out, out_w = op.window.w.out;
    for (int r = 0; r < rows; ++r, at.next(*this))
      for (int i = 0, y = at.a + h.shift; i < h.taps; ++i, y -= h.back) {
        const bool inside = y >= 0 && y < out_h;
        const T* const row = dy + (ptrdiff_t(at.n) * out_h + (inside ? y : 0)) * out_w * op.out_c + group * c;
        for (int j = 0, x = at.b + w.shift; j < w.taps; ++j, x -= w.back, to += c) {
          if (inside && x >= 0 && x < out_w) put_numbers<V>(to, row + ptrdiff_t(x) * op.out_c, c);
          else fill_numbers<V>(to, T(0.0f), c);
        }
      }
  }

  // Stores rows of sums, `step` apart, as dx of pixels from `at` on, for `count` channels from `channel` on.
  void put(const float* sums, ptrdiff_t step, At at, int rows, int channel, int count, T* dx) const {
    const WindowAxis &in_h = op.window.h, &in_w = op.window.w;
    T* const to = dx + group * op.group_in + channel;
    for (int r = 0; r < rows; ++r, at.next(*this), sums += step) {
      const ptrdiff_t row = ptrdiff_t(at.n) * in_h.in + first_h + at.a * in_h.stride;
      store_numbers<V>(to + (row * in_w.in + first_w + at.b * in_w.stride) * op.in_c, sums, count);
    }
  }
};

template <int kLanes, class T, int kGroup>
void Conv2dGradientXForm<kLanes, T, kGroup>::run(const T* dy, const T* w, T* dx, const Args& args) const {
  if (is_pointwise(*this)) return any_gradient_x<Vector, kGroup>(matrix_of(*this), dy, w, dx, args);
  in_parts(args, work(), [&](Part mine, std::span<std::byte> memory) {
    if constexpr (kGroup == 2)
      if (takes_pairs()) return run_pairs(dy, w, dx, mine, Pieces{memory.data()});
    run_blocks(dy, w, dx, mine, Pieces{memory.data()});
  });
}

template <int kLanes, class T, int kGroup>
void Conv2dGradientXForm<kLanes, T, kGroup>::run_blocks(const T* dy, const T* w, T* dx, Part mine,
                                                        Pieces scratch) const {
  using V = Vector;
  const int columns = rounded_up(group_in, kLanes), most = taps() * group_out, rows = block();
  float* const start = scratch.take<float>(size_t(columns));
  float* const panels = scratch.take<float>(size_t(columns) * size_t(most));
  float* const gathered = scratch.take<float>(size_t(rows) * size_t(most));
  float* const sums = scratch.take<float>(size_t(rows) * size_t(group_in));
  fill_numbers(start, 0.0f, columns);
  for (int group = 0; group < in_c / group_in; ++group)
    for (int phase = 0; phase < window.h.stride * window.w.stride; ++phase) {
      const Phase part = Phase::of(*this, group, phase / window.w.stride, phase % window.w.stride);
      const int length = part.length();
      part.pack(w, panels);
      const RealProduct<V, float> product = {
          group_in, panels, ptrdiff_t(length) * kLanes, start, low_of({}), high_of({}), kLanes, nullptr, part.pixels()};
      for (int r = 0; r < part.pixels(); r += rows) {
        if (!mine.takes()) continue;
        const int count = std::min(rows, part.pixels() - r);
        part.gather(dy, part.at(r), count, gathered);
        product.run(gathered, TileRows{length, 1, length, 0}, count, sums, group_in);
        part.put(sums, group_in, part.at(r), count, 0, group_in, dx);
      }
    }
}

template <int kLanes, class T, int kGroup>
void Conv2dGradientXForm<kLanes, T, kGroup>::run_pairs(const T* dy, const T* w, T* dx, Part mine,
                                                       Pieces scratch) const {
  using V = Vector;
  using Tiles = DotProduct<V, PairDots<V>>;
  const int columns = rounded_up(group_in, kLanes), most = taps() * group_out, rows = block();
  float* const start = scratch.take<float>(size_t(columns));
  T* const panels = scratch.take<T>(size_t(columns) * size_t(most));
  T* const gathered = scratch.take<T>(size_t(rows) * size_t(most));
  fill_numbers(start, 0.0f, columns);
  typename BlocksOf<V>::Type blocks;
  for (int group = 0; group < in_c / group_in; ++group)
    for (int phase = 0; phase < window.h.stride * window.w.stride; ++phase) {
      const Phase part = Phase::of(*this, group, phase / window.w.stride, phase % window.w.stride);
      const int length = part.length();
      part.template pack_pairs<V>(w, panels);
      const Tiles product = {group_in, panels, ptrdiff_t(length) * kLanes, start, blocks, part.pixels()};
      for (int r = 0; r < part.pixels(); r += rows) {
        if (!mine.takes()) continue;
        const int count = std::min(rows, part.pixels() - r);
        part.gather(dy, part.at(r), count, gathered);
        product.run(gathered, TileRows{length, 1, length, 0}, count,
                    [&](const float* sums, int tile_rows, int vectors, int row, int c) {
                      part.put(sums, Tiles::kStep, part.at(r + row), tile_rows, c,
                               std::min(group_in - c, vectors * kLanes), dx);
                    });
      }
    }
}

template <int kLanes, class T, int kGroup>
void Conv2dGradientWForm<kLanes, T, kGroup>::run(const T* dy, const T* x, Update<float> dw, const Args& args) const {
  const MatrixSizes s = matrix_of(*this);
  if (is_pointwise(*this)) return any_gradient_w<Vector, kGroup>(s, dy, x, dw.data, args);
  const int groups = in_c / group_in;
  const uint64_t each = uint64_t(s.in) * uint64_t(s.rows) * uint64_t(groups);
  in_runs(args, s.out, each, [&](int first, int count, std::span<std::byte> memory) {
    if constexpr (kGroup == 2) run_pairs(dy, x, dw.data, first, count, Pieces{memory.data()});
    else run_blocks(dy, x, dw.data, first, count, Pieces{memory.data()});
  });
}

// Adds the gradients of the weights of output channels first .. first + channels of each group.
template <int kLanes, class T, int kGroup>
void Conv2dGradientWForm<kLanes, T, kGroup>::run_blocks(const T* dy, const T* x, float* dw, int first, int channels,
                                                        Pieces scratch) const {
  using V = Vector;
  const MatrixSizes s = matrix_of(*this);
  const int rows = block(), step = rounded_up(s.in, kLanes);
  float* const panel = scratch.take<float>(size_t(rows) * 2 * kLanes);
  float* const windows = scratch.take<float>(size_t(rows) * size_t(step));
  [[maybe_unused]] float* a = nullptr;
  if constexpr (!std::is_same_v<T, float>) a = scratch.take<float>(size_t(rows) * size_t(out_c));
  const OuterProduct<V> product = {channels, s.in, out_c, step, s.in, panel};
  for (int r = 0; r < s.rows; r += rows) {
    const int count = std::min(rows, s.rows - r);
    const T* const dy_rows = dy + ptrdiff_t(r) * out_c;
    if constexpr (!std::is_same_v<T, float>) put_numbers<V>(a, dy_rows, count * out_c);
    for (int group = 0; group < in_c / group_in; ++group) {
      put_windows<V>(*this, x, r, count, group, windows, step, T(0.0f));
      const int k = group * s.out + first;
      float* const to = dw + ptrdiff_t(k) * s.in;
      if constexpr (std::is_same_v<T, float>) product.run(dy_rows + k, windows, count, to);
      else product.run(a + k, windows, count, to);
    }
  }
}

template <int kLanes, class T, int kGroup>
void Conv2dGradientWForm<kLanes, T, kGroup>::run_pairs(const T* dy, const T* x, float* dw, int first, int channels,
                                                       Pieces scratch) const {
  using V = Vector;
  const MatrixSizes s = matrix_of(*this);
  const int rows = block(), step = rounded_up(s.in, kLanes);
  const auto product = PairOuterProduct<V>::of(channels, s.in, rows, scratch);
  T* const windows = scratch.take<T>(size_t(rows) * size_t(step));
  for (int r = 0; r < s.rows; r += rows) {
    const int count = std::min(rows, s.rows - r);
    for (int group = 0; group < in_c / group_in; ++group) {
      put_windows<V>(*this, x, r, count, group, windows, step, T(0.0f));
      const int k = group * s.out + first;
      product.run(dy + ptrdiff_t(r) * out_c + k, out_c, windows, step, count, dw + ptrdiff_t(k) * s.in);
    }
  }
}

}  // namespace nacre::inline NACRE_ISA
