// Joins the sums of several GPUs' micro-batches on one GPU, element by element, as numeric/step_sum.h does.
#pragma once

#include "engine/base/isa.h"
#include "engine/kernels/adapter.h"
#include "engine/numeric/step_sum.h"
#include "engine/ops/dense.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

// to_i = joined(to_i, x_i) for each i below the first word.
struct JoinedSums {
  int count;

  static constexpr JoinedSums from(const Words& words, const Operands&) { return {words.integer(0)}; }

  template <class T>
  constexpr void join(const T* x, Update<T> to) const {
    for (int i : independent(count)) to.data[i] = nacre::joined(to.data[i], x[i]);
  }
};

}  // namespace nacre::inline NACRE_ISA
