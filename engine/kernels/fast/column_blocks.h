// Loops over the columns of a matrix, four vectors at a time, then one.
//
//   each_column_block<V>(columns, [&](int first, auto block) {
//     block.each([&](int v) { block.store(y + first, v, block.load(x + first, v)); });
//   });
#pragma once

#include "engine/base/isa.h"

namespace nacre::inline NACRE_ISA {

// A block of kVectors vectors of columns. If the vector is not whole, `count` is its number of columns.
template <class V, int kCount, bool kWhole>
struct ColumnBlock {
  static constexpr int kVectors = kCount;
  using F = typename V::F;
  int count;

  template <class T>
  F load(const T* p, int v) const {
    if constexpr (kWhole) return V::load(p + v * V::kLanes);
    else return V::load(p, count);
  }
  template <class T>
  void store(T* p, int v, F numbers) const {
    if constexpr (kWhole) V::store(p + v * V::kLanes, numbers);
    else V::store(p, numbers, count);
  }
  template <class Function>
  [[gnu::always_inline]] void each(const Function& f) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) f(v);
  }
};

template <class V, class F>
[[gnu::always_inline]] inline void each_column_block(int columns, const F& f) {
  int c = 0;
  for (; c + 4 * V::kLanes <= columns; c += 4 * V::kLanes) f(c, ColumnBlock<V, 4, true>{0});
  for (; c + V::kLanes <= columns; c += V::kLanes) f(c, ColumnBlock<V, 1, true>{0});
  if (c < columns) f(c, ColumnBlock<V, 1, false>{columns - c});
}

}  // namespace nacre::inline NACRE_ISA
