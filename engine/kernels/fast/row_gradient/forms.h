// Kernel forms over vectors along a row: gradients of softmax, log_softmax, norms and embedding, and the losses of
// classes with their gradients. The code is in run.h; the formulas are those of engine/ops.
//
// Sums along a row are made lane by lane. Sums over rows add the rows in their order.
#pragma once

#include "engine/kernels/fast/lines.h"
#include "engine/kernels/fast/reduction/forms.h"
#include "engine/ops/embedding.h"
#include "engine/ops/loss.h"

namespace nacre::inline NACRE_ISA {

template <class T, bool kLogarithm>
struct FastSoftmaxGradient {
  int outer, count, inner;  // softmax goes along `count`
  float beta;

  static FastSoftmaxGradient from(const Words& words, const Operands& operands) {
    const Shape x = operands[0];
    const int axis = words.integer(Softmax::kAxis);
    return {x.product(0, axis), x[axis], x.product(axis + 1, x.rank), kLogarithm ? 1.0f : words.real(Softmax::kBeta)};
  }
  void run(const T* dy, const T* y, T* dx) const;
};

template <class T>
struct FastLayerNormGradientX {
  LayerNorm op;
  static FastLayerNormGradientX from(const Words& words, const Operands& operands) {
    return {make_op<LayerNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, Optional<const float> scale, const T* dy, T* dx) const;
};

template <class T>
struct FastLayerNormGradientScale {
  LayerNorm op;
  static FastLayerNormGradientScale from(const Words& words, const Operands& operands) {
    return {make_op<LayerNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* x, const T* dy, Update<float> dscale) const;
};

// The gradient of batch norm with constant mean and variance. It does the operations of the reference in their order.
template <class T>
struct FastBatchNormGradientX {
  BatchNorm op;
  static FastBatchNormGradientX from(const Words& words, const Operands& operands) {
    return {make_op<BatchNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* dy, const float* scale, const float* variance, T* dx) const;
};
template <class T>
struct FastBatchNormGradientScale {
  BatchNorm op;
  static FastBatchNormGradientScale from(const Words& words, const Operands& operands) {
    return {make_op<BatchNorm>(words, operands)};
  }
  uint64_t work() const { return op.work(); }
  void run(const T* dy, const T* x, const float* mean, const float* variance, Update<float> dscale) const;
};

template <class T, class I>
struct FastEmbeddingGradient : EmbeddingGradient {
  static FastEmbeddingGradient from(const Words& words, const Operands& operands) {
    return {make_op<EmbeddingGradient>(words, operands)};
  }
  Code run(const T* dy, const I* ids, Update<float> dtable) const;
};

// Cross-entropy with int32 labels, or with a target number for each class in the type of the logits.
struct FastCrossEntropy {
  CrossEntropy op;

  bool skips(int32_t label) const { return op.ignores && label == op.ignored; }
  bool fit(const int32_t* labels) const {
    for (int r = 0; r < op.rows; ++r)
      if (!skips(labels[r]) && (labels[r] < 0 || labels[r] >= op.classes)) return false;
    return true;
  }
};
template <class T, class Target>
struct FastClassLoss : FastCrossEntropy {
  static FastClassLoss from(const Words& words, const Operands& operands) {
    return {{make_op<CrossEntropy>(words, operands)}};
  }
  uint64_t work() const { return op.work(); }
  Code run(const T* x, const Target* targets, Update<float> loss, Update<float> count) const;
};
template <class T, class Target>
struct FastClassLossGradient : FastCrossEntropy {
  static FastClassLossGradient from(const Words& words, const Operands& operands) {
    return {{make_op<CrossEntropy>(words, operands)}};
  }
  uint64_t work() const { return op.work(); }
  Code run(const T* x, const Target* targets, const float* seed, T* dx) const;
};

namespace fast::row_gradient {

template <bool kLog>
struct SoftmaxGradientOf {
  template <class T>
  using Form = FastSoftmaxGradient<T, kLog>;
};
// ClassLoss has int32 labels; DenseLoss has a target number for each class.
template <class T>
using ClassLoss = FastClassLoss<T, int32_t>;
template <class T>
using ClassLossGradient = FastClassLossGradient<T, int32_t>;
template <class T>
using DenseLoss = FastClassLoss<T, T>;
template <class T>
using DenseLossGradient = FastClassLossGradient<T, T>;
template <class Tier>
constexpr auto lines() {
  return floats<SoftmaxGradientOf<false>::Form>("SoftmaxGradient", Op::kSoftmaxGradient, Softmax::shapes_gradient, 3) +
         floats<SoftmaxGradientOf<true>::Form>("LogSoftmaxGradient", Op::kLogSoftmaxGradient,
                                               LogSoftmax::shapes_gradient, 1) +
         floats<FastLayerNormGradientX>("LayerNormGradientX", Op::kLayerNormGradientX, LayerNorm::shapes_x, 5) +
         floats<FastLayerNormGradientScale>("LayerNormGradientScale", Op::kLayerNormGradientScale,
                                            LayerNorm::shapes_scale) +
         floats<FastBatchNormGradientX>("BatchNormGradientX", Op::kBatchNormGradientX, BatchNorm::shapes_x, 1) +
         floats<FastBatchNormGradientScale>("BatchNormGradientScale", Op::kBatchNormGradientScale,
                                            BatchNorm::shapes_scale) +
         floats<ClassLoss>("SoftmaxCrossEntropy", Op::kSoftmaxCrossEntropy, CrossEntropy::shapes) +
         floats<ClassLossGradient>("SoftmaxCrossEntropyGradient", Op::kSoftmaxCrossEntropyGradient,
                                   CrossEntropy::shapes_gradient) +
         floats<DenseLoss>("DenseCrossEntropy", Op::kDenseCrossEntropy, CrossEntropy::shapes) +
         floats<DenseLossGradient>("DenseCrossEntropyGradient", Op::kDenseCrossEntropyGradient,
                                   CrossEntropy::shapes_gradient) +
         line<FastEmbeddingGradient<float, int32_t>>("EmbeddingGradientF32", Op::kEmbeddingGradient,
                                                     EmbeddingGradient::shapes) +
         line<FastEmbeddingGradient<float, int64_t>>("EmbeddingGradientF32I64", Op::kEmbeddingGradient,
                                                     EmbeddingGradient::shapes) +
         line<FastEmbeddingGradient<Float16, int32_t>>("EmbeddingGradientF16", Op::kEmbeddingGradient,
                                                       EmbeddingGradient::shapes) +
         line<FastEmbeddingGradient<Float16, int64_t>>("EmbeddingGradientF16I64", Op::kEmbeddingGradient,
                                                       EmbeddingGradient::shapes) +
         line<FastEmbeddingGradient<Bfloat16, int32_t>>("EmbeddingGradientBf16", Op::kEmbeddingGradient,
                                                        EmbeddingGradient::shapes) +
         line<FastEmbeddingGradient<Bfloat16, int64_t>>("EmbeddingGradientBf16I64", Op::kEmbeddingGradient,
                                                        EmbeddingGradient::shapes);
}

}  // namespace fast::row_gradient

}  // namespace nacre::inline NACRE_ISA
