// Declares the kernel forms of batched_matmul, y = a' b' (a' and b': a and b, or their transposes), in plain C++. The
// code is in run.h, over vectors.
//   more than kFew rows   Some columns of b' at a time are packed into panels of float32 in scratch and multiplied by
//                         blocks of rows of a'. For 128 rows packing b takes 1% of the time, or 7% if b is transposed.
//   at most kFew rows     b is read in place, except its last columns; if it is transposed, by dot products of rows.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/batched_matmul.h"

namespace nacre::inline NACRE_ISA {

template <int kLanes, class T>
struct FastBatched : BatchedMatmul {
  static constexpr bool kFloat = std::is_same_v<T, float>;
  static constexpr int kFew = 8;
  static constexpr int kChunk = 16 * kLanes;  // columns that are packed at a time
  static constexpr int kBlock = 48;           // rows whose sums are made at a time

  static FastBatched from(const Words& words, const Operands& operands) {
    return {BatchedMatmul::from(words, operands)};
  }
  void run(const T* a, const T* b, T* y, const Args& args) const;

  bool few() const { return m <= kFew; }
  bool a_in_place() const { return kFloat && (!transpose_a || m == 1); }
  int chunk() const { return n < kChunk ? (n + kLanes - 1) / kLanes * kLanes : kChunk; }
  int block() const { return m < kBlock ? m : kBlock; }

  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    const FastBatched op = from(words, operands);
    const auto columns = size_t(op.chunk()), rows = size_t(op.block()), terms = size_t(op.k);
    size_t floats = columns + 16;                                  // zeros
    floats += terms * (op.few() ? size_t(kLanes) : columns) + 16;  // columns of b
    floats += rows * terms + 16;                                   // rows of a
    if (!kFloat) floats += rows * columns + 16;                    // sums
    return floats * sizeof(float);
  }

 private:
  void few_rows(const T* a, const T* b, T* y, const Args& args) const;
  void many_rows(const T* a, const T* b, T* y, const Args& args) const;
};

namespace fast::batched {

template <class Tier>
constexpr auto lines() {
  return floats<Tier::kLanes, FastBatched>("BatchedMatmul", Op::kBatchedMatmul, BatchedMatmul::shapes);
}

}  // namespace fast::batched

}  // namespace nacre::inline NACRE_ISA
