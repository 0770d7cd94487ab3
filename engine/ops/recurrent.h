// The common part of lstm and gru: sizes, products with the recurrent weights, and walks over steps.
#pragma once

#include <cmath>
#include <cstddef>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Sequence {
  int batch, time, width;

  // Returns the multiply-accumulates of `gates` products with the recurrent weights, in all steps.
  constexpr uint64_t work(int gates) const {
    return uint64_t(uint32_t(batch * time)) * uint32_t(gates * width) * uint32_t(width);
  }

  // Calls f(step, y_{t-1}) for every step, counted over all samples. y_{-1} is h0, or null if absent. y is [batch,
  // time, width].
  template <class T, class F>
  constexpr void each_step(const T* y, const T* h0, F f) const {
    for (int n = 0; n < batch; ++n) each_step_of(n, y, h0, f);
  }
  // Calls f(n, step, y_{t-1}) for every step. Samples n are independent of each other.
  template <class T, class F>
  constexpr void each_step_apart(const T* y, const T* h0, F f) const {
    for (int n : independent(batch)) each_step_of(n, y, h0, [&](int step, const T* before) { f(n, step, before); });
  }

 private:
  template <class T, class F>
  constexpr void each_step_of(int n, const T* y, const T* h0, F f) const {
    for (int t = 0; t < time; ++t) {
      const int step = n * time + t;
      f(step, t > 0 ? y + (step - 1) * width : h0 == nullptr ? nullptr : h0 + n * width);
    }
  }
};

// Returns the bytes of a vector of accumulators for each sample.
constexpr size_t samples_bytes(int batch, int width, ElementType type) {
  return size_t(batch) * size_t(width) * (type == ElementType::kFloat64 ? sizeof(double) : sizeof(float));
}

template <class A>
constexpr A logistic(A v) {
  return 1 / (1 + std::exp(-v));
}

// Returns (w y)_row for w [.., width], or 0 if y is null.
template <class A, class T>
constexpr A recurrent(const T* w, const T* y, int row, int width) {
  A sum = 0;
  for (int j = 0; y != nullptr && j < width; ++j) sum += A(w[row * width + j]) * A(y[j]);
  return sum;
}

// Adds sum += w^T da for w [rows, width].
template <class T, class A>
constexpr void add_transposed(const T* w, const T* da, int rows, int width, A* sum) {
  for (int k = 0; k < rows; ++k)
    for (int j = 0; j < width; ++j) sum[j] += A(w[k * width + j]) * A(da[k]);
}

// Checks operand `x` [batch, time, gates width] with recurrent weights [gates width, width] at `w`.
constexpr Code check_sequence(const Operands& operands, int x_slot, int w_slot, int gates) {
  const Shape x = operands[x_slot], w = operands[w_slot];
  if (x.rank != 3 || w.rank != 2) return Code::kShapeRank;
  const int64_t rows = int64_t{gates} * w[1];
  return w[0] == rows && x[2] == rows ? Code::kOk : Code::kShapeWeights;
}

// Returns whether y is [batch, time, width] for the sequence x.
constexpr bool is_sequence(Shape y, Shape x, int width) {
  return y.rank == 3 && y[0] == x[0] && y[1] == x[1] && y[2] == width;
}

}  // namespace nacre::inline NACRE_ISA
