// Kernel forms over vectors of channels: gradients of depthwise convolutions with one filter per channel, and of
// pools. For each channel they do the reference's operations in its order, so results are equal to the bit. The code
// is in run.h.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/kernel.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/pool.h"

namespace nacre::inline NACRE_ISA {

template <class T>
struct DepthwiseGradientXForm : DepthwiseConv2dGradientX {
  static DepthwiseGradientXForm from(const Words& words, const Operands& operands) {
    return {DepthwiseConv2dGradientX::from(words, operands)};
  }
  void run(const T* dy, const T* w, T* dx, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).group_out == 1; }
};

template <class T>
struct DepthwiseGradientWForm : DepthwiseConv2dGradientW {
  static DepthwiseGradientWForm from(const Words& words, const Operands& operands) {
    return {DepthwiseConv2dGradientW::from(words, operands)};
  }
  void run(const T* dy, const T* x, Update<float> dw, const Args& args) const;
  static bool accepts(const Words& words, const Operands& operands) { return from(words, operands).group_out == 1; }
};

template <class T>
struct AveragePoolGradientForm : AveragePoolGradient {
  static AveragePoolGradientForm from(const Words& words, const Operands& operands) {
    return {AveragePoolGradient::from(words, operands)};
  }
  void run(const T* dy, T* dx, const Args& args) const;
};

template <class T>
struct MaxPoolGradientForm : MaxPoolGradient {
  static MaxPoolGradientForm from(const Words& words, const Operands& operands) {
    return {MaxPoolGradient::from(words, operands)};
  }
  void run(const T* dy, const T* x, T* dx, const Args& args) const;
};

namespace fast::window_gradient {

template <class Tier>
constexpr auto lines() {
  return floats<DepthwiseGradientXForm>("DepthwiseConv2dGradientX", Op::kDepthwiseConv2dGradientX,
                                        DepthwiseConv2dGradientX::shapes) +
         floats<DepthwiseGradientWForm>("DepthwiseConv2dGradientW", Op::kDepthwiseConv2dGradientW,
                                        DepthwiseConv2dGradientW::shapes) +
         floats<AveragePoolGradientForm>("AveragePoolGradient", Op::kAveragePoolGradient, AveragePoolGradient::shapes) +
         floats<MaxPoolGradientForm>("MaxPoolGradient", Op::kMaxPoolGradient, MaxPoolGradient::shapes);
}

}  // namespace fast::window_gradient

}  // namespace nacre::inline NACRE_ISA
