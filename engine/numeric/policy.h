// The numeric policy of a layer: the types in which variables are kept, in which the layer computes, and of its
// outputs, and how it is quantized. This is only the record; tools read and write its names.
#pragma once

#include <cstdint>

#include "engine/base/isa.h"
#include "engine/base/tensor.h"

namespace nacre::inline NACRE_ISA {

// How a layer is quantized. schema/FORMAT.md, "Layers", says for each which types and scales a file then has.
enum class Quantization : uint8_t {
  kNone = 0,
  kInt8Dynamic = 1,    // activations quantized at run time, per row
  kInt8Static = 2,     // calibrated full integer (TFLite's scheme)
  kInt8Weights = 3,    // weights only, float arithmetic
  kInt4Weights = 4,    // weights only, float arithmetic
  kFloat8 = 5,         // delayed scaling over an amax history
  kFloat8Current = 6,  // scale from the tensor itself
  kInt8Full = 7,       // kInt8Static, trained in integers
  kCount
};
enum class UpdateOrder : uint8_t { kTransformerEngine = 0, kKeras = 1, kCount };
// The amax of a history by which kFloat8 makes its scale, NUMERICS.md (25): the largest, or the newest. UpdateOrder
// says in whose order history and scale change: NUMERICS.md (25) of TransformerEngine, (26) of Keras.
enum class AmaxRule : uint8_t { kMax = 0, kMostRecent = 1, kCount };
// The form of a scale. kStep: real = code * step. kReciprocal: code = real * reciprocal.
enum class ScaleForm : uint8_t { kStep = 0, kReciprocal = 1, kCount };
// The range of a group of int4 codes (grouped_int4.h).
enum class GroupRange : uint8_t { kWithZero = 0, kKeras = 1, kCount };
// When a layer of several operations rounds to its compute type: after the last operation, or after each, as Keras
// does. The operations are matmul, bias and activation, for float8 also the division by a scale and the product with
// it.
enum class OperationRounding : uint8_t { kLast = 0, kEach = 1, kCount };
// How the codes of weights are chosen: nearest to the weights, or by their effect on the outputs of samples.
enum class WeightFit : uint8_t { kNearest = 0, kGptq = 1, kAwq = 2, kCount };
// The factor of the loss in training: none, a fixed one, or one that follows overflows. NUMERICS.md section 10.
enum class LossScale : uint8_t { kNone = 0, kFixed = 1, kDynamic = 2, kCount };

// The engine does not act on a policy at run time: the steps of a program say what happens.
struct Policy {                                  // schema/FORMAT.md, "Layers"
  ElementType variable = ElementType::kFloat32;  // in which variables are kept
  ElementType compute = ElementType::kFloat32;   // in which the layer computes
  ElementType output = ElementType::kFloat32;    // type of the layer's outputs
  Quantization quantization = Quantization::kNone;
  uint16_t amax_history_length = 0;                            // kFloat8: amaxes that a scale follows
  int8_t margin = 0;                                           // kFloat8: the scale times 2^-margin, room for growth
  UpdateOrder update_order = UpdateOrder::kTransformerEngine;  // kFloat8
  AmaxRule amax_rule = AmaxRule::kMax;                         // kFloat8
  ScaleForm scale_form = ScaleForm::kStep;
  uint8_t rounding = 0;  // Rounding of numeric/rounding.h
  LossScale loss_scale = LossScale::kNone;
  uint32_t block = 0;           // elements that share a scale; 0 means per channel or per tensor
  float loss_scale_value = 0;   // finite and not negative
  uint8_t activation_zero = 0;  // kInt8Dynamic: 1 = activations have a scale and a zero point, 0 = symmetric
  GroupRange group_range = GroupRange::kWithZero;  // kInt4Weights in blocks
  OperationRounding operation_rounding = OperationRounding::kLast;
  WeightFit weight_fit = WeightFit::kNearest;
  uint8_t weight_bits = 0;       // 2, 3, 4 or 8, set by a fit; 0 means those of the quantization
  uint8_t activation_order = 0;  // kGptq: 1 = terms by falling size of their inputs, 0 = in their own order
  uint8_t reserved[6] = {};
};
static_assert(sizeof(Policy) == 32);

}  // namespace nacre::inline NACRE_ISA
