// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/fused_sums.h"
#include "engine/kernels/fast/groups/forms.h"
#include "engine/kernels/fast/row_major/run.h"

namespace nacre::inline NACRE_ISA {

// Lanes [lane, lane + count) of a vector of channels are of one group. The group's numbers begin at `x` of a pixel.
struct LanesOfGroup {
  int x, lane, count;
};
template <int kLanes>
struct PanelGroups {
  LanesOfGroup of[kLanes];
  int count = 0, lanes = 0;  // number of groups, and of their channels in all

  PanelGroups(const Conv2d& op, int first) {
    for (; lanes < kLanes && first + lanes < op.out_c; ++count) {
      const int group = (first + lanes) / op.group_out, end = (group + 1) * op.group_out - first;
      const int next = end < kLanes ? end : kLanes;
      of[count] = {group * op.group_in, lanes, next - lanes};
      lanes = next;
    }
  }
};

// Stores `value` four times.
inline void repeat(float* to, float value) {
  struct Four {
    float lane [[gnu::vector_size(16)]];
  };
  const Four four = {{value, value, value, value}};
  std::memcpy(to, &four, sizeof four);
}

// Copies rows [top, ..) of x side by side, as forms.h says, with 0 outside x. Each store is a whole vector, or four
// numbers for a small group. The numbers past a group's lanes are stored again later, or lie in the kLanes numbers
// after the last pixel.
template <class V, int kLanes>
[[gnu::noinline]] void spread_band(const Conv2d& op, const float* x, const PanelGroups<kLanes>& groups, int top,
                                   int rows, int columns, float* to) {
  const WindowAxis &h = op.window.h, &w = op.window.w;
  const int pixel = op.group_in * kLanes;
  for (int i = top; i < top + rows; ++i)
    for (int j = -w.before; j < columns - w.before; ++j, to += pixel) {
      if (!h.inside(i) || !w.inside(j) || groups.lanes < kLanes) fill_numbers(to, 0.0f, pixel);
      if (!h.inside(i) || !w.inside(j)) continue;
      const float* const from = x + (ptrdiff_t(i) * w.in + j) * op.in_c;
      for (int c = 0; c < op.group_in; ++c)
        for (int g = 0; g < groups.count; ++g) {
          const LanesOfGroup group = groups.of[g];
          float* const lanes = to + c * kLanes + group.lane;
          if (op.group_out <= 4) repeat(lanes, from[group.x + c]);
          else V::store(lanes, V::set(from[group.x + c]));
        }
    }
}

// Sizes of a window, and distances in e: between pixels of y, and between rows and between columns of the window.
struct GroupTaps {
  int rows, columns, channels;
  ptrdiff_t pixel, row, column;
};
template <class V, int kPixels>
[[gnu::noinline]] void group_tile(const float* e, const GroupTaps& taps, const float* w, float* sums) {
  typename V::F sum[kPixels];
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p) sum[p] = V::set(0.0f);
  for (int i = 0; i < taps.rows; ++i)
    for (int j = 0; j < taps.columns; ++j) {
      const float* at = e + i * taps.row + j * taps.column;
#pragma GCC unroll 1
      for (int c = 0; c < taps.channels; ++c, at += V::kLanes, w += V::kLanes) {
        const typename V::F weights = V::load(w);
#pragma GCC unroll 16
        for (int p = 0; p < kPixels; ++p) sum[p] = V::fma(V::load(at + p * taps.pixel), weights, sum[p]);
      }
    }
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p) V::store(sums + p * V::kLanes, sum[p]);
}

// Calls f(sums, channels, index into y, first channel) for every pixel and vector of channels. w holds rows of
// weights.
template <class V, class W, class F>
void each_group_sum(const Conv2d& op, const float* x, const W* w, const Args& args, const Pieces& scratch, const F& f) {
  constexpr int kLanes = V::kLanes, kPixels = V::kRealRows;
  const WindowAxis &h = op.window.h, &v = op.window.w;
  const GroupBand band = GroupBand::from(op, kLanes);
  const int length = h.kernel * v.kernel * op.group_in, pixel = op.group_in * kLanes;
  const ptrdiff_t row = ptrdiff_t(band.columns) * pixel, used = scratch.at - args.scratch.data();
  const GroupTaps taps = {h.kernel, v.kernel, op.group_in, v.stride * pixel, h.dilation * row, v.dilation * pixel};
  in_parts(args, op.work(), [&](Part part, std::span<std::byte> memory) {
    Pieces mine = {memory.data() + used};
    float* const rows = mine.take<float>(size_t(kLanes) * size_t(length));
    float* const panel = mine.take<float>(size_t(kLanes) * size_t(length));
    float* const e = mine.take<float>(band.floats(op, kLanes) + kLanes);
    float* const sums = mine.take<float>(size_t(v.out) * kLanes);
    const int bands = ceil_div(h.out, band.out_rows);
    for (int k = 0; k < op.out_c; k += kLanes) {
      const int first = part.unit;
      if (!part.any(op.batch * bands)) continue;
      const PanelGroups<kLanes> groups(op, k);
      to_floats<V>(rows, w + ptrdiff_t(k) * length, groups.lanes * length);
      pack_rows<V>(rows, groups.lanes, length, panel);
      for (int unit = 0; unit < op.batch * bands; ++unit) {
        if ((first + unit) % part.count != part.index) continue;
        const int n = unit / bands, top = unit % bands * band.out_rows;
        const int out_rows = band.out_rows < h.out - top ? band.out_rows : h.out - top;
        spread_band<V, kLanes>(op, x + ptrdiff_t(n) * h.in * v.in * op.in_c, groups, h.position(top, 0),
                               GroupBand::rows(op, out_rows), band.columns, e);
        for (int o = 0; o < out_rows; ++o) {
          const float* const from = e + o * h.stride * row;
          int p = 0;
          for (; p + kPixels <= v.out; p += kPixels)
            group_tile<V, kPixels>(from + p * taps.pixel, taps, panel, sums + p * kLanes);
          for (; p < v.out; ++p) group_tile<V, 1>(from + p * taps.pixel, taps, panel, sums + p * kLanes);
          const int at = ((n * h.out + top + o) * v.out) * op.out_c + k;
          for (p = 0; p < v.out; ++p) f(sums + p * kLanes, groups.lanes, at + p * op.out_c, k);
        }
      }
    }
  });
}

// Returns x as float32: x itself, or a copy in scratch.
template <class V, class T>
const float* floats_of(const T* x, int elements, Pieces& scratch) {
  if constexpr (std::is_same_v<T, float>) return x;
  else {
    float* const to = scratch.take<float>(size_t(elements));
    to_floats<V>(to, x, elements);
    return to;
  }
}

template <int kLanes, class T>
void GroupsForm<kLanes, T>::run(const T* x, const T* w, Optional<const T> b, T* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const float* const numbers = floats_of<V>(x, args.operands()[Conv2d::kX].elements(), scratch);
  const auto put = scaled_sums<V>(this->op.epilogue, SumScale::kNone, static_cast<const float*>(nullptr), b);
  each_group_sum<V>(this->op, numbers, w, args, scratch,
                    [&](const float* sums, int n, int i, int k) { put(sums, n, k, y + i); });
}

template <int kLanes, class T>
void FusedGroupsForm<kLanes, T>::run(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y,
                                     const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const float* const numbers = floats_of<V>(x, args.operands()[Conv2d::kX].elements(), scratch);
  const FusedSums<V, T> put(this->op.epilogue.clamp, b, residual);
  each_group_sum<V>(this->op, numbers, w, args, scratch,
                    [&](const float* sums, int n, int i, int k) { put(sums, n, k, i, y); });
}

template <int kLanes, Rounding kRounding>
void CodeGroupsForm<kLanes, kRounding>::run(const int8_t* x, const int8_t* w, Optional<const int32_t> b,
                                            const typename Requant<kRounding>::Stored* scale, int8_t* y,
                                            const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const int elements = args.operands()[Conv2d::kX].elements();
  float* const differences = scratch.take<float>(size_t(elements));
  const V::F zero = V::set(float(this->op.x_zero));
  each_vector<V>(elements, [&](int i, auto n) { store<V>(differences + i, V::sub(load<V>(x + i, n), zero), n); });
  each_group_sum<V>(this->op, differences, w, args, scratch, [&](const float* sums, int n, int i, int k) {
    for (int c = 0; c < n; ++c)
      y[i + c] = this->op.epilogue.template int8<kRounding>(int32_t(sums[c]), b, scale, k + c);
  });
}

}  // namespace nacre::inline NACRE_ISA
