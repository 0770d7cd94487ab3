// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/float8_codes.h"
#include "engine/kernels/fast/fused_sums.h"
#include "engine/kernels/fast/matmul/decoded_tiles.h"

namespace nacre::inline NACRE_ISA {

// Writes the clamped sums start_k + sum_i x_ri w_ki of this part to y, in float32.
template <class V, class O, int kLanes, class T, class W>
void real_sums(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start, const Pieces& scratch,
               const Part& part, const Clamp& clamp, float* y) {
  const ProductSizes s = sizes_of(matmul.op, 1);
  const int channels = s.out * s.groups;
  const ptrdiff_t panel = ptrdiff_t(s.length) * kLanes;
  each_block<V, float>(
      matmul, x, scratch, part, T(0.0f),
      [&](const float* rows, const TileRows& shape, int count, int first, int group, int column, int columns) {
        const int k = group * s.out + column;
        const RealProduct<V, W> product = {
            columns, w + k / kLanes * panel, panel, start + k, low_of(clamp), high_of(clamp), kLanes, nullptr, s.rows};
        product.run(rows, shape, count, y + ptrdiff_t(first) * channels + k, channels);
      });
}

// Calls f(sums [rows][columns], rows, columns, first row, first channel) for each tile.
template <class V, class O, int kLanes, class T, class W, class F>
void each_real_tile(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start, const Args& args,
                    const Pieces& scratch, const F& f) {
  const ProductSizes s = sizes_of(matmul.op, 1);
  const ptrdiff_t panel = ptrdiff_t(s.length) * kLanes;
  in_parts_behind(matmul, args, scratch, false, [&](const Part& part, Pieces mine) {
    float* const sums = mine.take<float>(matmul.sum_numbers(matmul.op, s, kFloats));
    const int at_once = matmul.sum_columns(matmul.sum_rows(matmul.op, s, kFloats), s.out);
    float* decoded = nullptr;
    if constexpr (!std::is_same_v<W, float>)
      if (const size_t numbers = matmul.decoded_numbers(s); numbers > 0) decoded = mine.take<float>(numbers);
    each_block<V, float>(
        matmul, x, mine, part, T(0.0f),
        [&](const float* rows, const TileRows& shape, int count, int first, int group, int column, int columns) {
          for (int c = 0; c < columns; c += at_once) {
            const int k = group * s.out + column + c, some = columns - c < at_once ? columns - c : at_once;
            const RealProduct<V, W> product = {
                some, w + k / kLanes * panel, panel, start + k, low_of({}), high_of({}), kLanes, decoded, s.rows};
            product.run(rows, shape, count, sums, some);
            f(sums, count, some, first, k);
          }
        });
  });
}
// Calls f(sums, columns, index into y, row, channel) for runs of sums along the columns of a row. kAlike says that f
// does the same for all rows and channels. Whole rows that follow each other are then one run.
template <class V, bool kAlike = false, class O, int kLanes, class T, class W, class F>
void each_real_block(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start, const Args& args,
                     const Pieces& scratch, const F& f) {
  const ProductSizes s = sizes_of(matmul.op, 1);
  const int channels = s.out * s.groups;
  each_real_tile<V>(matmul, x, w, start, args, scratch,
                    [&](const float* sums, int rows, int columns, int first, int k) {
                      if (kAlike && columns == channels) return f(sums, rows * columns, first * channels, first, 0);
                      for (int r = 0; r < rows; ++r)
                        f(sums + r * columns, columns, (first + r) * channels + k, first + r, k);
                    });
}
// Stores y = T(clamp(sum)).
template <class V, class O, int kLanes, class T, class W>
void each_clamped_sum(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start, const Args& args,
                      const Pieces& scratch, T* y) {
  const auto put = scaled_sums<V>(matmul.op.epilogue, SumScale::kNone, static_cast<const float*>(nullptr),
                                  Optional<const T>{nullptr});
  each_real_block<V, true>(matmul, x, w, start, args, scratch,
                           [&](const float* sums, int columns, int i, int, int k) { put(sums, columns, k, y + i); });
}

// Calls finish(sums, rows, vectors, first row, first channel, end of the channels) for each tile of products of
// groups.
template <class V, class D, class O, int kLanes, class Finish>
void each_tile_of(const FastMatmul<O, kLanes>& matmul, const XOf<D>* x, const typename D::W* w,
                  const typename D::Sum* start, XOf<D> padding, const Args& args, const Pieces& scratch,
                  const Finish& finish) {
  constexpr Numbers kNumbers = kNumbersOf<typename D::X>;
  const ProductSizes s = sizes_of(matmul.op, kNumbers.group);
  const ptrdiff_t panel = ptrdiff_t(matmul.row_step(s.length, kNumbers)) * kLanes;
  in_parts_behind(matmul, args, scratch, D::kGroup == 4 && V::kDotWide, [&](const Part& part, const Pieces& mine) {
    typename BlocksOf<V>::Type blocks;
    each_block<V, typename D::X>(
        matmul, x, mine, part, padding,
        [&](const typename D::X* rows, const TileRows& shape, int count, int first, int group, int column,
            int columns) {
          const int k = group * s.out + column;
          const DotProduct<V, D> product = {columns, w + k / kLanes * panel, panel, start + k, blocks, s.rows};
          product.run(rows, shape, count, [&](const typename D::Sum* sums, int tile_rows, int vectors, int row, int c) {
            finish(sums, tile_rows, vectors, first + row, k + c, k + columns);
          });
        });
  });
}
template <class V, class O, int kLanes, class Finish>
void each_dot_tile(const FastMatmul<O, kLanes>& matmul, const int8_t* x, const int8_t* w, const int32_t* start,
                   int8_t padding, const Args& args, const Pieces& scratch, const Finish& finish) {
  each_tile_of<V, CodeDots<V>>(matmul, x, w, start, padding, args, scratch, finish);
}

// Calls f(sums, columns, index into y, row, channel) for runs of sums, made from float32 or from pairs. With kAlike f
// must do the same for all rows and channels.
template <class V, int kGroup, bool kAlike, class O, int kLanes, class T, class W, class F>
void each_sum_row(const FastMatmul<O, kLanes>& matmul, const T* x, const W* w, const float* start, const Args& args,
                  const Pieces& scratch, const F& f) {
  if constexpr (kGroup == 1) {
    each_real_block<V, kAlike>(matmul, x, w, start, args, scratch, f);
  } else {
    const int channels = sizes_of(matmul.op, kGroup).out * sizes_of(matmul.op, kGroup).groups;
    const auto finish = [&](const float* sums, int rows, int vectors, int first, int channel, int end) {
      const int left = end - channel, columns = left < vectors * kLanes ? left : vectors * kLanes;
      for (int r = first; r < first + rows; ++r, sums += DotProduct<V, PairDots<V>>::kStep)
        f(sums, columns, r * channels + channel, r, channel);
    };
    if constexpr (std::is_same_v<W, Bfloat16>)
      each_tile_of<V, PairDots<V>>(matmul, x, w, start, T(0.0f), args, scratch, finish);
    else each_decoded_tile<V>(matmul, x, w, start, args, scratch, finish);
  }
}

template <class O, int kLanes, class T, int kGroup>
void RealForm<O, kLanes, T, kGroup>::run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w, Optional<const T>,
                                         T* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  const Clamp clamp = this->op.epilogue.clamp;
  if constexpr (std::is_same_v<T, float>)
    in_parts_behind(*this, args, scratch, false, [&](const Part& part, const Pieces& mine) {
      real_sums<V>(*this, x, w.data, start, mine, part, clamp, y);
    });
  else {
    const auto put = scaled_sums<V>(this->op.epilogue, SumScale::kNone, static_cast<const float*>(nullptr),
                                    Optional<const T>{nullptr});
    each_sum_row<V, kGroup, true>(
        *this, x, w.data, start, args, scratch,
        [&](const float* sums, int columns, int i, int, int k) { put(sums, columns, k, y + i); });
  }
}

// Stores y = Y(T(clamp(s))). Without the fused cast, the first step would round to T and store.
template <class V, class T, class Y>
inline void put_cast_sums(const float* sums, int columns, typename V::F low, typename V::F high, Y* y) {
  each_vector<V>(columns, [&](int c, auto n) {
    const typename V::F v = V::min(high, V::max(low, load<V>(sums + c, n)));
    store<V>(y + c, rounded_to<V, T>(v), n);
  });
}
template <class O, int kLanes, class T, class Y, int kGroup>
void CastForm<O, kLanes, T, Y, kGroup>::run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w,
                                            Optional<const T>, Y* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  const Clamp clamp = this->op.epilogue.clamp;
  const V::F low = V::set(low_of(clamp)), high = V::set(high_of(clamp));
  each_sum_row<V, kGroup, true>(
      *this, x, w.data, start, args, scratch,
      [&](const float* sums, int columns, int i, int, int) { put_cast_sums<V, T>(sums, columns, low, high, y + i); });
}

template <class O, int kLanes, class T, int kGroup>
void FusedForm<O, kLanes, T, kGroup>::run(const T* x, Packed<const T, kGroupLayout<kLanes, kGroup>> w,
                                          Optional<const T>, Optional<const T> residual, T* y, const Args& args) const {
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  using V = Vector;
  const FusedSums<V, T> put(this->op.epilogue.clamp, {nullptr}, residual);
  if constexpr (kGroup == 1) {
    each_real_block<V, true>(*this, x, w.data, start, args, scratch,
                             [&](const float* sums, int n, int i, int, int k) { put(sums, n, k, i, y); });
  } else {
    using Tiles = DotProduct<V, PairDots<V>>;
    static_assert(Tiles::kTallRows <= put.kMostRows && Tiles::kStep <= put.kMostColumns);
    const ProductSizes s = sizes_of(this->op, kGroup);
    const int channels = s.out * s.groups;
    each_tile_of<V, PairDots<V>>(*this, x, w.data, start, T(0.0f), args, scratch,
                                 [&](const float* sums, int rows, int vectors, int first, int channel, int end) {
                                   const int n = end - channel < vectors * kLanes ? end - channel : vectors * kLanes;
                                   put.tile(sums, Tiles::kStep, rows, n, first * channels + channel, channels, y);
                                 });
  }
}

inline float* zeros(Pieces& scratch, int count) {
  auto* const start = scratch.take<float>(size_t(count));
  for (int i = 0; i < count; ++i) start[i] = 0;
  return start;
}

template <class O, int kLanes, class T, int kGroup>
void WeightOnlyForm<O, kLanes, T, kGroup>::run(const T* x, Packed<const int8_t, kGroupLayout<kLanes, kGroup>> w,
                                               Optional<const T> b, const float* scale, T* y, WordAt<O::kForm> form,
                                               const Args& args) const {
  Pieces scratch = {args.scratch.data()};
  const float* const start = zeros(scratch, this->padded());
  const bool divides = form.value == uint32_t(ScaleForm::kReciprocal);
  const auto put = scaled_sums<Vector>(this->op.epilogue, divides ? SumScale::kDivided : SumScale::kTimes, scale, b);
  each_sum_row<Vector, kGroup, false>(*this, x, w.data, start, args, scratch,
                                      [&](const float* sums, int n, int i, int, int k) { put(sums, n, k, y + i); });
}

// Returns the number of rows of y that share one x_scale: 1 for dense, the pixels of a sample for conv2d.
inline int rows_of_scale(const Dense&) { return 1; }
inline int rows_of_scale(const Conv2d& op) { return op.window.h.out * op.window.w.out; }

template <class O, int kLanes, class T, int kGroup>
void Float8Form<O, kLanes, T, kGroup>::run(const Float8E4M3* x,
                                           Packed<const Float8E4M3, kGroupLayout<kLanes, kGroup>> w,
                                           Optional<const T> b, const float* scale, PerRow<const float> x_scale, T* y,
                                           const Args& args) const {
  Pieces scratch = {args.scratch.data()};
  const float* const start = zeros(scratch, this->padded());
  const int per_scale = rows_of_scale(this->op);
  const auto put = scaled_sums<Vector>(this->op.epilogue, SumScale::kTimes, scale, b);
  each_sum_row<Vector, kGroup, false>(
      *this, x, w.data, start, args, scratch,
      [&](const float* sums, int n, int i, int r, int k) { put(sums, n, k, y + i, x_scale[r / per_scale]); });
}

template <class O, int kLanes, int kGroup>
void Float8QuantizedForm<O, kLanes, kGroup>::run(const Float8E4M3* x,
                                                 Packed<const Float8E4M3, kGroupLayout<kLanes, kGroup>> w,
                                                 Optional<const float> b, const float* scale,
                                                 PerRow<const float> x_scale, const float* y_scale, Float8E4M3* y,
                                                 const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const float* const start = zeros(scratch, this->padded());
  const ProductSizes s = sizes_of(this->op, 1);
  const int per_scale = rows_of_scale(this->op), channels = s.out * s.groups;
  const Float8Sums<V> put(this->op.epilogue, scale, b, y_scale[0]);
  // Finishes rows of sums that are `step` apart.
  const auto finish = [&](const float* sums, int step, int rows, int columns, int first, int k) {
    put(
        sums, step, rows, columns, k, [&](int r) { return x_scale[(first + r) / per_scale]; },
        y + ptrdiff_t(first) * channels + k, channels);
  };
  if constexpr (kGroup == 1) {
    each_real_tile<V>(*this, x, w.data, start, args, scratch,
                      [&](const float* sums, int rows, int columns, int first, int k) {
                        finish(sums, columns, rows, columns, first, k);
                      });
  } else {
    each_decoded_tile<V>(*this, x, w.data, start, args, scratch,
                         [&](const float* sums, int rows, int vectors, int first, int channel, int end) {
                           const int left = end - channel, columns = left < vectors * kLanes ? left : vectors * kLanes;
                           finish(sums, DotProduct<V, PairDots<V>>::kStep, rows, columns, first, channel);
                         });
  }
}

template <class O, int kLanes, int kOffset, Rounding kRounding>
void Int8Form<O, kLanes, kOffset, kRounding>::run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w,
                                                  Optional<const int32_t>, const Stored*, int8_t* y,
                                                  const Args& args) const {
  using V = Vector;
  static_assert(kOffset == V::kDotOffset && kLanes == V::kLanes);
  const ProductSizes s = sizes_of(this->op, kCodes.group);
  Pieces scratch = {args.scratch.data()};
  const Table table = {reinterpret_cast<int32_t*>(table_of(*this, args, scratch)), this->padded()};
  const Requantizer<V, kRounding> requantize(table, this->op.epilogue, y, s.out * s.groups);
  each_dot_tile<V>(*this, x, w.data, table.row(0), int8_t(this->op.x_zero), args, scratch,
                   [&](const int32_t* sums, int rows, int vectors, int first, int channel, int end) {
                     requantize(sums, DotProduct<V, CodeDots<V>>::kStep, rows, vectors, first, channel, end);
                   });
}

template <int kLanes, int kOffset>
void Int8ToInt16Form<kLanes, kOffset>::run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w,
                                           Optional<const int32_t>, const int32_t*, int16_t* y,
                                           const Args& args) const {
  using V = Vector;
  const int channels = this->op.out;
  Pieces scratch = {args.scratch.data()};
  const typename Int8ToInt16Form::Table table = {reinterpret_cast<int32_t*>(table_of(*this, args, scratch)),
                                                 this->padded()};
  const bool quick = table.quick();
  each_dot_tile<V>(*this, x, w.data, table.row(0), int8_t(this->op.x_zero), args, scratch,
                   [&](const int32_t* sums, int rows, int vectors, int first, int channel, int end) {
                     for (int v = 0; v < vectors; ++v, channel += kLanes, sums += kLanes) {
                       int16_t* const to = y + ptrdiff_t(first) * channels + channel;
                       const auto put = [&](const auto& codes) {
                         for (int r = 0; r < rows; ++r)
                           store_words<V>(to + ptrdiff_t(r) * channels,
                                          codes(V::load_integers(sums + r * DotProduct<V, CodeDots<V>>::kStep)),
                                          V::most(end - channel));
                       };
                       if (quick) put(QuickCodes<V>(table, channel, 0));
                       else put(ChannelCodes<V, Rounding::kDouble>(table, channel, 0));
                     }
                   });
}

template <class O, int kLanes, int kOffset, class T>
void DynamicForm<O, kLanes, kOffset, T>::run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w,
                                             Optional<const T> b, const T* scale, PerRow<const T> x_scale, T* y,
                                             const Args& args) const {
  using V = Vector;
  const ProductSizes s = sizes_of(this->op, kCodes.group);
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const int32_t*>(table_of(*this, args, scratch));
  const int per_scale = rows_of_scale(this->op), channels = s.out * s.groups;
  const V::F low = V::set(low_of(this->op.epilogue.clamp)), high = V::set(high_of(this->op.epilogue.clamp));
  const bool per_channel = this->op.epilogue.per_channel;
  const auto round = [](V::F v) { return rounded_to<V, T>(v); };
  // Stores the sums of rows from `first` on and of the channels of one vector.
  const auto put = [&](const int32_t* sums, int rows, int first, int k, int count) {
    const V::F c = per_channel ? V::load(scale + k, count) : V::set(float(scale[0]));
    const V::F bias = b ? V::load(b.data + k, count) : V::set(0.0f);
    for (int r = first; r < first + rows; ++r, sums += DotProduct<V, CodeDots<V>>::kStep) {
      const V::F divisor = round(V::mul(c, V::set(float(x_scale[r / per_scale]))));
      V::F v = round(V::div(round(V::to_float(V::load_integers(sums))), divisor));
      if (b) v = round(V::add(v, bias));
      V::store(y + r * channels + k, V::min(high, V::max(low, v)), count);
    }
  };
  each_dot_tile<V>(*this, x, w.data, start, 0, args, scratch,
                   [&](const int32_t* sums, int rows, int vectors, int first, int channel, int end) {
                     for (int v = 0; v < vectors; ++v, channel += kLanes)
                       put(sums + v * kLanes, rows, first, channel, V::most(end - channel));
                   });
}

// The functions below are for hybrid steps: the rows that share one x_scale and x_zero (a sample) are run as one op.
inline int samples_of(const Dense& op) { return op.rows / op.rows_per_batch; }
inline int samples_of(const Conv2d& op) { return op.batch; }
inline Dense one_sample(Dense op) {
  op.rows = op.rows_per_batch;
  return op;
}
inline Conv2d one_sample(Conv2d op) {
  op.batch = 1;
  return op;
}
inline int numbers_of(const Dense& op) { return op.rows * op.in; }
inline int numbers_of(const Conv2d& op) { return op.batch * op.window.h.in * op.window.w.in * op.in_c; }

// The sums are sum (x - z) w = sum x w - z sum w.
template <class O, int kLanes, int kOffset>
void HybridForm<O, kLanes, kOffset>::run(const int8_t* x, Packed<const int8_t, kDotLayout<kLanes>> w,
                                         Optional<const float> b, const float* scale, const float* x_scale,
                                         const int32_t* x_zeros, float* y, const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const int32_t*>(table_of(*this, args, scratch));
  const int32_t* const weight_sums = start + this->padded();
  const typename V::F low = V::set(low_of(this->op.epilogue.clamp)), high = V::set(high_of(this->op.epilogue.clamp));
  const FastMatmul<O, kLanes> one = {one_sample(this->op)};
  const ProductSizes s = sizes_of(one.op, kCodes.group);
  const int channels = s.out * s.groups;
  for (int n = 0; n < samples_of(this->op); ++n, x += numbers_of(one.op), y += ptrdiff_t(s.rows) * channels) {
    const int32_t zero = x_zeros[n];
    // Stores the sums of rows from `first` on and of the channels of one vector.
    const auto put = [&](const int32_t* sums, int rows, int first, int k, int count) {
      const typename V::I shift = V::mul(V::set(zero), V::load_integers(weight_sums + k));
      const bool per_channel = this->op.epilogue.per_channel;
      const typename V::F c = V::mul(V::set(x_scale[n]), per_channel ? V::load(scale + k, count) : V::set(scale[0]));
      const typename V::F bias = b ? V::load(b.data + k, count) : V::set(0.0f);
      for (int r = first; r < first + rows; ++r, sums += DotProduct<V, CodeDots<V>>::kStep) {
        const typename V::F v = V::mul(V::to_float(V::sub(V::load_integers(sums), shift)), c);
        const typename V::F sum = b ? V::add(v, bias) : v;
        V::store(y + r * channels + k, V::min(high, V::max(low, sum)), count);
      }
    };
    each_dot_tile<V>(one, x, w.data, start, int8_t(zero), args, scratch,
                     [&](const int32_t* sums, int rows, int vectors, int first, int channel, int end) {
                       for (int v = 0; v < vectors; ++v, channel += kLanes)
                         put(sums + v * kLanes, rows, first, channel, V::most(end - channel));
                     });
  }
}

}  // namespace nacre::inline NACRE_ISA
