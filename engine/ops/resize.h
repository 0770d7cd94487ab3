// Interpolates a map at another size, each axis separately. Each axis has a table of the positions that its outputs
// read, and one of weights.
//
//   x [batch, in_h, in_w, channels]   y [batch, out_h, out_w, channels]
//   r [out_h], int32: the first row of x that output row i reads; u [out_h, m]: the weights of the m rows from there on
//   s [out_w], int32, v [out_w, n]: the same for columns
//
//   y_ijc = sum_p sum_q u_ip v_jq x[r_i + p, s_j + q, c],   p < m, q < n
//
// Without u or v, their one weight is 1. Without both, y takes the nearest element and nothing is computed. The
// converter makes the tables. So nearest, linear and cubic interpolation of every convention, antialiased or not, are
// one op. Interpolation along one axis, or three, is this op over other shapes of the same bytes.
//
// In int8 and int16, x and y have one quantizer. u and v are int32, in units of 2^-10, and the sum is rounded half
// away from zero. With linear weights this equals TensorFlow Lite's kernel (reference/resize_bilinear.h) to the bit.
// If |u| and |v| each sum to less than 2, the sum of int8 fits into int32 and that of int16 into int64. With other
// tables it wraps.
//
// Backward: dx_pqc = sum_ij u_i,p-r_i v_j,q-s_j dy_ijc over the i and j that read (p, q). r and s do not decrease.
//
// A table that reads outside of x is refused at run time with Code::kIndex before anything is written. So is a table
// of the gradient that decreases.
#pragma once

#include <type_traits>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/gradient.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Resize {
  struct Axis {
    int in, out, taps;
  };
  int batch, channels;
  Axis h, w;

  enum Operand { kX, kFirstRows, kFirstColumns, kRowWeights, kColumnWeights };
  static constexpr int kFraction = 10;  // fraction bits of the weights of an int8 or int16 step

  static constexpr Resize from(const Words&, const Operands& operands) {
    const Shape x = operands[kX];
    return {x[0], x[3], axis_of(operands, kFirstRows, x[1]), axis_of(operands, kFirstColumns, x[2])};
  }

  template <class T>
  constexpr Code forward(const T* x, const int32_t* rows, const int32_t* columns,
                         Optional<const typename Element<T>::Accumulator> row_weights,
                         Optional<const typename Element<T>::Accumulator> column_weights, T* y) const {
    using A = typename Element<T>::Accumulator;
    NACRE_TRY_CODE(check(rows, columns));
    if (!row_weights && !column_weights) return move(x, rows, columns, y);
    each_run([&](int n, int i, int j, int first, int count, int at) {
      A sum[kRun] = {};
      for (int p = 0; p < h.taps; ++p)
        for (int q = 0; q < w.taps; ++q) {
          const A weight = of<A>(row_weights, i * h.taps + p, 1) * of<A>(column_weights, j * w.taps + q, 1);
          const T* from = x + index(n, rows[i] + p, columns[j] + q) + first;
          for (int c = 0; c < count; ++c) sum[c] += weight * A(from[c]);
        }
      for (int c = 0; c < count; ++c) y[at + c] = T(sum[c]);
    });
    return Code::kOk;
  }

  template <class Q>  // int8 or int16
  constexpr Code forward_codes(const Q* x, const int32_t* rows, const int32_t* columns,
                               Optional<const int32_t> row_weights, Optional<const int32_t> column_weights,
                               Q* y) const {
    using S = std::conditional_t<sizeof(Q) == 1, int32_t, int64_t>;
    using U = std::make_unsigned_t<S>;  // may wrap
    NACRE_TRY_CODE(check(rows, columns));
    if (!row_weights && !column_weights) return move(x, rows, columns, y);
    each_run([&](int n, int i, int j, int first, int count, int at) {
      U sum[kRun] = {};
      for (int p = 0; p < h.taps; ++p)
        for (int q = 0; q < w.taps; ++q) {
          const U weight = of<U>(row_weights, i * h.taps + p, 1 << kFraction) *
                           of<U>(column_weights, j * w.taps + q, 1 << kFraction);
          const Q* from = x + index(n, rows[i] + p, columns[j] + q) + first;
          for (int c = 0; c < count; ++c) sum[c] += weight * U(S{from[c]});
        }
      for (int c = 0; c < count; ++c) y[at + c] = rounded<Q>(S(sum[c]));
    });
    return Code::kOk;
  }

  constexpr uint64_t work() const {
    return uint64_t(batch) * uint64_t(h.out) * uint64_t(w.out) * uint64_t(channels) * uint64_t(h.taps) *
           uint64_t(w.taps);
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims* y) {
    const Shape x = operands[kX];
    if (x.rank != 4) return Code::kShapeRank;
    NACRE_TRY_CODE(check_axis(operands, kFirstRows, x[1]));
    NACRE_TRY_CODE(check_axis(operands, kFirstColumns, x[2]));
    *y = {4, {x[0], operands[kFirstRows][0], operands[kFirstColumns][0], x[3]}};
    return below_limit(*y) ? Code::kOk : Code::kElements;
  }

  static constexpr const char* kInputs[] = {"x", "rows", "columns", "row_weights?", "column_weights?"};
  static constexpr const char* kOutputs[] = {"y"};

  // Makes the attributes of resize_gradient: {in_h, in_w}, so that x need not stay in memory.
  static constexpr int words_of_x(const Words&, const Operands& operands, int, uint32_t* made) {
    for (int axis = 1; axis < 3; ++axis) made[axis - 1] = uint32_t(operands[kX].dims[axis]);
    return 2;
  }
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>,
       .by = Op::kResizeGradient,
       .reads = kReads<gradient_of(0), input_of(kFirstRows), input_of(kFirstColumns), input_of(kRowWeights),
                       input_of(kColumnWeights)>,
       .words = &words_of_x}};

 protected:
  static constexpr int kToWeights = kRowWeights - kFirstRows;  // from the slot of a table to that of its weights

  static constexpr Axis axis_of(const Operands& operands, int table, int in) {
    return {in, operands[table][0], operands.has(table + kToWeights) ? operands[table + kToWeights][1] : 1};
  }

  static constexpr Code check_axis(const Operands& operands, int table, int in) {
    if (operands[table].rank != 1) return Code::kShapeRank;
    if (!operands.has(table + kToWeights)) return Code::kOk;
    const Shape weights = operands[table + kToWeights];
    if (weights.rank != 2) return Code::kShapeRank;
    return weights[0] == operands[table][0] && weights[1] <= in ? Code::kOk : Code::kShapeWeights;
  }

  static constexpr bool below_limit(const Dims& dims) {
    int64_t elements = 1;  // a product of factors in [1, 2^28]
    for (int axis = 0; axis < 4; ++axis)
      if ((elements *= dims.size[axis]) > INT32_MAX) return false;
    return true;
  }

  static constexpr bool inside(const int32_t* table, Axis axis) {
    for (int i = 0; i < axis.out; ++i)
      if (table[i] < 0 || table[i] > axis.in - axis.taps) return false;
    return true;
  }
  constexpr Code check(const int32_t* rows, const int32_t* columns) const {
    return inside(rows, h) && inside(columns, w) ? Code::kOk : Code::kIndex;
  }

  template <class A, class W>
  static constexpr A of(Optional<const W> weights, int i, A otherwise) {
    return weights ? A(weights[i]) : otherwise;
  }

  constexpr int index(int n, int row, int column) const { return ((n * h.in + row) * w.in + column) * channels; }

  // Calls f(n, i, j, first channel, how many, index into y) for every run of channels of y.
  template <class F>
  constexpr void each_run(F f) const {
    const int runs = runs_of(channels);
    each_independent(batch, h.out, w.out, runs, [&](int n, int i, int j, int run, int e) {
      const int first = run * kRun;
      f(n, i, j, first, length_of_run(channels, run), e / runs * channels + first);
    });
  }

 private:
  template <class T>
  constexpr Code move(const T* x, const int32_t* rows, const int32_t* columns, T* y) const {
    each_run([&](int n, int i, int j, int first, int count, int at) {
      const T* from = x + index(n, rows[i], columns[j]) + first;
      for (int c = 0; c < count; ++c) y[at + c] = from[c];
    });
    return Code::kOk;
  }

  template <class Q, class S>
  static constexpr Q rounded(S sum) {
    constexpr S kOne = 1 << 2 * kFraction, kHighest = (1 << (8 * sizeof(Q) - 1)) - 1;
    const S code = sum / kOne + (sum % kOne >= kOne / 2 ? 1 : sum % kOne <= -kOne / 2 ? -1 : 0);
    return Q(code < -kHighest - 1 ? -kHighest - 1 : code > kHighest ? kHighest : code);
  }
};

struct ResizeGradient : Resize {
  enum Word { kInH, kInW };

  static constexpr ResizeGradient from(const Words& words, const Operands& operands) {
    const Shape dy = operands[0];
    return {{dy[0], dy[3], axis_of(operands, kFirstRows, words.integer(kInH)),
             axis_of(operands, kFirstColumns, words.integer(kInW))}};
  }

  template <class T>
  constexpr Code forward(const T* dy, const int32_t* rows, const int32_t* columns,
                         Optional<const typename Element<T>::Accumulator> row_weights,
                         Optional<const typename Element<T>::Accumulator> column_weights, T* dx) const {
    using A = typename Element<T>::Accumulator;
    NACRE_TRY_CODE(check(rows, columns));
    if (decreases(rows, h.out) || decreases(columns, w.out)) return Code::kIndex;
    const int runs = runs_of(channels);
    each_independent(batch, h.in, w.in, runs, [&](int n, int p, int q, int run, int e) {
      const int first = run * kRun, count = length_of_run(channels, run);
      const int column = first_reader(columns, w, q);
      A sum[kRun] = {};
      for (int i = first_reader(rows, h, p); i < h.out && rows[i] <= p; ++i)
        for (int j = column; j < w.out && columns[j] <= q; ++j) {
          const A weight =
              of<A>(row_weights, i * h.taps + p - rows[i], 1) * of<A>(column_weights, j * w.taps + q - columns[j], 1);
          const T* d = dy + ((n * h.out + i) * w.out + j) * channels + first;
          for (int c = 0; c < count; ++c) sum[c] += weight * A(d[c]);
        }
      for (int c = 0; c < count; ++c) dx[e / runs * channels + first + c] = T(sum[c]);
    });
    return Code::kOk;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    const Shape dy = operands[0];
    if (dy.rank != 4) return Code::kShapeRank;
    for (const int word : {int{kInH}, int{kInW}})
      if (words[word] < 1 || words[word] > 1u << 28) return Code::kAttribute;
    NACRE_TRY_CODE(check_axis(operands, kFirstRows, words.integer(kInH)));
    NACRE_TRY_CODE(check_axis(operands, kFirstColumns, words.integer(kInW)));
    if (dy[1] != operands[kFirstRows][0] || dy[2] != operands[kFirstColumns][0]) return Code::kShapeInput;
    *dx = {4, {dy[0], words.integer(kInH), words.integer(kInW), dy[3]}};
    return below_limit(*dx) ? Code::kOk : Code::kElements;
  }

  static constexpr Attribute kAttributes[] = {{"in_h"}, {"in_w"}};
  static constexpr const char* kInputs[] = {"dy", "rows", "columns", "row_weights?", "column_weights?"};
  static constexpr const char* kOutputs[] = {"dx"};

 private:
  static constexpr bool decreases(const int32_t* table, int count) {
    for (int i = 1; i < count; ++i)
      if (table[i] < table[i - 1]) return true;
    return false;
  }

  // Returns the first output that reads position `at` or one after it. Taps reach from table[i] to table[i] + taps -
  // 1.
  static constexpr int first_reader(const int32_t* table, Axis axis, int at) {
    int low = 0, high = axis.out;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (table[middle] + axis.taps <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
};

inline constexpr OpRule kResizeRule = {.op = Op::kResize,
                                       .name = "resize",
                                       .numerics = Numerics::kReduction,
                                       .shapes = &Resize::shapes,
                                       .attributes = {},
                                       .inputs = Resize::kInputs,
                                       .outputs = Resize::kOutputs,
                                       .gradients = Resize::kGradients};
inline constexpr OpRule kResizeGradientRule = {.op = Op::kResizeGradient,
                                               .name = "resize_gradient",
                                               .numerics = Numerics::kReduction,
                                               .shapes = &ResizeGradient::shapes,
                                               .attributes = ResizeGradient::kAttributes,
                                               .inputs = ResizeGradient::kInputs,
                                               .outputs = ResizeGradient::kOutputs};

}  // namespace nacre::inline NACRE_ISA
