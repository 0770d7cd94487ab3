// dense and conv2d with real weights in rows, as the file has them: those that are trained, which bind cannot pack.
// Listed behind the packed forms, which take constants. The code is in run.h.
//
//   many rows of x   each run packs the weights into scratch, transposing blocks of kLanes by kLanes, and multiplies as
//                    the packed form does: of 128 rows the pack takes 7% of the time
//   few, of dense    dot products along the rows of w, which are read once
//
// Vectors that multiply pairs of bfloat16 (kGroup 2) find those of a row beside each other already, and transpose
// them as if they were one number; rows of an odd length have no such pairs.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/matmul/forms.h"

namespace nacre::inline NACRE_ISA {

// Twice the rows that a tile of dot products has.
inline constexpr int kFewRows = 8;
inline bool has_few_rows(const Dense& op) { return op.rows <= kFewRows; }
inline bool has_few_rows(const Conv2d&) { return false; }

// The weights, packed by a run, and the scratch of the product, whatever its sums become: Packed is the form of packed
// weights that runs then, in pairs or in float32.
template <class O, int kLanes, class T, int kGroup>
struct RowMajorWeights {
  static bool takes_pairs(const O& op) { return kGroup == 2 && sizes_of(op, 1).length % 2 == 0; }
  // Columns in whole panels, of numbers that are as long as a float32 or a pair.
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

// These lines come behind those of packed weights. The family bfloat16_pairs has those of bfloat16.
template <class Tier>
constexpr auto lines() {
  return lines_of<Tier, Dense>("Dense", Op::kDense) + lines_of<Tier, Conv2d>("Conv2d", Op::kConv2d);
}

}  // namespace fast::row_major

}  // namespace nacre::inline NACRE_ISA
