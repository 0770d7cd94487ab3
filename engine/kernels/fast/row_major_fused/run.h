// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/row_major/run.h"
#include "engine/kernels/fast/row_major_fused/forms.h"

namespace nacre::inline NACRE_ISA {

template <class O, int kLanes, class T, int kGroup>
void RowMajorFusedForm<O, kLanes, T, kGroup>::run(const T* x, const T* w, Optional<const T>, Optional<const T> residual,
                                                  T* y, const Args& args) const {
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  const FusedSums<Vector, T> put(this->op.epilogue.clamp, {nullptr}, residual);
  each_row_major_sum<Vector, kGroup>(
      *this, x, w, start, args, scratch,
      [&](const float* sums, int columns, int i, int k) { put(sums, columns, k, i, y); });
}

template <class O, int kLanes, class T, class Y, int kGroup>
void RowMajorCastForm<O, kLanes, T, Y, kGroup>::run(const T* x, const T* w, Optional<const T>, Y* y,
                                                    const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(*this, args, scratch));
  const Clamp clamp = this->op.epilogue.clamp;
  const V::F low = V::set(low_of(clamp)), high = V::set(high_of(clamp));
  each_row_major_sum<V, kGroup>(*this, x, w, start, args, scratch, [&](const float* sums, int columns, int i, int) {
    put_cast_sums<V, T>(sums, columns, low, high, y + i);
  });
}

}  // namespace nacre::inline NACRE_ISA
