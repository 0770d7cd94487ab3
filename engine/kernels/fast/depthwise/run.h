// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/depthwise/code_pairs.h"
#include "engine/kernels/fast/depthwise/direct.h"
#include "engine/kernels/fast/depthwise/rows.h"
#include "engine/kernels/fast/depthwise/sums.h"
#include "engine/kernels/fast/fused_sums.h"

namespace nacre::inline NACRE_ISA {

// ---- The blocks of a step.

inline int32_t* put_taps(const DepthwiseTiling& t, const WindowAxis& w, Pieces& scratch) {
  auto* const taps = scratch.take<int32_t>(size_t(w.kernel));
  for (int j = 0; j < w.kernel; ++j) taps[j] = t.tap(j, w);
  return taps;
}

// One worker's part of a step: next() moves to the worker's next block and copies its rows, run() makes its sums. The
// memory from scratch.at on is free.
template <class V, class T>
struct RealDepthwiseStep {
  const DepthwiseConv2d& op;
  const T* x;
  const DepthwiseTiling& t;
  Part part;
  Pieces scratch;
  const float** table;
  RealDepthwiseRows<V, T> rows;
  DepthwiseSumsOf<V, RealTerms<V>> sums;
  DepthwiseBlock block = DepthwiseBlock::before();

  [[gnu::noinline]] RealDepthwiseStep(const DepthwiseConv2d& o, const T* from, const std::byte* prepared,
                                      const Part& mine, const Pieces& memory)
      : op(o), x(from), t(*reinterpret_cast<const DepthwiseTiling*>(prepared)), part(mine), scratch(memory),
        table(scratch.take<const float*>(size_t(t.rows) * size_t(op.window.h.kernel))),
        rows(op, t, scratch.take<float>(size_t(t.block_bytes) / sizeof(float)), table),
        sums{t,
             op.window.h.kernel,
             op.window.h.kernel,
             op.window.w.kernel,
             table,
             put_taps(t, op.window.w, scratch),
             reinterpret_cast<const float*>(prepared + kTilingBytes),
             reinterpret_cast<const float*>(prepared + kTilingBytes) + t.width} {}

  [[gnu::noinline]] bool next() {
    const DepthwiseBlock last = block;
    if (!block.next(op, t, part)) return false;
    if (t.direct) return true;
    const Window& w = op.window;
    if (last.rows == 0 || block.v != last.v) rows.begin(block.v);
    if (block.n != last.n || block.v != last.v || block.k != last.k) rows.begin_channels();
    rows.block(x + ptrdiff_t(block.n) * w.h.in * w.w.in * op.in_c, block);
    return true;
  }

  template <class To, class Y>
  void run(const To& to, const DepthwiseOutputs<Y>& at) const {
    if (t.direct) DepthwiseDirect<V, T>{op, x, sums.start}.run(block, to, at);
    else sums.run(block, to, at);
  }
};

// The zero points of x in a step of codes: one for all images, or one for each. Sums begin at the first row of the
// table. If that row holds the sums of the weights, sums begin at -(zero + kFoursOffset) sum_ij w_ijk instead.
struct DepthwiseZeros {
  int32_t one;
  const int32_t* each;

  int32_t of(int n) const { return each != nullptr ? each[n] : one; }
};
template <class V>
struct CodeDepthwiseStep {
  const DepthwiseConv2d& op;
  const int8_t* x;
  DepthwiseZeros zeros;
  const DepthwiseTiling& t;
  Part part;
  Pieces scratch;
  int32_t* starts;  // first values of the sums, if this struct makes them
  const int32_t* weight_sums;
  CodeDepthwiseRows<V> rows;
  DepthwiseSumsOf<V, CodeTerms<V>> sums;
  DepthwiseBlock block = DepthwiseBlock::before();

  [[gnu::noinline]] CodeDepthwiseStep(const DepthwiseConv2d& o, const int8_t* from, DepthwiseZeros zero,
                                      const std::byte* prepared, int table_rows, const Part& mine, const Pieces& memory)
      : op(o), x(from), zeros(zero), t(*reinterpret_cast<const DepthwiseTiling*>(prepared)), part(mine),
        scratch(memory), starts(table_rows == 1 ? scratch.take<int32_t>(size_t(t.width)) : nullptr),
        weight_sums(reinterpret_cast<const int32_t*>(prepared + kTilingBytes)), rows(op, t, scratch),
        sums{t,           op.window.h.kernel,
             rows.fours,  op.window.w.kernel,
             rows.table,  put_taps(t, op.window.w, scratch),
             weight_sums, reinterpret_cast<const uint32_t*>(weight_sums + table_rows * t.width)} {}

  [[gnu::noinline]] bool next() {
    const DepthwiseBlock last = block;
    if (!block.next(op, t, part)) return false;
    const Window& w = op.window;
    const int32_t zero = zeros.of(block.n);
    if (last.rows == 0 || block.v != last.v || zero != zeros.of(last.n)) {
      rows.begin(int8_t(zero), block.v);
      if (starts != nullptr) put_starts(zero);
    }
    rows.block(x + ptrdiff_t(block.n) * w.h.in * w.w.in * op.in_c, block);
    return true;
  }

 private:
  void put_starts(int32_t zero) {
    const uint32_t offset = uint32_t(zero) + uint32_t(V::kFoursOffset);
    for (int k = 0; k < t.width; ++k) starts[k] = int32_t(0u - offset * uint32_t(weight_sums[k]));
    sums.start = starts;
  }
};

// Calls f(table, part, scratch of the part) on all workers.
template <class Form, class F>
void in_depthwise_parts(const Form& form, const Args& args, const F& f) {
  constexpr uint64_t kOfProduct = 3;  // one product's time in multiply-accumulates of dense
  Pieces scratch = {args.scratch.data()};
  std::byte* const prepared = table_of(form, args, scratch);
  const ptrdiff_t used = scratch.at - args.scratch.data();
  in_parts(args, form.work() * kOfProduct,
           [&](const Part& part, std::span<std::byte> memory) { f(prepared, part, Pieces{memory.data() + used}); });
}

// Calls epilogue(sum, image, channel, index into y) for every sum of a worker's part, which is first put in scratch.
template <class V, class Number, class Step, class F>
[[gnu::noinline]] void each_depthwise_sum(Step& step, const F& epilogue) {
  const int out_c = step.op.out_c, out_w = step.op.window.w.out;
  auto* const scratch = reinterpret_cast<Number*>(step.scratch.at);
  while (step.next()) {
    const DepthwiseBlock block = step.block;
    const int channels = block.channels;
    step.sums.run(block, SumsToScratch<V>{}, DepthwiseOutputs{scratch, block.columns * channels, channels});
    const Number* sum = scratch;
    for (int r = 0; r < block.rows; ++r)
      for (int v = 0, i = block.at + r * out_w * out_c; v < block.columns; ++v, i += out_c)
#pragma GCC unroll 1
        for (int k = 0; k < channels; ++k) epilogue(*sum++, block.n, block.k + k, i + k);
  }
}

// Calls f(sums [columns][channels], block, index into y) for each row of y in a block.
template <class V, class T, class Form, class F>
void each_depthwise_row(const Form& form, const T* x, const Args& args, const F& f) {
  const int out_c = form.op.out_c, out_w = form.op.window.w.out;
  in_depthwise_parts(form, args, [&](const std::byte* prepared, const Part& part, const Pieces& scratch) {
    RealDepthwiseStep<V, T> step(form.op, x, prepared, part, scratch);
    auto* const sums = reinterpret_cast<float*>(step.scratch.at);
    while (step.next()) {
      const DepthwiseBlock block = step.block;
      const int channels = block.channels;
      step.run(SumsToScratch<V>{}, DepthwiseOutputs{sums, block.columns * channels, channels});
      for (int r = 0; r < block.rows; ++r) f(sums + r * block.columns * channels, block, block.at + r * out_w * out_c);
    }
  });
}
// Calls epilogue(sums, how many, image, first channel, index into y) for the channels of each pixel in a block.
template <class V, class T, class Form, class F>
void each_depthwise_pixel(const Form& form, const T* x, const Args& args, const F& epilogue) {
  each_depthwise_row<V>(form, x, args, [&](const float* sums, const DepthwiseBlock& block, int i) {
    for (int v = 0; v < block.columns; ++v, sums += block.channels, i += form.op.out_c)
      epilogue(sums, block.channels, block.n, block.k, i);
  });
}
template <class V, class Form, class F>
void each_depthwise_code(const Form& form, const int8_t* x, DepthwiseZeros zeros, const Args& args, const F& epilogue) {
  in_depthwise_parts(form, args, [&](const std::byte* prepared, const Part& part, const Pieces& scratch) {
    CodeDepthwiseStep<V> step(form.op, x, zeros, prepared, Form::kTableRows, part, scratch);
    each_depthwise_sum<V, int32_t>(step, epilogue);
  });
}

// ---- The forms.

template <int kLanes, class T>
void DepthwiseReal<kLanes, T>::run(const T* x, const T*, Optional<const T>, T* y, const Args& args) const {
  using V = Vector;
  const Clamp clamp = this->op.epilogue.clamp;
  const ClampedReals<V> clamped = {V::set(low_of(clamp)), V::set(high_of(clamp))};
  const ptrdiff_t row = ptrdiff_t(this->op.window.w.out) * this->op.out_c;
  in_depthwise_parts(*this, args, [&](const std::byte* prepared, const Part& part, const Pieces& scratch) {
    RealDepthwiseStep<V, T> step(this->op, x, prepared, part, scratch);
    while (step.next()) step.run(clamped, DepthwiseOutputs{y + step.block.at, row, this->op.out_c});
  });
}

template <int kLanes, class T>
void DepthwiseFused<kLanes, T>::run(const T* x, const T*, Optional<const T> b, Optional<const T> residual, T* y,
                                    const Args& args) const {
  const FusedSums<Vector, T> put(this->op.epilogue.clamp, b, residual);
  each_depthwise_pixel<Vector>(*this, x, args,
                               [&](const float* sums, int count, int, int k, int i) { put(sums, count, k, i, y); });
}

template <int kLanes, class T>
void DepthwiseWeightOnly<kLanes, T>::run(const T* x, const int8_t*, Optional<const T> b, const float* scale, T* y,
                                         WordAt<DepthwiseConv2d::kForm> form, const Args& args) const {
  const bool divides = form.value == uint32_t(ScaleForm::kReciprocal);
  const auto put = scaled_sums<Vector>(this->op.epilogue, divides ? SumScale::kDivided : SumScale::kTimes, scale, b);
  each_depthwise_pixel<Vector>(*this, x, args,
                               [&](const float* sums, int count, int, int k, int i) { put(sums, count, k, y + i); });
}

template <int kLanes, class T>
void DepthwiseFloat8<kLanes, T>::run(const Float8E4M3* x, const Float8E4M3*, Optional<const T> b, const float* scale,
                                     PerRow<const float> x_scale, T* y, const Args& args) const {
  const auto put = scaled_sums<Vector>(this->op.epilogue, SumScale::kTimes, scale, b);
  each_depthwise_pixel<Vector>(*this, x, args, [&](const float* sums, int count, int n, int k, int i) {
    put(sums, count, k, y + i, x_scale[n]);
  });
}

template <int kLanes>
void DepthwiseFloat8Quantized<kLanes>::run(const Float8E4M3* x, const Float8E4M3*, Optional<const float> b,
                                           const float* scale, PerRow<const float> x_scale, const float* y_scale,
                                           Float8E4M3* y, const Args& args) const {
  using V = Vector;
  const int out_c = this->op.out_c;
  const Float8Sums<V> put(this->op.epilogue, scale, b, y_scale[0]);
  each_depthwise_row<V>(*this, x, args, [&](const float* sums, const DepthwiseBlock& block, int i) {
    put(
        sums, block.channels, block.columns, block.channels, block.k, [&](int) { return x_scale[block.n]; }, y + i,
        out_c);
  });
}

template <class V, class Table, class Codes>
void run_pairs(const DepthwiseConv2d& op, const int8_t* x, const Table& table, const DepthwiseTiling& t, Part part,
               int8_t* y) {
  int8_t padding[DepthwiseTiling::kDirectChannels + V::kPairs];
  std::memset(padding, op.x_zero, sizeof padding);
  const auto* const weights = reinterpret_cast<const int16_t*>(table.row(Table::kRows));
  const DepthwisePairs<V, Table, Codes> pairs = {op, x, table, weights, padding, ClampRange(op.epilogue.clamp)};
  const ptrdiff_t row = ptrdiff_t(op.window.w.out) * op.out_c;
  for (DepthwiseBlock block = DepthwiseBlock::before(); block.next(op, t, part);)
    pairs.run(block, {y + block.at, row, op.out_c});
}

template <int kLanes, int kOffset, int kPairs, Rounding kRounding>
void DepthwiseInt8<kLanes, kOffset, kPairs, kRounding>::run(const int8_t* x, const int8_t*, Optional<const int32_t>,
                                                            const Stored*, int8_t* y, const Args& args) const {
  using V = Vector;
  static_assert(kOffset == V::kFoursOffset && kPairs == V::kPairs && kLanes == V::kLanes);
  const ptrdiff_t row = ptrdiff_t(this->op.window.w.out) * this->op.out_c;
  const int zero = this->op.epilogue.y_zero;
  const ClampRange range(this->op.epilogue.clamp);
  in_depthwise_parts(*this, args, [&](std::byte* prepared, const Part& part, const Pieces& scratch) {
    if constexpr (kPairs > 0) {
      const DepthwiseTiling t = *reinterpret_cast<const DepthwiseTiling*>(prepared);
      const Table table = {reinterpret_cast<int32_t*>(prepared + kTilingBytes), t.width};
      using Every = ChannelCodes<V, kRounding>;
      if constexpr (kRounding == Rounding::kDouble)
        if (t.direct && table.quick()) return run_pairs<V, Table, QuickCodes<V>>(this->op, x, table, t, part, y);
      if (t.direct) return run_pairs<V, Table, Every>(this->op, x, table, t, part, y);
    }
    CodeDepthwiseStep<V> step(this->op, x, {this->op.x_zero, nullptr}, prepared, Table::kRows, part, scratch);
    const Table table = {reinterpret_cast<int32_t*>(prepared + kTilingBytes), step.t.width};
    const auto run_with = [&](const auto& to) {
      while (step.next()) step.sums.run(step.block, to, DepthwiseOutputs{y + step.block.at, row, this->op.out_c});
    };
    if constexpr (kRounding == Rounding::kDouble)
      if (table.quick()) {
        if (range.all()) return run_with(RequantizedCodes<V, Table, QuickCodes<V>, false>{table, zero, range});
        return run_with(RequantizedCodes<V, Table, QuickCodes<V>, true>{table, zero, range});
      }
    run_with(RequantizedCodes<V, Table, ChannelCodes<V, kRounding>, true>{table, zero, range});
  });
}

template <int kLanes, class T>
void DepthwiseDynamic<kLanes, T>::run(const int8_t* x, const int8_t*, Optional<const T> b, const T* scale,
                                      PerRow<const T> x_scale, T* y, const Args& args) const {
  each_depthwise_code<Vector>(*this, x, {0, nullptr}, args, [&](int32_t sum, int n, int k, int i) {
    y[i] = this->op.epilogue.template dynamic<T>(sum, b, scale, x_scale[n], k);
  });
}

template <int kLanes>
void DepthwiseHybrid<kLanes>::run(const int8_t* x, const int8_t*, Optional<const float> b, const float* scale,
                                  const float* x_scale, const int32_t* x_zeros, float* y, const Args& args) const {
  each_depthwise_code<Vector>(*this, x, {0, x_zeros}, args, [&](int32_t sum, int n, int k, int i) {
    y[i] = this->op.epilogue.template scaled<float>(float(sum), b, scale, x_scale[n], k);
  });
}

}  // namespace nacre::inline NACRE_ISA
