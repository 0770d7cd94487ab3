// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/batched_gradient/forms.h"
#include "engine/kernels/fast/gradient/run.h"
#include "engine/kernels/fast/transpose_block.h"

namespace nacre::inline NACRE_ISA {

// Adds the product of the factors of one pair of matrices to c, a block of terms at a time.
template <class V, class T>
struct BatchedProduct {
  BatchedSizes size;
  const T *a, *b;              // the two matrices of the current pair
  float *panel, *of_a, *of_b;  // scratch

  void add(float* c) const {
    for (int r = 0; r < size.terms; r += size.block()) {
      const int count = std::min(size.block(), size.terms - r);
      const float *const left = rows(size.a, a, r, count, of_a), *const right = rows(size.b, b, r, count, of_b);
      const OuterProduct<V> product = {size.a.columns, size.b.columns, step(size.a),
                                       step(size.b),   size.b.columns, panel};
      product.run(left, right, count, c);
    }
  }

 private:
  static int step(const Factor& f) { return f.template copied<T>() ? f.columns : f.step; }

  // Returns rows r .. r + count of a factor in float32.
  static const float* rows(const Factor& f, const T* x, int r, int count, [[maybe_unused]] float* to) {
    if (f.transposed) {
      transpose_floats<V>(x + r, f.step, f.columns, count, to, f.columns);
      return to;
    }
    if constexpr (std::is_same_v<T, float>) {
      return x + ptrdiff_t(r) * f.step;
    } else {
      put_numbers<V>(to, x + ptrdiff_t(r) * f.step, count * f.columns);  // step = columns
      return to;
    }
  }
};

// Computes the matrices of dx, which the workers share. factors(i, j, product) sets product.a and product.b to the
// factors of matrix i of the other operand and matrix j of dy.
template <class V, class T, class Repetitions, class Factors>
void batched_gradient(const BatchedSizes& size, const Repetitions& repetitions, uint64_t work, T* dx, const Args& args,
                      const Factors& factors) {
  in_parts(args, work, [&](Part part, std::span<std::byte> memory) {
    Pieces scratch = {memory.data()};
    const auto block = size_t(size.block()), elements = size_t(size.a.columns) * size_t(size.b.columns);
    BatchedProduct<V, T> product = {size,    nullptr, nullptr, scratch.take<float>(block * 2 * V::kLanes),
                                    nullptr, nullptr};
    if (size.a.copied<T>()) product.of_a = scratch.take<float>(block * size_t(size.a.columns));
    if (size.b.copied<T>()) product.of_b = scratch.take<float>(block * size_t(size.b.columns));
    float* sums = nullptr;
    if constexpr (!std::is_same_v<T, float>) sums = scratch.take<float>(elements);
    size_t next = 0;
    repetitions.outer.each([&](const int32_t* at) {
      T* const to = dx + elements * next++;
      if (!part.takes()) return;
      if constexpr (std::is_same_v<T, float>) sums = to;
      fill_numbers(sums, 0.0f, int(elements));
      repetitions.each(at, [&](int other, int of_y) {
        factors(other, of_y, product);
        product.add(sums);
      });
      if constexpr (!std::is_same_v<T, float>) store_numbers<V>(to, sums, int(elements));
    });
  });
}

template <int kLanes, class T>
void FastBatchedGradientA<kLanes, T>::run(const T*, const T* b_data, const T* dy, T* da, const Args& args) const {
  const ptrdiff_t of_b = ptrdiff_t(k) * n, of_y = ptrdiff_t(m) * n;
  batched_gradient<Vector>(sizes(), Repetitions(a, b), work(), da, args, [&](int other, int y, auto& product) {
    product.a = dy + y * of_y, product.b = b_data + other * of_b;
    if (transpose_a) std::swap(product.a, product.b);
  });
}
template <int kLanes, class T>
void FastBatchedGradientB<kLanes, T>::run(const T* a_data, const T*, const T* dy, T* db, const Args& args) const {
  const ptrdiff_t of_a = ptrdiff_t(m) * k, of_y = ptrdiff_t(m) * n;
  batched_gradient<Vector>(sizes(), Repetitions(b, a), work(), db, args, [&](int other, int y, auto& product) {
    product.a = a_data + other * of_a, product.b = dy + y * of_y;
    if (transpose_b) std::swap(product.a, product.b);
  });
}

}  // namespace nacre::inline NACRE_ISA
