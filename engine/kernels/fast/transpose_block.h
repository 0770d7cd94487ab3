// Transposes a matrix to float32, block by block.
#pragma once

#include <cstddef>

#include "engine/base/isa.h"
#include "engine/kernels/fast/loops.h"

namespace nacre::inline NACRE_ISA {

// Sets to[c to_step + r] = from[r from_step + c] for r < rows, c < columns.
template <class V, class T>
[[gnu::noinline]] void transpose_floats(const T* from, ptrdiff_t from_step, int rows, int columns, float* to,
                                        ptrdiff_t to_step) {
  constexpr int kLanes = V::kLanes;
  for (int r = 0; r < rows; r += kLanes)
    for (int c = 0; c < columns; c += kLanes) {
      const int high = V::most(rows - r), wide = V::most(columns - c);
      const T* const x = from + r * from_step + c;
      float* const y = to + c * to_step + r;
      typename V::F block[kLanes];
      if (high == kLanes && wide == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) block[i] = V::load(x + i * from_step);
        V::transpose(block);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) V::store(y + i * to_step, block[i]);
        continue;
      }
      for (int i = 0; i < kLanes; ++i) block[i] = i < high ? V::load(x + i * from_step, wide) : V::set(0.0f);
      V::transpose(block);
      for (int i = 0; i < wide; ++i) V::store(y + i * to_step, block[i], high);
    }
}

}  // namespace nacre::inline NACRE_ISA
