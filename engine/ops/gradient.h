// Defines gradient steps that many ops share: sums over broadcast axes, and sums over steps.
//
//   dy [n ..]   the gradient of a broadcast y, of rank n
//   x [m ..]    aligned with y at the last axis, m <= n; a dim that is 1 or absent was repeated
//
//   sum_to          dx = +-sum of dy over the axes along which x was repeated
//   bias_gradient   s += sum of dy over the axes along which s was repeated; for a bias [channels] all but the last
//   accumulate      s += x, where the sum has a wider type than x
//   zeros           y = 0, with the dims in the attributes, if a step adds the gradient of a value, not of a parameter
//
// sum_to with the dims of dy and sign + would be dy itself. The converter leaves such a step out.
#pragma once

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/walk.h"

namespace nacre::inline NACRE_ISA {

// Number of channels whose sums one thread computes side by side, each rounded once. They take at most 256 bytes of
// stack. On a device it is one channel, because its threads already run side by side.
inline constexpr int kRun = kThreads ? 1 : 32;

// Return how many runs `channels` has, and the length of one run.
constexpr int runs_of(int channels) { return (channels - 1) / kRun + 1; }
constexpr int length_of_run(int channels, int run) {
  const int rest = channels - run * kRun;
  return rest < kRun ? rest : kRun;
}

// Adds sum[c] += sum_r f(r, c) for `count` columns, at most kColumns. Rows are added in blocks: the error of a sum
// grows with kBlockRows + rows / kBlockRows, not with rows. On a device a team adds, and each of its threads gets the
// sum.
inline constexpr int kColumns = kThreads ? 1 : 16, kBlockRows = 128;

template <class A, class F>
constexpr void add_columns(int rows, int count, A* sum, F f) {
  if constexpr (kThreads) {
    const auto share = of_team(rows);
    auto r = share.begin();
    A mine = leads() ? sum[0] : A(0);
    while (r != share.end()) {
      A part = 0;
      for (int n = 0; n < kBlockRows && r != share.end(); ++n, ++r) part += f(*r, 0);
      mine += part;
    }
    sum[0] = team_sum(mine);
    return;
  }
  for (int r = 0; r < rows;) {
    const int end = rows - r < kBlockRows ? rows : r + kBlockRows;
    A part[kColumns] = {};
    for (; r < end; ++r)
      for (int c = 0; c < count; ++c) part[c] += f(r, c);
    for (int c = 0; c < count; ++c) sum[c] += part[c];
  }
}

// Calls f(first, count) for runs of at most kColumns columns, out of `columns` columns. A team makes each run.
template <class F>
constexpr void each_columns(int columns, F f) {
  for (int run : teams((columns - 1) / kColumns + 1)) {
    const int first = run * kColumns;
    f(first, columns - first < kColumns ? columns - first : kColumns);
  }
}

// Writes the compiled dims as attributes {rank, dims[8]}. Returns the number of words.
constexpr int words_of_dims(Shape shape, uint32_t* made) {
  made[0] = uint32_t(shape.rank);
  for (int axis = 0; axis < kMaxRank; ++axis) made[1 + axis] = axis < shape.rank ? uint32_t(shape.dims[axis]) : 0;
  return 1 + kMaxRank;
}

// Reads dims from untrusted words. They must be in [1, 2^28], with fewer than 2^31 elements.
constexpr Code dims_of_words(const Words& words, int first, Dims* dims) {
  if (words[first] > uint32_t(kMaxRank)) return Code::kShapeRank;
  int64_t elements = 1;
  for (int axis = 0; axis < words.integer(first); ++axis) {
    const uint32_t dim = words[first + 1 + axis];
    if (dim < 1 || dim > 1u << 28) return Code::kAttribute;
    if ((elements *= dim) > INT32_MAX) return Code::kElements;
    dims->push(int32_t(dim));
  }
  return Code::kOk;
}

// Reads the dims of x from words at `first`. If axis 0 of x is axis 0 of y, its size is the rows of this run.
constexpr Code broadcast_source(const Words& words, int first, Shape y, Dims* x) {
  NACRE_TRY_CODE(dims_of_words(words, first, x));
  if (x->rank > y.rank) return Code::kShapeRank;
  for (int axis = 0; axis < x->rank; ++axis) {
    const int size = y.dims[y.rank - x->rank + axis];
    if (x->size[axis] != 1 && x->size[axis] != size) return Code::kShapeInput;
  }
  if (y.rows > 0 && x->rank == y.rank && x->rank > 0 && x->size[0] == y.dims[0]) x->size[0] = y.rows;
  return Code::kOk;
}

// Walks over x (outer) and, for each element of x, over the elements of y that repeat it (inner). Offsets are into y.
struct Repeats {
  Walk<1> outer, inner;

  constexpr Repeats(const Dims& x, Shape y) {
    for (int axis = 0; axis < y.rank; ++axis) {
      const int i = axis - (y.rank - x.rank);
      const bool repeated = i < 0 || (x.size[i] == 1 && y[axis] != 1);
      Walk<1>& walk = repeated ? inner : outer;
      walk.size[walk.rank] = y[axis];
      walk.stride[0][walk.rank++] = stride_of(y, axis);
    }
  }
};

struct SumTo {
  Shape y;
  Words words;

  enum Word { kClamp = 0, kRank = 1, kNegative = 2 + kMaxRank };

  static constexpr SumTo from(const Words& words, const Operands& operands) { return {operands[0], words}; }

  template <class T>
  constexpr void forward(const T* dy, T* dx) const {
    using A = typename Element<T>::Accumulator;
    Dims x;
    if (broadcast_source(words, kRank, y, &x) != Code::kOk) return;  // the shape rule refuses it
    const Repeats repeats(x, y);
    const bool negative = words[kNegative] != 0;
    repeats.outer.each_independent([&](const int32_t* at, int e) {
      A sum = 0;
      repeats.inner.each([&](const int32_t* i) { sum += A(dy[at[0] + i[0]]); });
      dx[e] = T(negative ? -sum : sum);
    });
  }

  constexpr uint64_t work() const { return uint64_t(uint32_t(y.elements())); }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* dx) {
    if (words[kClamp] != 0 || words[kNegative] > 1) return Code::kAttribute;
    return broadcast_source(words, kRank, operands[0], dx);
  }

  // "clamp" is that of the step which is differentiated. The shape rule refuses any clamp.
  static constexpr Attribute kAttributes[] = {{"clamp"}, {"rank"}, {"dims", Coding::kInteger, kMaxRank}, {"negative"}};
  static constexpr const char* kInputs[] = {"dy"};
  static constexpr const char* kOutputs[] = {"dx"};
};

struct BiasGradient {
  int rows, columns;  // of dy as a matrix, if the sum has one value per column; else 0, and `walk` is used
  Walk<1> walk;       // over dy, with offsets into the sum

  static constexpr BiasGradient from(const Words&, const Operands& operands) {
    const Shape y = operands[0], x = operands[1];
    const int lead = y.rank - x.rank;
    BiasGradient op = {.rows = y.product(0, lead), .columns = y.product(lead, y.rank), .walk = {}};
    op.walk.rank = y.rank;
    for (int axis = 0; axis < y.rank; ++axis) {
      op.walk.size[axis] = y[axis];
      op.walk.stride[0][axis] = axis < lead || x[axis - lead] == 1 ? 0 : stride_of(x, axis - lead);
    }
    if (op.columns != x.elements()) op.rows = op.columns = 0;
    return op;
  }

  template <class T>
  constexpr void forward(const T* dy, Update<typename Element<T>::Accumulator> sum) const {
    using A = typename Element<T>::Accumulator;
    if (rows == 0) {
      if (!in_order()) return;
      walk.each([&](const int32_t* at) { sum.data[at[0]] += A(*dy++); });
      return;
    }
    each_columns(columns, [&](int first, int count) {
      const T* d = dy + first;
      add_columns(rows, count, sum.data + first, [&](int r, int c) { return A(d[r * columns + c]); });
    });
  }

  constexpr uint64_t work() const {
    uint64_t elements = 1;
    for (int i = 0; i < walk.rank; ++i) elements *= uint64_t(walk.size[i]);
    return elements;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    const Shape y = operands[0], x = operands[1];
    if (words[0] != 0) return Code::kAttribute;
    if (x.rank > y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < x.rank; ++axis)
      if (x[axis] != 1 && x[axis] != y[y.rank - x.rank + axis]) return Code::kShapeInput;
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"clamp"}};  // refused unless 0, as in sum_to
  static constexpr const char* kInputs[] = {"dy", "&sum"};
};

struct Accumulate {
  int elements;

  static constexpr Accumulate from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  constexpr void forward(const T* x, Update<typename Element<T>::Accumulator> sum) const {
    using A = typename Element<T>::Accumulator;
    for (int i : independent(elements)) sum.data[i] += A(x[i]);
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    return operands[0].elements() == operands[1].elements() ? Code::kOk : Code::kShapeInput;
  }

  static constexpr const char* kInputs[] = {"x", "&sum"};
};

// Make the attributes of bias_gradient, {clamp}, and of sum_to and mul_gradient, {clamp, dims of the input, sign}, from
// those of the step. kClamp is the word of the clamp.
template <int kClamp>
constexpr int bias_words(const Words& words, const Operands&, int, uint32_t* made) {
  made[0] = words[kClamp];
  return 1;
}
template <int kClamp, bool kNegative = false>
constexpr int sum_words(const Words& words, const Operands& operands, int input, uint32_t* made) {
  made[0] = words[kClamp];
  const int count = 1 + words_of_dims(operands[input], made + 1);
  made[count] = kNegative ? 1 : 0;
  return count + 1;
}

inline constexpr OpRule kSumToRule = {.op = Op::kSumTo,
                                      .name = "sum_to",
                                      .numerics = Numerics::kReduction,
                                      .shapes = &SumTo::shapes,
                                      .attributes = SumTo::kAttributes,
                                      .inputs = SumTo::kInputs,
                                      .outputs = SumTo::kOutputs};
inline constexpr OpRule kBiasGradientRule = {.op = Op::kBiasGradient,
                                             .name = "bias_gradient",
                                             .numerics = Numerics::kReduction,
                                             .shapes = &BiasGradient::shapes,
                                             .attributes = BiasGradient::kAttributes,
                                             .inputs = BiasGradient::kInputs,
                                             .outputs = {},
                                             .threads = {.teams = &elements_of_last}};
inline constexpr OpRule kAccumulateRule = {.op = Op::kAccumulate,
                                           .name = "accumulate",
                                           .numerics = Numerics::kPointwise,
                                           .shapes = &Accumulate::shapes,
                                           .attributes = {},
                                           .inputs = Accumulate::kInputs,
                                           .outputs = {}};

struct Zeros {
  int elements;

  static constexpr Zeros from(const Words&, const Operands& operands) { return {operands[0].elements()}; }

  template <class T>
  constexpr void forward(T* y) const {
    for (int i : independent(elements)) y[i] = 0;
  }

  static constexpr Code shapes(const Words& words, const Operands&, Dims* y) { return dims_of_words(words, 0, y); }

  static constexpr Attribute kAttributes[] = {{"rank"}, {"dims", Coding::kInteger, kMaxRank}};
  static constexpr const char* kOutputs[] = {"y"};
};

inline constexpr OpRule kZerosRule = {.op = Op::kZeros,
                                      .name = "zeros",
                                      .numerics = Numerics::kMove,
                                      .shapes = &Zeros::shapes,
                                      .attributes = Zeros::kAttributes,
                                      .inputs = {},
                                      .outputs = Zeros::kOutputs};

}  // namespace nacre::inline NACRE_ISA
