#include "engine/ops/all.h"

#include <cstring>

namespace nacre {
namespace {

constexpr const OpRule* kRules[] = {
    &kDenseRule,
    &kConv2dRule,
    &kDepthwiseConv2dRule,
    &kAveragePoolRule,
    &kMaxPoolRule,
    &kAddRule,
    &kSubRule,
    &kMulRule,
    &kBinaryRule,
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
    &kQuantizeRule,
    &kDequantizeRule,
    &kRequantizeRule,
    &kCastRule,
    &kDynamicQuantizeRule,
    &kBatchedMatmulRule,
    &kGeluRule,
    &kSiluRule,
    &kUnaryRule,
    &kLayerNormRule,
    &kEmbeddingRule,
    &kLstmRule,
    &kGruRule,
    // Training.
    &kAccumulateRule,
    &kZerosRule,
    &kSumToRule,
    &kBiasGradientRule,
    &kMulGradientRule,
    &kBinaryGradientRule,
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
    &kConv2dGradientXRule,
    &kConv2dGradientWRule,
    &kDepthwiseConv2dGradientXRule,
    &kDepthwiseConv2dGradientWRule,
    &kAveragePoolGradientRule,
    &kMaxPoolGradientRule,
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
    // Losses, optimizers, what a step commits.
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
};

}  // namespace

std::span<const OpRule* const> all_rules() { return kRules; }

const OpRule* find_rule(Op op) {
  for (const OpRule* rule : kRules)
    if (rule->op == op) return rule;
  return nullptr;
}

const OpRule* find_rule(const char* name) {
  for (const OpRule* rule : kRules)
    if (std::strcmp(rule->name, name) == 0) return rule;
  return nullptr;
}

}  // namespace nacre
