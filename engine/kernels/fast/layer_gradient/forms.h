// Kernel forms over vectors: gradients of activations, and batch normalisation in training with its gradients. They
// do the operations of engine/ops/activation.h and batch_norm_training.h in the same order, sums over rows included,
// so that results equal those of the reference. The code is in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
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

namespace fast::layer_gradient {

template <Slope kSlope>
struct SlopeOf {
  template <class T>
  using Form = SlopeForm<kSlope, T>;
};
template <class Tier>
constexpr auto lines() {
  return floats<SlopeOf<Slope::kClamp>::Form>("ClampGradient", Op::kClampGradient, ActivationGradient::shapes_clamp,
                                              3) +
         floats<SlopeOf<Slope::kLeakyRelu>::Form>("LeakyReluGradient", Op::kLeakyReluGradient,
                                                  ActivationGradient::shapes, 3) +
         floats<SlopeOf<Slope::kSigmoid>::Form>("SigmoidGradient", Op::kSigmoidGradient, ActivationGradient::shapes,
                                                3) +
         floats<SlopeOf<Slope::kTanh>::Form>("TanhGradient", Op::kTanhGradient, ActivationGradient::shapes, 3) +
         floats<SlopeOf<Slope::kHardSwish>::Form>("HardSwishGradient", Op::kHardSwishGradient,
                                                  ActivationGradient::shapes, 3) +
         floats<BatchNormTrainingForm>("BatchNormTraining", Op::kBatchNormTraining, BatchNormTraining::shapes, 1) +
         floats<BatchNormTrainingXForm>("BatchNormTrainingGradientX", Op::kBatchNormTrainingGradientX,
                                        BatchNormTraining::shapes_x, 3) +
         floats<BatchNormTrainingScaleForm>("BatchNormTrainingGradientScale", Op::kBatchNormTrainingGradientScale,
                                            BatchNormTraining::shapes_scale);
}

}  // namespace fast::layer_gradient

}  // namespace nacre::inline NACRE_ISA
