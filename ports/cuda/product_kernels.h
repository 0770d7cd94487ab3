// Device kernels around a product by cuBLASLt. They make its operands and finish its sums if an op is more than a
// product of matrices.
//
//   columns   the windows of a convolution: row r is the window of pixel r of y, in the order i, j, c of w. Padding is
//             0, or the zero point for codes
//   uses      for the gradient of x: row r is dy wherever a window read pixel r of x, in the order i, j, k. It is 0 if
//             the stride or the edge of y has no such window
//   turned    w for that gradient, in the order i, j, k, c: dx = uses turned. For codes the order is c, i, j, k. With
//             groups, a row of columns or uses holds the windows of each group one after another
//   turned columns   for codes: row i holds element i of the windows of all pixels. dw = dy^T columns sums over pixels,
//             which are then contiguous
//   rows      a matrix copied to more rows or columns, filled with 0, or to fewer, for sizes that the library takes
//             (product_step.h); or transposed, so that the terms of a sum are contiguous; or added to the target
//   sums      y from the sums s, in the order of y, by the op's epilogue (ops/epilogue.h)
//   weights   w_k = sum_i w_ki: codes are multiplied without their zero point, and the op needs s_rk - zero w_k
//
// The kernels are written like ops, so the device and the simulated one compile the same lines as entries
// (product_kernels.inc). Their operands are the step's, with another one in place of x, w or y. A row of columns,
// uses or sums may be longer than its content. The port adds a word with the length of the row (kRowWord), and one
// with the number of rows of turned columns (kRowsWord).
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"
#include "engine/ops/independent.h"
#include "ports/cuda/step_image.h"

namespace nacre::inline NACRE_ISA {

// y of a Dense or of a convolution as a matrix: its rows, its columns, and the row of x_scale and
// x_zero that belongs to a row.
constexpr int product_rows(const Dense& op) { return op.rows; }
constexpr int product_rows(const Conv2d& op) { return op.batch * op.window.h.out * op.window.w.out; }
constexpr int product_columns(const Dense& op) { return op.out; }
constexpr int product_columns(const Conv2d& op) { return op.out_c; }
constexpr int scale_row(const Dense&, int row) { return row; }
constexpr int scale_row(const Conv2d& op, int row) { return row / (op.window.h.out * op.window.w.out); }
constexpr int zero_row(const Dense& op, int row) { return row / op.rows_per_batch; }
constexpr int zero_row(const Conv2d& op, int row) { return scale_row(op, row); }

// The last two words, which no op with products uses.
inline constexpr int kRowWord = cuda::kMostWords - 1, kRowsWord = kRowWord - 1;

template <class O>
struct FromSums : O {
  int row;  // numbers between two rows of sums

  static constexpr FromSums from(const Words& words, const Operands& operands) {
    return {O::from(words, operands), words.integer(kRowWord)};
  }

  template <class T, class Y = T>
  constexpr void real(const typename Element<T>::Accumulator* s, const T*, Optional<const T> b, Y* y) const {
    each([&](int, int k, int e, int at) { y[e] = this->epilogue.template real<T, Y>(s[at], b, k); });
  }

  template <class T>
  constexpr void fused(const typename Element<T>::Accumulator* s, const T*, Optional<const T> b,
                       Optional<const T> residual, T* y) const {
    const FusedEpilogue fused = {this->epilogue.clamp};
    each([&](int, int k, int e, int at) { y[e] = fused.real(s[at], b, k, residual, e); });
  }

  template <Rounding kRounding>
  constexpr void int8(const int32_t* s, const int32_t* w, Optional<const int32_t> b,
                      const typename Requant<kRounding>::Stored* scale, int8_t* y) const {
    each([&](int, int k, int e, int at) {
      y[e] = this->epilogue.template int8<kRounding>(moved(s[at], w[k], this->x_zero), b, scale, k);
    });
  }

  template <class T>
  constexpr void dynamic(const int32_t* s, const int32_t*, Optional<const T> b, const T* scale, PerRow<const T> x_scale,
                         T* y) const {
    each([&](int r, int k, int e, int at) {
      y[e] = this->epilogue.template dynamic<T>(s[at], b, scale, x_scale[scale_row(*this, r)], k);
    });
  }

  constexpr void hybrid(const int32_t* s, const int32_t* w, Optional<const float> b, const float* scale,
                        const float* x_scale, const int32_t* x_zeros, float* y) const {
    each([&](int r, int k, int e, int at) {
      const int n = zero_row(*this, r);
      y[e] = this->epilogue.template scaled<float>(float(moved(s[at], w[k], x_zeros[n])), b, scale, x_scale[n], k);
    });
  }

  template <class T>
  constexpr void float8(const float* s, const Float8E4M3*, Optional<const T> b, const float* scale,
                        PerRow<const float> x_scale, T* y) const {
    each([&](int r, int k, int e, int at) {
      y[e] = this->epilogue.template scaled<T>(s[at], b, scale, x_scale[scale_row(*this, r)], k);
    });
  }

  constexpr void float8_quantized(const float* s, const Float8E4M3*, Optional<const float> b, const float* scale,
                                  PerRow<const float> x_scale, const float* y_scale, Float8E4M3* y) const {
    each([&](int r, int k, int e, int at) {
      y[e] = this->epilogue.float8_quantized(s[at], b, scale, x_scale[scale_row(*this, r)], y_scale[0], k);
    });
  }

 private:
  // Calls f(row, column, e, at) for every element e of y, whose sum is s[at].
  template <class F>
  constexpr void each(F f) const {
    each_independent(product_rows(*this), product_columns(*this),
                     [&](int r, int k, int e) { f(r, k, e, r * row + k); });
  }

  // Returns sum_i (x_i - zero) w_i from sum_i x_i w_i and sum_i w_i. It wraps like the op's sum.
  static constexpr int32_t moved(int32_t sum, int32_t weights, int zero) {
    return int32_t(uint32_t(sum) - uint32_t(zero) * uint32_t(weights));
  }
};

template <class O>
struct Columns : O {
  int row;  // numbers in a row; 0 past the window

  static constexpr Columns from(const Words& words, const Operands& operands) {
    return {O::from(words, operands), words.integer(kRowWord)};
  }

  template <class T>
  constexpr void of_input(const T* x, const T*, T* to) const {
    fill(x, to);
  }
  template <class T>
  constexpr void of_second(const T*, const T* x, T* to) const {
    fill(x, to);
  }

 private:
  template <class T>
  constexpr void fill(const T* x, T* to) const {
    const WindowAxis &h = this->window.h, &w = this->window.w;
    const T outside = T(float(this->x_zero));
    each_independent(this->batch, h.out, w.out, row, [&](int n, int o, int v, int i, int e) {
      const int group = i / this->w_channel, tap = i % this->w_channel / this->group_in;
      const int c = group * this->group_in + i % this->group_in;
      const int p = h.position(o, tap / w.kernel), q = w.position(v, tap % w.kernel);
      const bool inside = h.inside(p) && w.inside(q);
      if (c >= this->in_c) to[e] = T();
      else to[e] = inside ? x[((n * h.in + p) * w.in + q) * this->in_c + c] : outside;
    });
  }
};

// to_{i, nhv} = columns_{nhv, i}. An element is 0 if i is past the terms of a window, or nhv past the last pixel of y.
struct TurnedColumns : Conv2dGradientW {
  int rows, row;

  static constexpr TurnedColumns from(const Words& words, const Operands& operands) {
    return {Conv2dGradientW::from(words, operands), words.integer(kRowsWord), words.integer(kRowWord)};
  }

  template <class T>
  constexpr void of_second(const T*, const T* x, T* to) const {
    const WindowAxis &h = window.h, &w = window.w;
    const int pixels = batch * h.out * w.out;
    each_independent(rows, row, [&](int i, int pixel, int e) {
      const int tap = i % w_channel / group_in, c = i / w_channel * group_in + i % group_in;
      const int p = h.position(pixel / w.out % h.out, tap / w.kernel), q = w.position(pixel % w.out, tap % w.kernel);
      const bool read = c < in_c && pixel < pixels && h.inside(p) && w.inside(q);
      to[e] = read ? x[((pixel / w.out / h.out * h.in + p) * w.in + q) * in_c + c] : T();
    });
  }
};

// dx_npqc = sum_{i,j,k} uses_{npq, ijk} turned_{ijk, c}
struct Uses : Conv2dGradientX {
  int row;  // numbers in a row of uses; 0 past the last

  static constexpr Uses from(const Words& words, const Operands& operands) {
    return {Conv2dGradientX::from(words, operands), words.integer(kRowWord)};
  }

  template <class T>
  constexpr void of_gradient(const T* dy, const T*, T* to) const {
    const WindowAxis &h = window.h, &w = window.w;
    each_independent(batch, h.in, w.in, row, [&](int n, int p, int q, int i, int e) {
      const int tap = tap_of(i), o = h.output(p, tap / w.kernel), v = w.output(q, tap % w.kernel);
      const bool used = i < h.kernel * w.kernel * out_c && o >= 0 && v >= 0;
      to[e] = used ? dy[((n * h.out + o) * w.out + v) * out_c + channel_of(i)] : T();
    });
  }
  template <class T>
  constexpr void turned(const T*, const T* w, T* to) const {
    each_independent(window.h.kernel * window.w.kernel * out_c, group_in,
                     [&](int i, int c, int e) { to[e] = w[channel_of(i) * w_channel + tap_of(i) * w_column + c]; });
  }
  template <class T>
  constexpr void turned_codes(const T*, const T* w, T* to) const {
    each_independent(in_c, of_group(), [&](int c, int i, int e) {
      const int k = c / group_in * group_out + i % group_out;
      to[e] = w[k * w_channel + i / group_out * w_column + c % group_in];
    });
  }

 private:
  constexpr int of_group() const { return window.h.kernel * window.w.kernel * group_out; }
  constexpr int tap_of(int i) const { return i % of_group() / group_out; }
  constexpr int channel_of(int i) const { return i / of_group() * group_out + i % group_out; }
};

// to [to_rows, to_columns], x [rows, columns]: to_ij = x_ij, and 0 if x has no such element.
struct CopiedRows {
  int rows, columns, to_rows, to_columns;

  static constexpr CopiedRows from(const Words& words, const Operands&) {
    return {words.integer(0), words.integer(1), words.integer(2), words.integer(3)};
  }

  template <class T>
  constexpr void copy(const T* x, T* to) const {
    each_independent(to_rows, to_columns,
                     [&](int i, int j, int e) { to[e] = i < rows && j < columns ? x[i * columns + j] : T(); });
  }
};

// to_ij = x_ji, x [columns, rows].
struct TurnedRows : CopiedRows {
  static constexpr TurnedRows from(const Words& words, const Operands& operands) {
    return {CopiedRows::from(words, operands)};
  }

  template <class T>
  constexpr void turn(const T* x, T* to) const {
    each_independent(to_rows, to_columns,
                     [&](int i, int j, int e) { to[e] = i < rows && j < columns ? x[j * rows + i] : T(); });
  }
};

// to_ij += x_ij
struct AddedRows : CopiedRows {
  static constexpr AddedRows from(const Words& words, const Operands& operands) {
    return {CopiedRows::from(words, operands)};
  }

  constexpr void add(const float* x, Update<float> to) const {
    each_independent(to_rows, to_columns, [&](int i, int j, int e) { to.data[e] += x[i * columns + j]; });
  }
};

struct WeightSums {
  int out, in;

  static constexpr WeightSums from(const Words&, const Operands& operands) {
    const Shape w = operands[0];
    return {w[0], w.product(1, w.rank)};
  }

  constexpr void sums(const int8_t* w, int32_t* to) const {
    for (int k : teams(out)) {
      uint32_t sum = 0;
      for (int i : of_team(in)) sum += uint32_t(w[k * in + i]);
      sum = team_sum(sum);
      if (leads()) to[k] = int32_t(sum);
    }
  }
};

}  // namespace nacre::inline NACRE_ISA
