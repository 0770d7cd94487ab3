// Code of svdf (forms.h), over a vector type V (engine/simd). The lines of a unit are one run of rank * memory numbers,
// and those of consecutive units follow each other, also from sample to sample. One move makes a block of units a step
// older; then each line gets x at its end. Blocks of 4096 bytes stay in the first cache until they are multiplied.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/kernels/fast/code_scale.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/recurrent/forms.h"

namespace nacre::inline NACRE_ISA {

// Makes the lines of `units` units one step older. `add` makes the number that is stored of x. s and x are those of
// the first unit.
template <class T, class Add>
void push_lines(const Svdf& op, T* s, const T* x, int units, const Add& add) {
  const int lines = units * op.rank;
  std::memmove(s, s + 1, (size_t(lines) * size_t(op.memory) - 1) * sizeof(T));
  for (int i = 0; i < lines; ++i) s[ptrdiff_t(i) * op.memory + op.memory - 1] = add(x[i]);
}

// Calls f(first unit of all samples, unit of its sample, count) for blocks of units of one sample.
template <class T, class F>
void each_unit_block(const Svdf& op, const Args& args, const F& f) {
  constexpr int kBytes = 4096, kMost = 64;
  const int units = op.filters / op.rank, length = op.rank * op.memory;
  const int fit = kBytes / int(sizeof(T)) / length, most = fit < 1 ? 1 : fit < kMost ? fit : kMost;
  in_runs(args, op.batch * units, uint64_t(uint32_t(length)), [&](int first, int count, std::span<std::byte>) {
    while (count > 0) {
      const int unit = first % units, left = units - unit, within = count < left ? count : left;
      const int block = within < most ? within : most;
      f(first, unit, block);
      first += block, count -= block;
    }
  });
}

template <class T>
void FastSvdf<T>::run(const T* x, const T* w, Optional<const T> bias, Update<T> s, T* y, const Args& args) const {
  using V = Vector;
  const int length = op.rank * op.memory;
  each_unit_block<T>(op, args, [&](int first, int unit, int count) {
    T* const lines = s.data + ptrdiff_t(first) * length;
    push_lines(op, lines, x + ptrdiff_t(first) * op.rank, count, [](T v) { return v; });
    for (int u = 0; u < count; ++u) {
      const T *const line = lines + ptrdiff_t(u) * length, *const weights = w + ptrdiff_t(unit + u) * length;
      typename V::F sum = V::set(0.0f);
      each_vector<V>(length, [&](int i, auto n) { sum = V::fma(load<V>(line + i, n), load<V>(weights + i, n), sum); });
      y[first + u] = T(V::sum(sum) + (bias ? float(bias.data[unit + u]) : 0.0f));
    }
  });
}

// Sums of products of codes, w_i (moved(s_i, zero) - zero). moved() wraps to the bits of T.
template <class V, class T>
struct FilterSums {
  using I = typename V::I;
  int32_t zero;

  // Returns the sum of all lanes, wrapped as the reference kernel's.
  [[gnu::noinline]] int32_t operator()(const T* line, const T* weights, int length) const {
    I sum = V::set(int32_t{0});
    each_vector<V>(length, [&](int i, auto n) { sum = V::add(sum, V::mul(past(line + i, n), codes(weights + i, n))); });
    alignas(64) int32_t lanes[V::kLanes];
    V::store(lanes, sum);
    uint32_t total = 0;
    for (const int32_t lane : lanes) total += uint32_t(lane);
    return int32_t(total);
  }

 private:
  static constexpr int kAbove = 32 - 8 * int(sizeof(T));  // bits of a lane above T

  static I codes(const T* p, auto n) {
    if constexpr (sizeof(T) == 2) return load_words<V>(p, n);
    else return load_codes<V>(p, n);
  }
  // Lanes beyond the line are -zero or wrapped; their weights are 0.
  I past(const T* p, auto n) const {
    const I moved = V::shift_left(V::add(codes(p, n), V::set(zero)), V::set(int32_t{kAbove}));
    return V::sub(V::shift_right(moved, kAbove), V::set(zero));
  }
};

template <class T>
void FastSvdfCodes<T>::run(const T* x, const T* w, Optional<const int32_t> bias, Update<T> s, int8_t* y,
                           const Args& args) const {
  using V = Vector;
  const int length = op.rank * op.memory;
  const int32_t pair[] = {op.scale.multiplier, op.scale.shift};
  const PairScale<V> scale(Rounding::kDouble, pair);
  const FilterSums<V, T> sum_of = {op.x_zero};
  each_unit_block<T>(op, args, [&](int first, int unit, int count) {
    T* const lines = s.data + ptrdiff_t(first) * length;
    const auto less_zero = [&](T v) { return T(std::make_unsigned_t<T>(uint32_t(v) - uint32_t(op.x_zero))); };
    push_lines(op, lines, x + ptrdiff_t(first) * op.rank, count, less_zero);
    alignas(64) int32_t sums[64];
    for (int u = 0; u < count; ++u) {
      const ptrdiff_t at = ptrdiff_t(u) * length;
      const int32_t sum = sum_of(lines + at, w + ptrdiff_t(unit) * length + at, length);
      sums[u] = bias ? wrapping_add(sum, bias.data[unit + u]) : sum;
    }
    each_vector<V>(count, [&](int i, auto n) {
      store_codes<V>(y + first + i, V::add(scale(load_codes<V>(sums + i, n)), V::set(int32_t{op.y_zero})), n);
    });
  });
}

}  // namespace nacre::inline NACRE_ISA
