// Lists every op of the engine. find_rule() searches this list.
#pragma once

#include "engine/ops/activation.h"
#include "engine/ops/arg_max.h"
#include "engine/ops/batch_norm_training.h"
#include "engine/ops/batched_matmul.h"
#include "engine/ops/binary.h"
#include "engine/ops/commit.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_gradient.h"
#include "engine/ops/dense.h"
#include "engine/ops/dropout.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/embedding.h"
#include "engine/ops/fake_float8.h"
#include "engine/ops/fake_quantize.h"
#include "engine/ops/gelu.h"
#include "engine/ops/gradient.h"
#include "engine/ops/gru.h"
#include "engine/ops/integer_conv_gradient.h"
#include "engine/ops/integer_gradient.h"
#include "engine/ops/integer_share.h"
#include "engine/ops/integer_update.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/log_softmax.h"
#include "engine/ops/loss.h"
#include "engine/ops/loss_elementwise.h"
#include "engine/ops/lstm.h"
#include "engine/ops/move.h"
#include "engine/ops/move_gradient.h"
#include "engine/ops/non_max_suppression.h"
#include "engine/ops/norm.h"
#include "engine/ops/optimize.h"
#include "engine/ops/optimize_onnx.h"
#include "engine/ops/pack.h"
#include "engine/ops/pool.h"
#include "engine/ops/quantize.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/resize.h"
#include "engine/ops/select.h"
#include "engine/ops/signal.h"
#include "engine/ops/softmax.h"
#include "engine/ops/store.h"
#include "engine/ops/stream_lstm.h"
#include "engine/ops/svdf.h"
#include "engine/ops/tree_ensemble.h"
#include "engine/ops/unary.h"

namespace nacre {

// The rule of every op, for find_rule() and for tables that need a row per op.
inline constexpr const OpRule* kAllRules[] = {
    &kDenseRule,
    &kConv2dRule,
    &kDepthwiseConv2dRule,
    &kAveragePoolRule,
    &kMaxPoolRule,
    &kResizeRule,
    &kAddRule,
    &kSubRule,
    &kMulRule,
    &kBinaryRule,
    &kCompareRule,
    &kSelectRule,
    &kClampRule,
    &kLeakyReluRule,
    &kSigmoidRule,
    &kTanhRule,
    &kHardSwishRule,
    &kLookupRule,
    &kSoftmaxRule,
    &kBatchNormRule,
    &kMeanRule,
    &kReduceRule,
    &kArgMaxRule,
    &kLogSoftmaxRule,
    &kReshapeRule,
    &kTransposeRule,
    &kConcatRule,
    &kPadRule,
    &kSliceRule,
    &kCopyRule,
    &kPackRule,
    &kStoreRule,
    &kQuantizeRule,
    &kDequantizeRule,
    &kRequantizeRule,
    &kCastRule,
    &kDynamicQuantizeRule,
    &kBatchedMatmulRule,
    &kGeluRule,
    &kSiluRule,
    &kUnaryRule,
    &kRandomRule,
    &kLayerNormRule,
    &kEmbeddingRule,
    &kLstmRule,
    &kGruRule,
    &kStreamLstmRule,
    &kSvdfRule,
    &kTreeEnsembleRule,
    &kNonMaxSuppressionRule,
    &kSignalRule,
    // Training.
    &kAccumulateRule,
    &kZerosRule,
    &kSumToRule,
    &kBiasGradientRule,
    &kMulGradientRule,
    &kBinaryGradientRule,
    &kSelectGradientRule,
    &kClampGradientRule,
    &kLeakyReluGradientRule,
    &kSigmoidGradientRule,
    &kTanhGradientRule,
    &kHardSwishGradientRule,
    &kSoftmaxGradientRule,
    &kMeanGradientRule,
    &kReduceGradientRule,
    &kLogSoftmaxGradientRule,
    &kPadGradientRule,
    &kSliceGradientRule,
    &kDenseGradientXRule,
    &kDenseGradientWRule,
    &kDenseFloat8GradientWRule,
    &kConv2dGradientXRule,
    &kConv2dGradientWRule,
    &kDepthwiseConv2dGradientXRule,
    &kDepthwiseConv2dGradientWRule,
    &kConv2dFloat8GradientWRule,
    &kAveragePoolGradientRule,
    &kMaxPoolGradientRule,
    &kResizeGradientRule,
    &kBatchNormGradientXRule,
    &kBatchNormGradientScaleRule,
    &kBatchNormTrainingRule,
    &kBatchNormTrainingGradientXRule,
    &kBatchNormTrainingGradientScaleRule,
    &kDropoutRule,
    &kLayerNormGradientXRule,
    &kLayerNormGradientScaleRule,
    &kGeluGradientRule,
    &kSiluGradientRule,
    &kUnaryGradientRule,
    &kBatchedMatmulGradientARule,
    &kBatchedMatmulGradientBRule,
    &kEmbeddingGradientRule,
    &kLstmGradientRule,
    &kLstmGradientWRule,
    &kGruGradientRule,
    &kGruGradientWRule,
    &kGruGradientBiasRule,
    // Losses, optimizers, commits of a step, and simulated quantization.
    &kSoftmaxCrossEntropyRule,
    &kSoftmaxCrossEntropyGradientRule,
    &kDenseCrossEntropyRule,
    &kDenseCrossEntropyGradientRule,
    &kSigmoidCrossEntropyRule,
    &kSigmoidCrossEntropyGradientRule,
    &kSquaredErrorRule,
    &kSquaredErrorGradientRule,
    &kAbsoluteErrorRule,
    &kAbsoluteErrorGradientRule,
    &kHuberRule,
    &kHuberGradientRule,
    &kSgdRule,
    &kMomentumRule,
    &kNesterovRule,
    &kAdamRule,
    &kAdamWRule,
    &kRmspropRule,
    &kAdagradRule,
    &kOnnxMomentumRule,
    &kOnnxAdamRule,
    &kOnnxAdagradRule,
    &kVerdictRule,
    &kUpdateStatisticsRule,
    &kUpdateRangeRule,
    &kUpdateScalesRule,
    &kAdjustLossScaleRule,
    &kCountStepRule,
    &kFakeQuantizeRule,
    &kFakeQuantizeGradientXRule,
    &kFakeQuantizeGradientScaleRule,
    &kObserveRangeRule,
    &kFakeFloat8Rule,
    &kFakeFloat8GradientRule,
    // Rules of ops that use integers alone.
    &kRoundCodesRule,
    &kInt8CrossEntropyRule,
    &kDenseInt8GradientWRule,
    &kDenseInt8GradientXRule,
    &kBiasInt8GradientRule,
    &kConv2dInt8GradientWRule,
    &kConv2dInt8GradientXRule,
    &kDepthwiseConv2dInt8GradientWRule,
    &kDepthwiseConv2dInt8GradientXRule,
    &kAveragePoolInt8GradientRule,
    &kMaxPoolInt8GradientRule,
    &kMaskErrorRule,
    &kAddErrorsRule,
    &kSgdCodesRule,
    &kVerdictCodesRule,
    &kUpdateErrorRangeRule,
    &kPendingCodesRule,
    &kWriteCodesRule,
};

}  // namespace nacre
