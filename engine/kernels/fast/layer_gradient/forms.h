// Gradients of activations, and batch normalisation in training with its gradients, over vectors: the operations of
// engine/ops/activation.h and batch_norm_training.h in their order, sums of rows too, so that results are the same to
// the bit. What runs is in run.h.
#pragma once

#include "engine/kernels/kernel.h"
#include "engine/ops/activation.h"
#include "engine/ops/batch_norm_training.h"

namespace nacre::inline NACRE_ISA {

enum class Slope { kClamp, kLeakyRelu, kSigmoid, kTanh, kHardSwish };

template <Slope kSlope, class T>
struct SlopeForm : ActivationGradient {
  static SlopeForm from(const Words& words, const Operands& operands) {
    return {ActivationGradient::from(words, operands)};
  }
  void run(const T* dy, const T* v, T* dx, const Args& args) const;
};

template <class T>
struct BatchNormTrainingForm : BatchNormTraining {
  static BatchNormTrainingForm from(const Words& words, const Operands& operands) {
    return {BatchNormTraining::from(words, operands)};
  }
  void run(const T* x, const float* scale, const float* bias, Update<float> mean_sum, Update<float> variance_sum,
           Update<float> batches, T* y, float* mean, float* inverse_deviation, const Args& args) const;
};

template <class T>
struct BatchNormTrainingXForm : BatchNormTraining {
  static BatchNormTrainingXForm from(const Words& words, const Operands& operands) {
    return {BatchNormTraining::from(words, operands)};
  }
  void run(const T* dy, const T* x, const float* scale, const float* mean, const float* inverse_deviation, T* dx,
           const Args& args) const;
};

template <class T>
struct BatchNormTrainingScaleForm : BatchNormTraining {
  static BatchNormTrainingScaleForm from(const Words& words, const Operands& operands) {
    return {BatchNormTraining::from(words, operands)};
  }
  void run(const T* dy, const T* x, const float* mean, const float* inverse_deviation, Update<float> dscale,
           const Args& args) const;
};

}  // namespace nacre::inline NACRE_ISA
