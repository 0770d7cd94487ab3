// What the forms of fast_row_major_fused.h do, over vectors V. Included where kernels are compiled for an instruction
// set.
#pragma once

#include "engine/kernels/fast_row_major_fused.h"
#include "engine/kernels/fast_row_major_run.h"

namespace nacre::inline NACRE_ISA {

// f(sums, columns, index into y, channel) for runs of sums.
template <class V, class O, int kLanes, class T, class Form, class F>
void each_row_major_sum(const Form& form, const RowMajorSums<O, kLanes, T>& shape, const T* x, const T* w,
                        const Args& args, const F& f) {
  Pieces scratch = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const float*>(table_of(form, args, scratch));
  const ProductSizes s = sizes_of(shape.op, 1);
  float* const packed = scratch.take<float>(shape.packed_floats());
  pack_rows<V>(w, s.out * s.groups, s.length, packed);
  each_real_block<V, true>(form, x, packed, start, args, scratch,
                           [&](const float* sums, int columns, int i, int, int k) { f(sums, columns, i, k); });
}

template <class O, int kLanes, class T>
void RowMajorFusedForm<O, kLanes, T>::run(const T* x, const T* w, Optional<const T>, Optional<const T> residual, T* y,
                                          const Args& args) const {
  const FusedSums<Vector, T> put(this->op.epilogue.clamp, {nullptr}, residual);
  each_row_major_sum<Vector>(*this, *this, x, w, args,
                             [&](const float* sums, int columns, int i, int k) { put(sums, columns, k, i, y); });
}

template <class O, int kLanes, class T, class Y>
void RowMajorCastForm<O, kLanes, T, Y>::run(const T* x, const T* w, Optional<const T>, Y* y, const Args& args) const {
  using V = Vector;
  const Clamp clamp = this->op.epilogue.clamp;
  const V::F low = V::set(low_of(clamp)), high = V::set(high_of(clamp));
  each_row_major_sum<V>(*this, *this, x, w, args, [&](const float* sums, int columns, int i, int) {
    put_cast_sums<V, T>(sums, columns, low, high, y + i);
  });
}

}  // namespace nacre::inline NACRE_ISA
