// Multiplies two stacks of matrices; both may be computed at run time.
//
//   a [.., m, k] or with transpose_a [.., k, m]   b [.., k, n] or with transpose_b [.., n, k]   y [.., m, n]
//
//   y = a' b',  a' and b' being a and b or their transposes; leading dims are broadcast as in numpy
//
// Products of codes have one pair requant [1, 2]. Zero points of int16 are 0.
//
//   int8   y_ij = clamp(zero_y + requant(sum_p (a'_ip - zero_a) (b'_pj - zero_b)))       NUMERICS.md eq. 1
//   int16  y_ij = clamp(requant(sum_p a'_ip b'_pj)), the sum in int64                    NUMERICS.md eq. 23
//
// Backward. If the leading dims of an operand were repeated, its gradient is the sum over the repetitions:
//
//   da' = dy b'^T    db' = a'^T dy     and da, db are these or their transposes
//
// The gradient step of a reads a only for its shape, which broadcasting makes impossible to tell from dy. The
// gradient step of b reads b for the same reason.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/independent.h"

namespace nacre::inline NACRE_ISA {

// A matrix that may be stored transposed.
template <class T>
struct MatrixView {
  const T* data;
  int row, column;  // strides

  constexpr const T& operator()(int i, int j) const { return data[i * row + j * column]; }
};

struct BatchedMatmul {
  int m, n, k;
  bool transpose_a, transpose_b;
  Shape a, b;  // leading dims
  int a_zero, b_zero, y_zero;

  enum Word { kTransposeA = 0, kTransposeB = 1, kAZero = 2, kBZero = 3, kYZero = 4 };
  enum Operand { kA, kB, kRequant };

  static constexpr BatchedMatmul from(const Words& words, const Operands& operands) {
    return make(words, operands[0], operands[1]);
  }

  constexpr uint64_t work() const {
    Dims batch;
    broadcast_shape(a, b, &batch);
    uint64_t product = uint64_t(uint32_t(m)) * uint32_t(n);  // <= 2^31, as the elements of y
    for (int i = 0; i < batch.rank; ++i) product *= uint32_t(batch.size[i]);
    return product * uint32_t(k);
  }

  template <class T>
  constexpr void forward(const T* a_data, const T* b_data, T* y) const {
    using A = typename Element<T>::Accumulator;
    batches().each_independent(m * n, [&](const int32_t* at, int element, int e) {
      const MatrixView<T> left = matrix_a(a_data + at[0] * (m * k)), right = matrix_b(b_data + at[1] * (k * n));
      const int i = element / n, j = element % n;
      A sum = 0;
      for (int p = 0; p < k; ++p) sum += A(left(i, p)) * A(right(p, j));
      y[e] = T(sum);
    });
  }

  constexpr void forward_int8(const int8_t* a_data, const int8_t* b_data, const int32_t* requant, int8_t* y) const {
    each_sum<uint32_t>(a_data, b_data, [&](uint32_t sum, int e) {
      y[e] = to_code<Rounding::kDouble, int8_t>(int32_t(sum), requant, y_zero, Clamp());
    });
  }
  constexpr void forward_int16(const int16_t* a_data, const int16_t* b_data, const int32_t* requant, int16_t* y) const {
    each_sum<uint64_t>(a_data, b_data, [&](uint64_t sum, int e) {
      y[e] = Clamp().code<int16_t>(multiply_wide(int64_t(sum), {requant[0], requant[1]}));
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape a = operands[0], b = operands[1];
    if (words[kTransposeA] > 1 || words[kTransposeB] > 1) return Code::kAttribute;
    const ElementType type = operands.element(kA);
    if (type == ElementType::kInt8 || type == ElementType::kInt16) {
      for (const int word : {kAZero, kBZero, kYZero}) NACRE_TRY_CODE(check_zero(words.integer(word), type));
      NACRE_TRY_CODE(check_pairs(operands, kRequant, 1));
    }
    if (a.rank < 2 || b.rank < 2) return Code::kShapeRank;
    const int m = a[a.rank - 2 + words.integer(kTransposeA)], k = a[a.rank - 1 - words.integer(kTransposeA)];
    const int n = b[b.rank - 1 - words.integer(kTransposeB)];
    if (b[b.rank - 2 + words.integer(kTransposeB)] != k) return Code::kShapeInput;
    NACRE_TRY_CODE(broadcast_shape(leading(a), leading(b), y));
    int64_t elements = m;
    for (int axis = 0; axis < y->rank && elements <= INT32_MAX; ++axis) elements *= y->size[axis];
    if (elements > INT32_MAX || elements * n > INT32_MAX) return Code::kOverflow;
    y->push(m);
    y->push(n);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"transpose_a"}, {"transpose_b"}, {"a_zero"}, {"b_zero"}, {"y_zero"}};
  static constexpr const char* kInputs[] = {"a", "b", "requant?"};
  static constexpr const char* kOutputs[] = {"y"};
  static constexpr Gradient kGradients[] = {
      {.of = kOf<0>, .by = Op::kBatchedMatmulGradientA, .reads = kReads<input_of(0), input_of(1), gradient_of(0)>},
      {.of = kOf<1>, .by = Op::kBatchedMatmulGradientB, .reads = kReads<input_of(0), input_of(1), gradient_of(0)>}};

 protected:
  static constexpr Shape leading(Shape x) { return {x.rank - 2, x.dims, x.rank > 2 ? x.rows : 0}; }

  static constexpr BatchedMatmul make(const Words& words, Shape a, Shape b) {
    const int ta = words.integer(kTransposeA), tb = words.integer(kTransposeB);
    return {.m = a[a.rank - 2 + ta],
            .n = b[b.rank - 1 - tb],
            .k = a[a.rank - 1 - ta],
            .transpose_a = ta != 0,
            .transpose_b = tb != 0,
            .a = leading(a),
            .b = leading(b),
            .a_zero = words.integer(kAZero),
            .b_zero = words.integer(kBZero),
            .y_zero = words.integer(kYZero)};
  }

  template <class T>
  constexpr MatrixView<T> matrix_a(const T* data) const {
    return transpose_a ? MatrixView<T>{data, 1, m} : MatrixView<T>{data, k, 1};
  }
  template <class T>
  constexpr MatrixView<T> matrix_b(const T* data) const {
    return transpose_b ? MatrixView<T>{data, 1, k} : MatrixView<T>{data, n, 1};
  }

  // Calls f(the sum of element e of y, e). Sums are unsigned, because those of an untrusted model may wrap.
  template <class U, class T, class F>
  constexpr void each_sum(const T* a_data, const T* b_data, F f) const {
    batches().each_independent(m * n, [&](const int32_t* at, int element, int e) {
      const MatrixView<T> left = matrix_a(a_data + at[0] * (m * k)), right = matrix_b(b_data + at[1] * (k * n));
      const int i = element / n, j = element % n;
      U sum = 0;
      for (int p = 0; p < k; ++p) sum += (U(left(i, p)) - U(a_zero)) * (U(right(p, j)) - U(b_zero));
      f(sum, e);
    });
  }

  // Walks over the matrices of y. Offsets count matrices of a and b.
  constexpr Walk<2> batches() const {
    Dims y;
    broadcast_shape(a, b, &y);
    return broadcast_walk(a, b, {y.rank, y.size, 0});
  }
};

struct BatchedMatmulGradient : BatchedMatmul {
 protected:
  // Walks over the matrices of x and, for each, over its repetitions in y. Offsets count matrices of the other
  // operand and of y.
  struct Repetitions {
    Walk<2> outer, inner;

    constexpr Repetitions(Shape x, Shape other) {
      Dims y;
      broadcast_shape(x, other, &y);
      const Shape whole = {y.rank, y.size, 0};
      const Walk<2> both = broadcast_walk(x, other, whole);
      for (int axis = 0; axis < y.rank; ++axis) {
        Walk<2>& walk = both.stride[0][axis] == 0 ? inner : outer;
        walk.size[walk.rank] = y.size[axis];
        walk.stride[0][walk.rank] = both.stride[1][axis];
        walk.stride[1][walk.rank++] = stride_of(whole, axis);
      }
    }

    // Calls f(matrix of other, matrix of y) for all repetitions of the matrix of x at `outer`.
    template <class F>
    constexpr void each(const int32_t* at, F f) const {
      inner.each([&](const int32_t* i) { f(at[0] + i[0], at[1] + i[1]); });
    }
  };

  static constexpr Code shapes_of(int which, const Words& words, const Operands& operands, Dims* dx) {
    Dims y;
    NACRE_TRY_CODE(BatchedMatmul::shapes(words, operands, &y));
    if (!same(operands[2], {y.rank, y.size, 0})) return Code::kShapeInput;
    *dx = dims_of(operands[which]);
    return Code::kOk;
  }
};

struct BatchedMatmulGradientA : BatchedMatmulGradient {
  static constexpr BatchedMatmulGradientA from(const Words& words, const Operands& operands) {
    return {make(words, operands[0], operands[1])};
  }

  template <class T>
  constexpr void forward(const T*, const T* b_data, const T* dy, T* da) const {
    using A = typename Element<T>::Accumulator;
    const Repetitions repetitions(a, b);
    repetitions.outer.each_independent(m * k, [&](const int32_t* at, int element, int e) {
      const int i = transpose_a ? element % m : element / k, p = transpose_a ? element / m : element % k;
      A sum = 0;
      repetitions.each(at, [&](int b_matrix, int y_matrix) {
        const MatrixView<T> right = matrix_b(b_data + b_matrix * (k * n));
        const T* row = dy + y_matrix * (m * n) + i * n;
        for (int j = 0; j < n; ++j) sum += A(row[j]) * A(right(p, j));
      });
      da[e] = T(sum);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* da) {
    return shapes_of(0, words, operands, da);
  }

  static constexpr const char* kInputs[] = {"a", "b", "dy"};
  static constexpr const char* kOutputs[] = {"da"};
};

struct BatchedMatmulGradientB : BatchedMatmulGradient {
  static constexpr BatchedMatmulGradientB from(const Words& words, const Operands& operands) {
    return {make(words, operands[0], operands[1])};
  }

  template <class T>
  constexpr void forward(const T* a_data, const T*, const T* dy, T* db) const {
    using A = typename Element<T>::Accumulator;
    const Repetitions repetitions(b, a);
    repetitions.outer.each_independent(k * n, [&](const int32_t* at, int element, int e) {
      const int p = transpose_b ? element % k : element / n, j = transpose_b ? element / k : element % n;
      A sum = 0;
      repetitions.each(at, [&](int a_matrix, int y_matrix) {
        const MatrixView<T> left = matrix_a(a_data + a_matrix * (m * k));
        const T* column = dy + y_matrix * (m * n) + j;
        for (int i = 0; i < m; ++i) sum += A(left(i, p)) * A(column[i * n]);
      });
      db[e] = T(sum);
    });
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* db) {
    return shapes_of(1, words, operands, db);
  }

  static constexpr const char* kOutputs[] = {"db"};
};

inline constexpr OpRule kBatchedMatmulRule = {.op = Op::kBatchedMatmul,
                                              .name = "batched_matmul",
                                              .numerics = Numerics::kMatmul,
                                              .shapes = &BatchedMatmul::shapes,
                                              .attributes = BatchedMatmul::kAttributes,
                                              .inputs = BatchedMatmul::kInputs,
                                              .outputs = BatchedMatmul::kOutputs,
                                              .gradients = BatchedMatmul::kGradients,
                                              .parameters = 0b11};
inline constexpr OpRule kBatchedMatmulGradientARule = {.op = Op::kBatchedMatmulGradientA,
                                                       .name = "batched_matmul_gradient_a",
                                                       .numerics = Numerics::kMatmul,
                                                       .shapes = &BatchedMatmulGradientA::shapes,
                                                       .attributes = BatchedMatmul::kAttributes,
                                                       .inputs = BatchedMatmulGradientA::kInputs,
                                                       .outputs = BatchedMatmulGradientA::kOutputs};
inline constexpr OpRule kBatchedMatmulGradientBRule = {.op = Op::kBatchedMatmulGradientB,
                                                       .name = "batched_matmul_gradient_b",
                                                       .numerics = Numerics::kMatmul,
                                                       .shapes = &BatchedMatmulGradientB::shapes,
                                                       .attributes = BatchedMatmul::kAttributes,
                                                       .inputs = BatchedMatmulGradientA::kInputs,
                                                       .outputs = BatchedMatmulGradientB::kOutputs};

}  // namespace nacre::inline NACRE_ISA
