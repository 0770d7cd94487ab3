// Kernel forms over vectors: gradients of functions of one number, dropout, zeros, losses of single numbers and their
// gradients, and update_statistics. The code is in run.h; the formulas are those of engine/ops.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/pointwise/forms.h"
#include "engine/ops/commit.h"
#include "engine/ops/dropout.h"
#include "engine/ops/gradient.h"
#include "engine/ops/loss_elementwise.h"

namespace nacre::inline NACRE_ISA {

// dx = dy f'(x) for gelu and silu.
template <class T, bool kGelu>
struct FastGateGradient {
  int elements;
  bool tanh;  // whether gelu has its form with tanh

  static FastGateGradient from(const Words& words, const Operands& operands) {
    return {count_elements(operands), kGelu && words[0] != 0};
  }
  void run(const T* x, const T* dy, T* dx, const Args& args) const;
};

// Gradient of every function of unary.h but sin and cos.
template <class T>
struct FastUnaryGradient {
  Unary op;

  static FastUnaryGradient from(const Words& words, const Operands& operands) {
    return {make_op<Unary>(words, operands)};
  }
  void run(const T* dy, const T* x, T* dx, const Args& args) const;
  static bool accepts(const Words& words, const Operands&) {
    return words[Unary::kFunction] != Unary::kSin && words[Unary::kFunction] != Unary::kCos;
  }
};

template <class T>
struct FastDropout {
  Dropout op;

  static FastDropout from(const Words& words, const Operands& operands) { return {make_op<Dropout>(words, operands)}; }
  void run(const T* x, const uint32_t* random, T* y) const;
};

struct FastZeros {
  int elements;

  static FastZeros from(const Words&, const Operands& operands) { return {count_elements(operands)}; }
  void run(float* y) const { std::memset(y, 0, size_t(elements) * sizeof(float)); }
};

struct FastUpdateStatistics {
  UpdateStatistics op;

  static FastUpdateStatistics from(const Words& words, const Operands& operands) {
    return {make_op<UpdateStatistics>(words, operands)};
  }
  void run(const float* sum, const float* batches, Update<float> running) const;
};

enum class NumberLoss { kSigmoid, kSquared, kAbsolute, kHuber };

template <class T, NumberLoss kLoss>
struct FastNumberLoss {
  ElementwiseLoss op;

  static FastNumberLoss from(const Words& words, const Operands& operands) {
    return {make_op<ElementwiseLoss>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* y, const T* t, Update<float> loss, Update<float> count) const;
};
template <class T, NumberLoss kLoss>
struct FastNumberLossGradient {
  ElementwiseLoss op;

  static FastNumberLossGradient from(const Words& words, const Operands& operands) {
    return {make_op<ElementwiseLoss>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* y, const T* t, const float* seed, T* dy) const;
};

namespace fast::function_gradient {

template <class T>
using GeluGradientForm = FastGateGradient<T, true>;
template <class T>
using SiluGradientForm = FastGateGradient<T, false>;
template <NumberLoss kLoss>
struct LossOf {
  template <class T>
  using Form = FastNumberLoss<T, kLoss>;
  template <class T>
  using Gradient = FastNumberLossGradient<T, kLoss>;
};
template <class Tier>
constexpr auto lines() {
  return floats<GeluGradientForm>("GeluGradient", Op::kGeluGradient, Gelu::shapes_gradient, 3) +
         floats<SiluGradientForm>("SiluGradient", Op::kSiluGradient, Silu::shapes_gradient, 3) +
         floats<FastUnaryGradient>("UnaryGradient", Op::kUnaryGradient, Unary::shapes_gradient, 3) +
         floats<FastDropout>("Dropout", Op::kDropout, Dropout::shapes, 1) +
         line<FastZeros>("ZerosF32", Op::kZeros, Zeros::shapes) +
         line<FastUpdateStatistics>("UpdateStatisticsF32", Op::kUpdateStatistics, UpdateStatistics::shapes) +
         floats<LossOf<NumberLoss::kSigmoid>::Form>("SigmoidCrossEntropy", Op::kSigmoidCrossEntropy,
                                                    ElementwiseLoss::shapes) +
         floats<LossOf<NumberLoss::kSigmoid>::Gradient>("SigmoidCrossEntropyGradient", Op::kSigmoidCrossEntropyGradient,
                                                        ElementwiseLoss::shapes_gradient) +
         floats<LossOf<NumberLoss::kSquared>::Form>("SquaredError", Op::kSquaredError, ElementwiseLoss::shapes) +
         floats<LossOf<NumberLoss::kSquared>::Gradient>("SquaredErrorGradient", Op::kSquaredErrorGradient,
                                                        ElementwiseLoss::shapes_gradient) +
         floats<LossOf<NumberLoss::kAbsolute>::Form>("AbsoluteError", Op::kAbsoluteError, ElementwiseLoss::shapes) +
         floats<LossOf<NumberLoss::kAbsolute>::Gradient>("AbsoluteErrorGradient", Op::kAbsoluteErrorGradient,
                                                         ElementwiseLoss::shapes_gradient) +
         floats<LossOf<NumberLoss::kHuber>::Form>("Huber", Op::kHuber, ElementwiseLoss::shapes_huber) +
         floats<LossOf<NumberLoss::kHuber>::Gradient>("HuberGradient", Op::kHuberGradient,
                                                      ElementwiseLoss::shapes_huber_gradient);
}

}  // namespace fast::function_gradient

}  // namespace nacre::inline NACRE_ISA
