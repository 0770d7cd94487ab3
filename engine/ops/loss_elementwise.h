// Defines losses of single numbers: the mean over the elements of a sample, summed over the samples (axis 0).
//
//   y, t [rows, ..], d = y - t, width = elements of a sample
//
//   loss = sum_r 1 / width sum_j f(y_rj, t_rj)      added to `loss`; `count` grows by rows (float32: exact up to 2^24)
//   dy_rj = seed / width f'(y_rj, t_rj)             f' = df / dy
//
//   sigmoid_cross_entropy   f = max(y, 0) - y t + log(1 + exp(-|y|))                 f' = 1 / (1 + exp(-y)) - t
//   squared_error           f = d^2                                                  f' = 2 d
//   absolute_error          f = |d|                                                  f' = sign(d), 0 at 0
//   huber, delta            f = d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2)   f' = d within [-delta, delta]
//
// These are Keras' BinaryCrossentropy(from_logits), MeanSquaredError, MeanAbsoluteError and Huber. They are also
// torch's BCEWithLogitsLoss, MSELoss, L1Loss and HuberLoss with reduction mean, if every sample has the same width.
// The first has the form of tf.nn.sigmoid_cross_entropy_with_logits, in which no exponential is over 1. Huber 1964,
// eq. 3.1. A NaN reaches both the loss and the gradient.
#pragma once

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/loss.h"
#include "engine/ops/parts.h"

namespace nacre::inline NACRE_ISA {

struct ElementwiseLoss {
  int rows, width;
  float delta;  // delta of huber

  static constexpr ElementwiseLoss from(const Words& words, const Operands& operands) {
    const Shape y = operands[0];
    return {y[0], y.product(1, y.rank), words.real(0)};
  }

  constexpr uint64_t work() const { return uint64_t(rows) * uint64_t(width); }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void sigmoid(const T* y, const T* t, Update<A> loss, Update<float> count, Parts<A> parts = {}) const {
    add<T, A>(y, t, loss, count, parts,
              [](A v, A target) { return (v > 0 ? v : A(0)) - v * target + std::log1p(std::exp(-std::abs(v))); });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void squared(const T* y, const T* t, Update<A> loss, Update<float> count, Parts<A> parts = {}) const {
    add<T, A>(y, t, loss, count, parts, [](A v, A target) { return (v - target) * (v - target); });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void absolute(const T* y, const T* t, Update<A> loss, Update<float> count, Parts<A> parts = {}) const {
    add<T, A>(y, t, loss, count, parts, [](A v, A target) { return std::abs(v - target); });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void huber(const T* y, const T* t, Update<A> loss, Update<float> count, Parts<A> parts = {}) const {
    const A limit = A(delta);
    add<T, A>(y, t, loss, count, parts, [limit](A v, A target) {
      const A d = std::abs(v - target);
      return d > limit ? limit * (d - limit / 2) : d * d / 2;
    });
  }

  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void sigmoid_gradient(const T* y, const T* t, const float* seed, T* dy) const {
    each<T, A>(y, t, seed, dy, [](A v, A target) {
      const A e = std::exp(-std::abs(v));
      return (v >= 0 ? 1 : e) / (1 + e) - target;
    });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void squared_gradient(const T* y, const T* t, const float* seed, T* dy) const {
    each<T, A>(y, t, seed, dy, [](A v, A target) { return 2 * (v - target); });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void absolute_gradient(const T* y, const T* t, const float* seed, T* dy) const {
    each<T, A>(y, t, seed, dy, [](A v, A target) {
      const A d = v - target;
      return d > 0 ? A(1) : d < 0 ? A(-1) : d;
    });
  }
  template <class T, class A = typename Element<T>::Accumulator>
  constexpr void huber_gradient(const T* y, const T* t, const float* seed, T* dy) const {
    const A limit = A(delta);
    each<T, A>(y, t, seed, dy, [limit](A v, A target) {
      const A d = v - target;
      return d > limit ? limit : d < -limit ? -limit : d;
    });
  }

  static constexpr Code shapes(const Words&, const Operands& operands, Dims*) {
    NACRE_TRY_CODE(check(operands));
    return is(operands, 2, 1) && is(operands, 3, 1) ? Code::kOk : Code::kShapeOutput;
  }
  static constexpr Code shapes_gradient(const Words&, const Operands& operands, Dims* dy) {
    NACRE_TRY_CODE(check(operands));
    if (!is(operands, 2, 1)) return Code::kShapeInput;
    *dy = dims_of(operands[0]);
    return Code::kOk;
  }
  static constexpr Code shapes_huber(const Words& words, const Operands& operands, Dims* none) {
    NACRE_TRY_CODE(check_delta(words));
    return shapes(words, operands, none);
  }
  static constexpr Code shapes_huber_gradient(const Words& words, const Operands& operands, Dims* dy) {
    NACRE_TRY_CODE(check_delta(words));
    return shapes_gradient(words, operands, dy);
  }

  static constexpr Attribute kHuberAttributes[] = {{"delta", Coding::kReal}};
  static constexpr const char* kInputs[] = {"y", "targets", "&loss", "&count"};
  static constexpr const char* kGradientInputs[] = {"y", "targets", "seed"};
  static constexpr const char* kGradientOutputs[] = {"dy"};

 private:
  static constexpr Code check(const Operands& operands) {
    const Shape y = operands[0], t = operands[1];
    if (y.rank < 1 || t.rank != y.rank) return Code::kShapeRank;
    for (int axis = 0; axis < y.rank; ++axis)
      if (y[axis] != t[axis]) return Code::kShapeInput;
    return Code::kOk;
  }
  static constexpr Code check_delta(const Words& words) {
    return is_finite(words[0]) && words.real(0) > 0 ? Code::kOk : Code::kAttribute;
  }

  template <class T, class A, class F>
  constexpr void add(const T* y, const T* t, Update<A> loss, Update<float> count, Parts<A> parts, F f) const {
    const auto row = [&](int r) {
      A sum = 0;
      for (int j : of_team(width)) sum += f(A(y[r * width + j]), A(t[r * width + j]));
      return team_sum(sum) / A(width);
    };
    A all = 0;
    if (!parts.sum(rows, row, &all) || !leads()) return;
    loss.data[0] += all;
    count.data[0] += float(rows);
  }

  template <class T, class A, class F>
  constexpr void each(const T* y, const T* t, const float* seed, T* dy, F f) const {
    const A scale = A(seed[0]) / A(width);
    for (int i : independent(rows * width)) dy[i] = T(scale * f(A(y[i]), A(t[i])));
  }
};

inline constexpr Gradient kSigmoidCrossEntropyGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kSigmoidCrossEntropyGradient, .reads = CrossEntropy::kReads}};
inline constexpr Gradient kSquaredErrorGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kSquaredErrorGradient, .reads = CrossEntropy::kReads}};
inline constexpr Gradient kAbsoluteErrorGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kAbsoluteErrorGradient, .reads = CrossEntropy::kReads}};
inline constexpr Gradient kHuberGradients[] = {
    {.of = CrossEntropy::kOfLogits, .by = Op::kHuberGradient, .reads = CrossEntropy::kReads}};

constexpr OpRule elementwise_loss(Op op, const char* name, std::span<const Gradient> gradients) {
  return {.op = op,
          .name = name,
          .numerics = Numerics::kReduction,
          .shapes = &ElementwiseLoss::shapes,
          .attributes = {},
          .inputs = ElementwiseLoss::kInputs,
          .outputs = {},
          .gradients = gradients,
          .threads = {.phases = 2, .parts = &losses_of}};
}
constexpr OpRule elementwise_loss_gradient(Op op, const char* name) {
  return {.op = op,
          .name = name,
          .numerics = Numerics::kPointwise,
          .shapes = &ElementwiseLoss::shapes_gradient,
          .attributes = {},
          .inputs = ElementwiseLoss::kGradientInputs,
          .outputs = ElementwiseLoss::kGradientOutputs};
}

inline constexpr OpRule kSigmoidCrossEntropyRule =
    elementwise_loss(Op::kSigmoidCrossEntropy, "sigmoid_cross_entropy", kSigmoidCrossEntropyGradients);
inline constexpr OpRule kSigmoidCrossEntropyGradientRule =
    elementwise_loss_gradient(Op::kSigmoidCrossEntropyGradient, "sigmoid_cross_entropy_gradient");
inline constexpr OpRule kSquaredErrorRule =
    elementwise_loss(Op::kSquaredError, "squared_error", kSquaredErrorGradients);
inline constexpr OpRule kSquaredErrorGradientRule =
    elementwise_loss_gradient(Op::kSquaredErrorGradient, "squared_error_gradient");
inline constexpr OpRule kAbsoluteErrorRule =
    elementwise_loss(Op::kAbsoluteError, "absolute_error", kAbsoluteErrorGradients);
inline constexpr OpRule kAbsoluteErrorGradientRule =
    elementwise_loss_gradient(Op::kAbsoluteErrorGradient, "absolute_error_gradient");
inline constexpr OpRule kHuberRule = {.op = Op::kHuber,
                                      .name = "huber",
                                      .numerics = Numerics::kReduction,
                                      .shapes = &ElementwiseLoss::shapes_huber,
                                      .attributes = ElementwiseLoss::kHuberAttributes,
                                      .inputs = ElementwiseLoss::kInputs,
                                      .outputs = {},
                                      .gradients = kHuberGradients,
                                      .threads = {.phases = 2, .parts = &losses_of}};
inline constexpr OpRule kHuberGradientRule = {.op = Op::kHuberGradient,
                                              .name = "huber_gradient",
                                              .numerics = Numerics::kPointwise,
                                              .shapes = &ElementwiseLoss::shapes_huber_gradient,
                                              .attributes = ElementwiseLoss::kHuberAttributes,
                                              .inputs = ElementwiseLoss::kGradientInputs,
                                              .outputs = ElementwiseLoss::kGradientOutputs};

}  // namespace nacre::inline NACRE_ISA
