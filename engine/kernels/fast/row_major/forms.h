// Kernel forms of dense and conv2d with real weights in rows, as the file has them. Weights that are trained stay so,
// because bind cannot pack them. Constant weights are for the packed forms (matmul/forms.h). The code is in run.h.
//
//   many rows of x          Each run packs the weights into scratch, transposing blocks of kLanes by kLanes, and
//                           multiplies as the packed form does. For 128 rows packing takes 7% of the time.
//   few rows of x (dense)   Dot products go along the rows of w, which are read once for each four rows of x.
//
// In a row, the two numbers of a pair of bfloat16 (kGroup 2) are neighbours already, so a pair is transposed as one
// number. Rows of an odd length have no such pairs.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/matmul/forms.h"

namespace nacre::inline NACRE_ISA {

// The most rows of x for dot products. It is twice the rows of a tile of them (DotRows of run.h).
inline constexpr int kFewRows = 8;
inline bool has_few_rows(const Dense& op) { return op.rows <= kFewRows; }
inline bool has_few_rows(const Conv2d&) { return false; }

// The weights that a run packs, and the scratch of the product, for any epilogue. Packed is the form of matmul/forms.h
// that multiplies the packed weights, in pairs or in float32.
template <class O, int kLanes, class T, int kGroup>
struct RowMajorWeights {
  static bool takes_pairs(const O& op) { return kGroup == 2 && sizes_of(op, 1).length % 2 == 0; }
  // Returns the numbers of the packed weights. A number is a float32, or a pair, which also takes 4 bytes.
  static size_t numbers(const FastMatmul<O, kLanes>& matmul) {
    const int length = sizes_of(matmul.op, 1).length;
    return size_t(matmul.padded()) * size_t(takes_pairs(matmul.op) ? length / 2 : length);
  }
  template <template <class, int, class, int> class Packed>
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const auto matmul = FastMatmul<O, kLanes>::from(words, operands);
    const size_t rest = takes_pairs(matmul.op) ? Packed<O, kLanes, T, kGroup>::sums_bytes(words, operands)
                                               : Packed<O, kLanes, T, 1>::sums_bytes(words, operands);
    return rest + matmul.round_up(numbers(matmul) * sizeof(float));
  }
};

template <class O, int kLanes, class T, int kGroup = 1>
struct RowMajorForm : RealForm<O, kLanes, T> {
  using Base = RealForm<O, kLanes, T>;
  static RowMajorForm from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const T* x, const T* w, Optional<const T> b, T* y, const Args& args) const;

  static bool accepts(const Words& words, const Operands& operands) {
    return !is_constant(operands, Base::kW) && FastMatmul<O, kLanes>::accepts(words, operands);
  }
  static size_t table_bytes(const RowMajorForm& form) { return Base::table_bytes(form); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    if (has_few_rows(from(words, operands).op)) return Base::sums_bytes(words, operands);
    return RowMajorWeights<O, kLanes, T, kGroup>::template scratch_bytes<RealForm>(words, operands);
  }
};

namespace fast::row_major {

template <class Tier, class O>
constexpr auto lines_of(const char* name, Op op) {
  constexpr int kLanes = Tier::kLanes;
  return line<RowMajorForm<O, kLanes, float>>({name, "RowMajorF32"}, op, O::shapes) +
         line<RowMajorForm<O, kLanes, Float16>>({name, "RowMajorF16"}, op, O::shapes);
}

// The forms of bfloat16 are listed in the family bfloat16_pairs.
template <class Tier>
constexpr auto lines() {
  return lines_of<Tier, Dense>("Dense", Op::kDense) + lines_of<Tier, Conv2d>("Conv2d", Op::kConv2d);
}

}  // namespace fast::row_major

}  // namespace nacre::inline NACRE_ISA
