// Gradients of products of two stacks of matrices, over vectors. Each gradient is a sum of products of two factors:
//
//   c_kj = sum_r a_rk b_rj        factor a [terms, out]   factor b [terms, width]   c [out, width]
//
//            without transposition              if a is stored transposed: da^T    if b is stored transposed: db^T
//   da       terms n: a = dy^T, b = b'^T        a = b'^T, b = dy^T
//   db       terms m: a = a',   b = dy                                             a = dy, b = a'
//
// In the table, a' and b' are the matrices that the forward step multiplies, each as stored or transposed. A factor
// that is stored transposed, or that is not float32, is copied to scratch as [terms, columns] of float32, a block of
// terms at a time. The products over the repetitions of a broadcast matrix are added up in c, in float32. The code is
// in run.h.
#pragma once

#include "engine/kernels/fast/gradient/forms.h"
#include "engine/kernels/fast/lines.h"
#include "engine/ops/batched_matmul.h"

namespace nacre::inline NACRE_ISA {

// A factor [terms, columns] of the product: a matrix of the tensor, or its transpose.
struct Factor {
  int columns;
  int step;         // elements from one row of the stored matrix to the next
  bool transposed;  // whether the stored matrix is [columns, terms]

  template <class T>
  bool copied() const {
    return transposed || !std::is_same_v<T, float>;
  }
};

struct BatchedSizes {
  int terms;
  Factor a, b;

  int block() const { return terms < kGradientTerms ? terms : kGradientTerms; }
  template <int kLanes, class T>
  size_t bytes() const {
    const auto rows = size_t(block());
    ScratchBytes scratch;
    scratch.add(rows * 2 * kLanes, sizeof(float));
    if (a.copied<T>()) scratch.add(rows * size_t(a.columns), sizeof(float));
    if (b.copied<T>()) scratch.add(rows * size_t(b.columns), sizeof(float));
    if (!std::is_same_v<T, float>) scratch.add(size_t(a.columns) * size_t(b.columns), sizeof(float));
    return scratch.bytes;
  }
};

template <int kLanes, class T>
struct FastBatchedGradientA : BatchedMatmulGradientA {
  static FastBatchedGradientA from(const Words& words, const Operands& operands) {
    return {BatchedMatmulGradientA::from(words, operands)};
  }
  void run(const T*, const T* b, const T* dy, T* da, const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return from(words, operands).sizes().template bytes<kLanes, T>();
  }

 private:
  BatchedSizes sizes() const {
    const Factor gradient = {m, n, true}, other = {k, transpose_b ? k : n, !transpose_b};
    return transpose_a ? BatchedSizes{n, other, gradient} : BatchedSizes{n, gradient, other};
  }
};

template <int kLanes, class T>
struct FastBatchedGradientB : BatchedMatmulGradientB {
  static FastBatchedGradientB from(const Words& words, const Operands& operands) {
    return {BatchedMatmulGradientB::from(words, operands)};
  }
  void run(const T* a, const T*, const T* dy, T* db, const Args& args) const;
  static size_t scratch_bytes(const Words& words, const Operands& operands) {
    return from(words, operands).sizes().template bytes<kLanes, T>();
  }

 private:
  BatchedSizes sizes() const {
    const Factor gradient = {n, n, false}, other = {k, transpose_a ? m : k, transpose_a};
    return transpose_b ? BatchedSizes{m, gradient, other} : BatchedSizes{m, other, gradient};
  }
};

namespace fast::batched_gradient {

template <class Tier>
constexpr auto lines() {
  return floats<Tier::kLanes, FastBatchedGradientA>("BatchedMatmulGradientA", Op::kBatchedMatmulGradientA,
                                                    BatchedMatmulGradientA::shapes) +
         floats<Tier::kLanes, FastBatchedGradientB>("BatchedMatmulGradientB", Op::kBatchedMatmulGradientB,
                                                    BatchedMatmulGradientB::shapes);
}

}  // namespace fast::batched_gradient

}  // namespace nacre::inline NACRE_ISA
