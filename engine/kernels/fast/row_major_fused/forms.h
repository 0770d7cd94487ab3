// Kernel forms of dense and conv2d with real weights in rows (row_major/forms.h) and a fused epilogue or cast. They
// serve networks in training, where one step makes the sums and also adds a residual, or changes the type. The code is
// in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/row_major/forms.h"

namespace nacre::inline NACRE_ISA {

// Base of both forms. Their scratch is that of the packed form with sums, and the packed weights.
template <class O, int kLanes, class T, int kGroup>
struct RowMajorSums : FusedForm<O, kLanes, T> {
  using Base = FusedForm<O, kLanes, T>;

  static bool accepts(const Words& words, const Operands& operands) {
    return !is_constant(operands, Base::kW) && FastMatmul<O, kLanes>::accepts(words, operands);
  }
  static size_t table_bytes(const RowMajorSums& form) { return Base::table_bytes(form); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return RowMajorWeights<O, kLanes, T, kGroup>::template scratch_bytes<FusedForm>(words, operands);
  }
};

template <class O, int kLanes, class T, int kGroup = 1>
struct RowMajorFusedForm : RowMajorSums<O, kLanes, T, kGroup> {
  static RowMajorFusedForm from(const Words& words, const Operands& operands) {
    return {{FusedForm<O, kLanes, T>::from(words, operands)}};
  }
  void run(const T* x, const T* w, Optional<const T> b, Optional<const T> residual, T* y, const Args& args) const;
};

// Clamps each sum, and rounds it to T, then to Y.
template <class O, int kLanes, class T, class Y, int kGroup = 1>
struct RowMajorCastForm : RowMajorSums<O, kLanes, T, kGroup> {
  static RowMajorCastForm from(const Words& words, const Operands& operands) {
    return {{FusedForm<O, kLanes, T>::from(words, operands)}};
  }
  void run(const T* x, const T* w, Optional<const T> b, Y* y, const Args& args) const;
};

namespace fast::row_major_fused {

template <class Tier, class O>
constexpr auto lines_of(const char* name, Op op) {
  constexpr int kLanes = Tier::kLanes;
  return line<RowMajorFusedForm<O, kLanes, float>>({name, "FusedRowMajorF32"}, op, O::shapes_fused, 8) +
         line<RowMajorFusedForm<O, kLanes, Float16>>({name, "FusedRowMajorF16"}, op, O::shapes_fused, 8) +
         line<RowMajorCastForm<O, kLanes, Float16, float>>({name, "RowMajorF16ToF32"}, op, O::shapes) +
         line<RowMajorCastForm<O, kLanes, float, Float16>>({name, "RowMajorF32ToF16"}, op, O::shapes) +
         line<RowMajorCastForm<O, kLanes, float, Bfloat16>>({name, "RowMajorF32ToBf16"}, op, O::shapes);
}

// The forms of bfloat16 x are listed in the family bfloat16_pairs.
template <class Tier>
constexpr auto lines() {
  return lines_of<Tier, Dense>("Dense", Op::kDense) + lines_of<Tier, Conv2d>("Conv2d", Op::kConv2d);
}

}  // namespace fast::row_major_fused

}  // namespace nacre::inline NACRE_ISA
