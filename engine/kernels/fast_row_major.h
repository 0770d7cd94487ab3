// dense and conv2d with real weights in rows, as the file has them: those that are trained, which bind cannot pack.
// Listed behind the packed forms, which take constants. What runs is in fast_row_major_run.h.
//
//   many rows of x   each run packs the weights into scratch, transposing blocks of kLanes by kLanes, and multiplies as
//                    the packed form does: of 128 rows the pack takes 7% of the time
//   few, of dense    dot products along the rows of w, which are read once
#pragma once

#include "engine/kernels/fast_matmul.h"

namespace nacre::inline NACRE_ISA {

// Twice the rows that a tile of dot products has.
inline constexpr int kFewRows = 8;
inline bool has_few_rows(const Dense& op) { return op.rows <= kFewRows; }
inline bool has_few_rows(const Conv2d&) { return false; }

template <class O, int kLanes, class T>
struct RowMajorForm : RealForm<O, kLanes, T> {
  using Base = RealForm<O, kLanes, T>;
  static RowMajorForm from(const Words& words, const Operands& operands) { return {Base::from(words, operands)}; }

  void run(const T* x, const T* w, Optional<const T> b, T* y, const Args& args) const;

  static bool accepts(const Words& words, const Operands& operands) {
    return !is_constant(operands, Base::kW) && FastMatmul<O, kLanes>::accepts(words, operands);
  }
  static size_t table_bytes(const RowMajorForm& form) { return Base::table_bytes(form); }
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const auto form = from(words, operands);
    const size_t rest = Base::scratch_bytes(words, operands);
    return has_few_rows(form.op) ? rest : rest + Base::round_up(form.packed_floats() * sizeof(float));
  }

  size_t packed_floats() const { return size_t(this->padded()) * size_t(sizes_of(this->op, 1).length); }
};

}  // namespace nacre::inline NACRE_ISA
