// Lists products of bfloat16 that vectors may multiply in pairs: gradients of dense and conv2d, and both ops with
// weights in rows. The forms are those of the families gradient, row_major and row_major_fused.
#pragma once

#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/row_major_fused/forms.h"

namespace nacre::inline NACRE_ISA {

namespace fast::bfloat16_pairs {

template <class Tier, class O>
constexpr auto rows_of(const char* name, Op op) {
  constexpr int kLanes = Tier::kLanes, kGroup = Tier::kRealGroup;
  return line<RowMajorForm<O, kLanes, Bfloat16, kGroup>>({name, "RowMajorBf16"}, op, O::shapes) +
         line<RowMajorFusedForm<O, kLanes, Bfloat16, kGroup>>({name, "FusedRowMajorBf16"}, op, O::shapes_fused, 8) +
         line<RowMajorCastForm<O, kLanes, Bfloat16, float, kGroup>>({name, "RowMajorBf16ToF32"}, op, O::shapes);
}

// The family matmul, whose weights are packed, is listed before this one (ports/vector/families.txt).
template <class Tier>
constexpr auto lines() {
  constexpr int kLanes = Tier::kLanes, kGroup = Tier::kRealGroup;
  return line<DenseGradientXForm<kLanes, Bfloat16, kGroup>>("DenseGradientXBf16", Op::kDenseGradientX,
                                                            DenseGradientX::shapes) +
         line<DenseGradientWForm<kLanes, Bfloat16, kGroup>>("DenseGradientWBf16", Op::kDenseGradientW,
                                                            DenseGradientW::shapes) +
         line<Conv2dGradientXForm<kLanes, Bfloat16, kGroup>>("Conv2dGradientXBf16", Op::kConv2dGradientX,
                                                             Conv2dGradientX::shapes) +
         line<Conv2dGradientWForm<kLanes, Bfloat16, kGroup>>("Conv2dGradientWBf16", Op::kConv2dGradientW,
                                                             Conv2dGradientW::shapes) +
         rows_of<Tier, Dense>("Dense", Op::kDense) + rows_of<Tier, Conv2d>("Conv2d", Op::kConv2d);
}

}  // namespace fast::bfloat16_pairs

}  // namespace nacre::inline NACRE_ISA
