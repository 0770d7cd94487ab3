// Defines losses of classes: softmax cross-entropy of labels and of whole target distributions. Losses of single
// numbers are in loss_elementwise.h.
//
//   logits x [.., classes], rows = product of the leading dims     labels y int32 [..]     targets t [.., classes]
//
//   loss_r = -sum_k q_rk log p_rk,   p_rk = exp(x_rk - m_r) / S_r,   m_r = max_k x_rk,   S_r = sum_k exp(x_rk - m_r)
//          = sum_k q_rk (log S_r - (x_rk - m_r))
//   q_rk   = (1 - s) [k = y_r] + s / classes,  or of targets  (1 - s) t_rk + s / classes
//
// s is label_smoothing (Szegedy et al. 2015, arXiv:1512.00567, section 7), as in torch.nn.CrossEntropyLoss and Keras'
// CategoricalCrossentropy. Nothing overflows: every exponential is in [0, 1] and S_r >= 1.
//
// The step adds the sum over rows to `loss`, and the number of counted rows to `count` (float32: exact up to 2^24 in
// one step block). It never adds means; verdict computes the mean (commit.h). With `ignore`, rows whose label is
// ignore_index are not counted, as in torch. Any other label outside [0, classes) is refused with kIndex before
// anything is written.
//
// Backward, where seed is the loss scale and T_r = sum_k q_rk (1 for labels):
//
//   dx_rk = seed (T_r p_rk - q_rk);   0 in ignored rows
#pragma once

#include <cmath>

#include "engine/base/isa.h"
#include "engine/numeric/element.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"
#include "engine/ops/parts.h"

namespace nacre::inline NACRE_ISA {

// Returns at least the number of parts: one loss per row. In losses of single numbers a row is all after axis 0.
constexpr int64_t losses_of(const Operands& operands) {
  const int64_t rows = rows_of_first(operands), samples = operands[0][0];
  return rows < samples ? samples : rows;
}

// Adds up the loss of one run before adding it to the sum of the step, so that there are few roundings.
struct CrossEntropy {
  int rows, classes;
  float smoothing;
  bool ignores;
  int32_t ignored;

  enum Word { kSmoothing = 0, kIgnore = 1, kIgnoreIndex = 2 };

  static constexpr CrossEntropy from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    return {.rows = x.product(0, x.rank - 1),
            .classes = x.last(),
            .smoothing = words.real(kSmoothing),
            .ignores = words[kIgnore] != 0,
            .ignored = words.integer(kIgnoreIndex)};
  }

  constexpr uint64_t work() const { return uint64_t(rows) * uint64_t(classes); }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr Code of_labels(const T* x, const int32_t* y, Update<A> loss, Update<float> count,
                           Parts<A> parts = {}) const {
    if (!labels_fit(y)) return Code::kIndex;
    const auto row = [&](int r) {
      if (skips(y[r])) return A(0);
      return row_loss<T, A>(x + r * classes, A(1), [&](int k) { return label(A(smoothing), y[r], k); });
    };
    A sum = 0;
    if (!parts.sum(rows, row, &sum)) return Code::kOk;
    int counted = 0;
    for (int r : of_team(rows)) counted += skips(y[r]) ? 0 : 1;
    counted = team_sum(counted);
    if (!leads()) return Code::kOk;
    loss.data[0] += sum;
    count.data[0] += float(counted);
    return Code::kOk;
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void of_targets(const T* x, const T* t, Update<A> loss, Update<float> count, Parts<A> parts = {}) const {
    const auto row = [&](int r) {
      const T* const share = t + r * classes;
      return row_loss<T, A>(x + r * classes, total<T, A>(share),
                            [&](int k) { return target(A(smoothing), A(share[k])); });
    };
    A sum = 0;
    if (!parts.sum(rows, row, &sum) || !leads()) return;
    loss.data[0] += sum;
    count.data[0] += float(rows);
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr Code gradient_of_labels(const T* x, const int32_t* y, const float* seed, T* dx) const {
    if (!labels_fit(y)) return Code::kIndex;
    for (int r : teams(rows)) {
      const T* from = x + r * classes;
      T* to = dx + r * classes;
      if (skips(y[r])) fill(to);
      else row_gradient<T, A>(from, A(seed[0]), A(1), [&](int k) { return label(A(smoothing), y[r], k); }, to);
    }
    return Code::kOk;
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void gradient_of_targets(const T* x, const T* t, const float* seed, T* dx) const {
    for (int r : teams(rows)) {
      const T* share = t + r * classes;
      const auto q = [&](int k) { return target(A(smoothing), A(share[k])); };
      row_gradient<T, A>(x + r * classes, A(seed[0]), total<T, A>(share), q, dx + r * classes);
    }
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(check(words, operands));
    return is(operands, 2, 1) && is(operands, 3, 1) ? Code::kOk : Code::kShapeOutput;
  }
  static constexpr Code shapes_gradient(const Words& words, const Operands& operands, Dims* dx) {
    NACRE_TRY_CODE(check(words, operands));
    if (!is(operands, 2, 1)) return Code::kShapeInput;
    *dx = dims_of(operands[0]);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"label_smoothing", Coding::kReal}, {"ignore"}, {"ignore_index"}};
  static constexpr const char* kInputs[] = {"logits", "labels", "&loss", "&count"};
  static constexpr const char* kGradientInputs[] = {"logits", "labels", "seed"};
  static constexpr const char* kGradientOutputs[] = {"dlogits"};
  static constexpr uint8_t kOfLogits[] = {0};
  static constexpr GradientRead kReads[] = {input_of(0), input_of(1), kBackwardSeed};

 private:
  static constexpr Code check(const Words& words, const Operands& operands) {
    const Shape x = operands[0], y = operands[1];
    const bool labels = operands.element(1) == ElementType::kInt32;
    if (x.rank < 1) return Code::kShapeRank;
    if (!real_within(words, kSmoothing, 0, 1) || words[kIgnore] > (labels ? 1u : 0u)) return Code::kAttribute;
    if (y.rank != x.rank - (labels ? 1 : 0)) return Code::kShapeRank;
    for (int axis = 0; axis < y.rank; ++axis)
      if (y[axis] != x[axis]) return Code::kShapeInput;
    return Code::kOk;
  }

  constexpr bool skips(int32_t label) const { return ignores && label == ignored; }
  constexpr bool labels_fit(const int32_t* y) const {
    int refused = 0;
    for (int r : of_team(rows))
      if (!skips(y[r]) && (y[r] < 0 || y[r] >= classes)) refused = 1;
    return team_max(refused) == 0;
  }

  template <class A>
  constexpr A label(A s, int32_t y, int k) const {
    return (k == y ? 1 - s : A(0)) + s / A(classes);
  }
  template <class A>
  constexpr A target(A s, A t) const {
    return (1 - s) * t + s / A(classes);
  }
  // Returns sum_k q_rk of targets.
  template <class T, class A>
  constexpr A total(const T* t) const {
    A sum = 0;
    for (int k : of_team(classes)) sum += A(t[k]);
    return (1 - A(smoothing)) * team_sum(sum) + A(smoothing);
  }

  template <class T, class A>
  constexpr A peak(const T* x) const {
    A peak = A(x[0]);
    for (int k : of_team(classes)) peak = A(x[k]) > peak ? A(x[k]) : peak;
    return team_max(peak);
  }
  template <class T, class A>
  constexpr A sum_of_exponentials(const T* x, A m) const {
    A sum = 0;
    for (int k : of_team(classes)) sum += std::exp(A(x[k]) - m);
    return team_sum(sum);
  }

  // Returns T_r log S_r - sum_k q_rk (x_rk - m_r). A class of probability 0 may have a logit of -infinity.
  template <class T, class A, class Q>
  constexpr A row_loss(const T* x, A total, Q q) const {
    const A m = peak<T, A>(x);
    const A whole = total * std::log(sum_of_exponentials<T, A>(x, m));
    A sum = leads() ? whole : A(0);
    for (int k : of_team(classes))
      if (const A share = q(k); share != 0) sum -= share * (A(x[k]) - m);
    return team_sum(sum);
  }

  template <class T>
  constexpr void fill(T* dx) const {
    for (int k : of_team(classes)) dx[k] = T(0.0f);
  }

  template <class T, class A, class Q>
  constexpr void row_gradient(const T* x, A seed, A total, Q q, T* dx) const {
    const A m = peak<T, A>(x), sum = sum_of_exponentials<T, A>(x, m);
    for (int k : of_team(classes)) dx[k] = T(seed * (total * (std::exp(A(x[k]) - m) / sum) - q(k)));
  }
};

inline constexpr Gradient kSoftmaxCrossEntropyGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kSoftmaxCrossEntropyGradient, .reads = CrossEntropy::kReads}};
inline constexpr Gradient kDenseCrossEntropyGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kDenseCrossEntropyGradient, .reads = CrossEntropy::kReads}};

inline constexpr const char* kDenseCrossEntropyInputs[] = {"logits", "targets", "&loss", "&count"};
inline constexpr const char* kDenseCrossEntropyGradientInputs[] = {"logits", "targets", "seed"};
inline constexpr Attribute kDenseCrossEntropyAttributes[] = {{"label_smoothing", Coding::kReal}};

inline constexpr OpRule kSoftmaxCrossEntropyRule = {.op = Op::kSoftmaxCrossEntropy,
                                                    .name = "softmax_cross_entropy",
                                                    .numerics = Numerics::kReduction,
                                                    .shapes = &CrossEntropy::shapes,
                                                    .attributes = CrossEntropy::kAttributes,
                                                    .inputs = CrossEntropy::kInputs,
                                                    .outputs = {},
                                                    .gradients = kSoftmaxCrossEntropyGradients,
                                                    .threads = {.phases = 2, .parts = &losses_of}};
inline constexpr OpRule kSoftmaxCrossEntropyGradientRule = {.op = Op::kSoftmaxCrossEntropyGradient,
                                                            .name = "softmax_cross_entropy_gradient",
                                                            .numerics = Numerics::kReduction,
                                                            .shapes = &CrossEntropy::shapes_gradient,
                                                            .attributes = CrossEntropy::kAttributes,
                                                            .inputs = CrossEntropy::kGradientInputs,
                                                            .outputs = CrossEntropy::kGradientOutputs,
                                                            .threads = {.teams = &rows_of_first}};
inline constexpr OpRule kDenseCrossEntropyRule = {.op = Op::kDenseCrossEntropy,
                                                  .name = "dense_cross_entropy",
                                                  .numerics = Numerics::kReduction,
                                                  .shapes = &CrossEntropy::shapes,
                                                  .attributes = kDenseCrossEntropyAttributes,
                                                  .inputs = kDenseCrossEntropyInputs,
                                                  .outputs = {},
                                                  .gradients = kDenseCrossEntropyGradients,
                                                  .threads = {.phases = 2, .parts = &losses_of}};
inline constexpr OpRule kDenseCrossEntropyGradientRule = {.op = Op::kDenseCrossEntropyGradient,
                                                          .name = "dense_cross_entropy_gradient",
                                                          .numerics = Numerics::kReduction,
                                                          .shapes = &CrossEntropy::shapes_gradient,
                                                          .attributes = kDenseCrossEntropyAttributes,
                                                          .inputs = kDenseCrossEntropyGradientInputs,
                                                          .outputs = CrossEntropy::kGradientOutputs,
                                                          .threads = {.teams = &rows_of_first}};

}  // namespace nacre::inline NACRE_ISA
