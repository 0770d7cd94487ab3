// apply_policy: dense and convolutions. Multipliers are computed as in TensorFlow Lite Micro (kernels/kernel_util.cc,
// micro/kernels/{conv,depthwise_conv,fully_connected}_common.cc):
//
//   conv, depthwise, dense per channel   M_k = double(s_x) double(s_wk) / double(s_y)
//   dense per tensor, all of uint8       M   = double(s_x s_w) / double(s_y), the product in float32
//                                        (a dense on int16 codes under kSingle: in float64, as a conv)
//   kFloatEven (XNNPACK)                 M_k = s_x s_wk / s_y, in float32
#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/graph/matmul_operands.h"
#include "tools/passes/policy/apply_policy.h"

namespace nacre::tools {
namespace {

ValueId operand(const Node& node, size_t index) { return index < node.inputs.size() ? node.inputs[index] : kNone; }

int64_t channels(const PolicyPass& pass, const Node& node) {
  return pass.value(node.inputs[kW]).dims[channel_axis(node.op)];
}

// Returns s_x s_wk, the value of one unit of the accumulator. The product is in float32 if TFLite's is.
std::vector<double> accumulator_scales(const PolicyPass& pass, const Node& node, Rounding rounding) {
  const float x = pass.codes(node.inputs[kX]).scale;
  const std::vector<float>& w = pass.value(node.inputs[kW]).quantizer->scale;
  const bool wide = pass.codes(node.inputs[kX]).type == ElementType::kInt16;
  const bool once = rounding == Rounding::kSingle && wide;  // LiteRT multiplies in float64
  const bool single = rounding == Rounding::kFloatEven || (node.op == Op::kDense && w.size() == 1 && !once) ||
                      pass.of_uint8(node.inputs[kX]);
  std::vector<double> scales;
  for (const float s : w) scales.push_back(single ? double(x * s) : double(x) * double(s));
  return scales;
}

// Returns the bias as codes in units of the accumulator. Codes of the source stay, as int32, or as int64 under int16
// activations, if zero points are 0 and their scale agrees as TFLite asks, |s_x s_w - s_b| / s_y <= 0.02. Otherwise
// the real bias is quantized anew.
ValueId bias_codes(PolicyPass& pass, const Node& node, const std::vector<double>& scales) {
  const ValueId id = operand(node, kBias);
  if (id == kNone) return kNone;
  const Value& bias = pass.value(id);
  const double y_scale = pass.codes(node.outputs[0]).scale;
  const auto agrees = [&] {
    const bool wide = bias.stored == ElementType::kInt64 && pass.codes(node.inputs[kX]).type == ElementType::kInt16;
    if ((bias.stored != ElementType::kInt32 && !wide) || !bias.quantizer) return false;
    const Quantizer& q = *bias.quantizer;
    for (size_t k = 0; k < std::max(q.scale.size(), scales.size()); ++k)
      if (std::abs(scales[k % scales.size()] - double(q.scale[k % q.scale.size()])) / y_scale > 0.02) return false;
    return std::all_of(q.zero.begin(), q.zero.end(), [](int64_t zero) { return zero == 0; });
  };
  if (agrees()) return pass.as_codes(id);
  pass.log(node, bias.name + ": bias quantized to the scale of the accumulator");
  const std::vector<float> real = reals(bias);
  std::vector<int32_t> codes;
  for (size_t k = 0; k < real.size(); ++k) {
    const double code = std::round(double(real[k]) / scales[k % scales.size()]);
    if (std::isnan(code))
      throw Error(kUnsupported, pass.graph().source,
                  node.name + ": its bias has no code: NaN, or scales below float32");
    codes.push_back(int32_t(std::clamp(code, double(INT32_MIN), double(INT32_MAX))));
  }
  return pass.graph().constant(bias.name + "/codes", bias.dims, codes);
}

// int8 codes q of x, with a scale and a zero point per row of axis 0, found at run time.
struct DynamicCodes {
  ValueId q, scale, zero;
};

DynamicCodes quantize_dynamically(PolicyPass& pass, const Node& node, bool symmetric) {
  const ValueId x = node.inputs[kX];
  const Value source = pass.value(x);
  const bool rows = source.dims.size() > 1;
  const auto per_row = [&](const char* suffix, ElementType type) {
    const ValueId id = pass.like(x, suffix, type);
    pass.value(id).dims = {rows ? source.dims[0] : 1};
    pass.value(id).batched = source.batched && rows;
    return id;
  };
  const DynamicCodes codes = {pass.like(x, "/codes", ElementType::kInt8), per_row("/scale", ElementType::kFloat32),
                              per_row("/zero", ElementType::kInt32)};
  Node step = make_step(Op::kDynamicQuantize, node, node.name + "/quantize", {x}, {codes.q, codes.scale, codes.zero});
  set_integer(step, "axis", rows ? 1 : 0);
  set_integer(step, "symmetric", symmetric ? 1 : 0);
  if (!symmetric && pass.graph().quantize_rounding == Rounding::kHalfEven)
    set_integer(step, "onnx", 1);  // as in the source
  pass.emit(std::move(step));
  return codes;
}

}  // namespace

// Output channels are axis 0 of w. In a depthwise filter [kernel_h, kernel_w, out] they are the last axis.
std::string refusal_of_weights(const PolicyPass& pass, const Node& node) {
  const Value& w = pass.value(node.inputs[kW]);
  if (!w.constant() || w.stored != ElementType::kInt8 || !w.quantizer) return "its weights are not int8 codes";
  const Quantizer& q = *w.quantizer;
  if (std::any_of(q.zero.begin(), q.zero.end(), [](int64_t zero) { return zero != 0; }))
    return "its weights have a zero point";
  const bool per_channel = int64_t(q.scale.size()) == channels(pass, node) && size_t(q.axis) == channel_axis(node.op);
  return q.scale.size() == 1 || per_channel ? "" : "its weights have scales along another axis";
}

bool write_integer_matmul(PolicyPass& pass, Node node, std::string& why) {
  why = refusal_of_weights(pass, node);
  const ValueId bias_id = operand(node, kBias);
  if (why.empty() && bias_id != kNone && !pass.value(bias_id).constant()) why = "its bias is not constant";
  if (!why.empty()) return false;
  const Codes x = pass.codes(node.inputs[kX]), y = pass.codes(node.outputs[0]);
  const Rounding rounding = pass.rounding(node);
  const std::vector<double> scales = accumulator_scales(pass, node, rounding);
  std::vector<double> multipliers;
  for (const double s : scales)
    multipliers.push_back(rounding == Rounding::kFloatEven ? double(float(s) / y.scale) : s / double(y.scale));
  constexpr double kMostOfWide = 128;  // the shift of multiply_wide is at most 7
  if (x.type == ElementType::kInt16 && *std::max_element(multipliers.begin(), multipliers.end()) >= kMostOfWide) {
    why = "its output has codes over 128 times finer than its sums";
    return false;
  }
  const ValueId bias = bias_codes(pass, node, scales);
  node.inputs = {node.inputs[kX], pass.as_codes(node.inputs[kW]), bias, pass.requant(node, multipliers)};
  set_integer(node, "x_zero", x.zero);
  set_integer(node, "y_zero", y.zero);
  pass.set_clamp_codes(node, y);
  pass.record(node, ElementType::kInt8, x.type, y.type, Quantization::kInt8Static);
  pass.emit(std::move(node));
  return true;
}

void write_hybrid(PolicyPass& pass, Node node) {
  const std::vector<float> scales = pass.value(node.inputs[kW]).quantizer->scale;
  const bool symmetric = pass.policy(node).activation_zero == 0;
  const ValueId y = node.outputs[0], bias = operand(node, kBias);
  const ValueId scale = pass.graph().constant(pass.value(y).name + "/w_scale", {int64_t(scales.size())}, scales);
  node.inputs[kX] = pass.as_real(node, node.inputs[kX]);
  const DynamicCodes x = quantize_dynamically(pass, node, symmetric);
  node.inputs = {
      x.q, pass.as_codes(node.inputs[kW]), bias == kNone ? kNone : pass.as_real(node, bias), scale, x.scale, x.zero};
  pass.record(node, ElementType::kInt8, ElementType::kInt8, ElementType::kFloat32, Quantization::kInt8Dynamic);
  pass.emit_in(std::move(node), ElementType::kFloat32);
}

void write_weight_only(PolicyPass& pass, Node node) {
  const std::vector<float> scales = pass.value(node.inputs[kW]).quantizer->scale;
  const ValueId bias = operand(node, kBias);
  const ElementType type = pass.compute(node);
  const ValueId scale =
      pass.graph().constant(pass.value(node.outputs[0]).name + "/w_scale", {int64_t(scales.size())}, scales);
  node.inputs = {pass.as_type(node, node.inputs[kX], type), pass.as_codes(node.inputs[kW]),
                 bias == kNone ? kNone : pass.as_type(node, bias, type),
                 pass.rounds_each(node) ? pass.as_type(node, scale, type) : scale};
  pass.record(node, ElementType::kInt8, type, type, Quantization::kInt8Weights);
  pass.emit_in(std::move(node), type);
}

// Writes the product, and behind it the bias as its own step, which gets the node's clamp. Each of the two rounds.
void write_bias_apart(PolicyPass& pass, Node node, ElementType type) {
  const ValueId product = pass.like(node.outputs[0], "/product", type);
  Node add = make_step(Op::kAdd, node, node.name + "/bias", {product, node.inputs[kBias]}, {node.outputs[0]});
  for (const char* word : {"clamp", "low", "high"}) {
    set_integer(add, word, get_integer(node, word));
    set_integer(node, word, 0);
  }
  node.inputs.resize(kBias);
  node.outputs[0] = product;
  pass.emit(std::move(node));
  pass.emit_in(std::move(add), type);
}

void write_real_matmul(PolicyPass& pass, Node node) {
  const Quantization quantization = pass.policy(node).quantization;
  const bool hybrid = quantization == Quantization::kInt8Dynamic && pass.policy(node).scale_form == ScaleForm::kStep;
  // The file's own codes are used unchanged.
  const bool nearest = pass.policy(node).weight_fit == WeightFit::kNearest;
  const bool of_source = hybrid || (quantization == Quantization::kInt8Weights && nearest);
  if (of_source && refusal_of_weights(pass, node).empty())
    return hybrid ? write_hybrid(pass, std::move(node)) : write_weight_only(pass, std::move(node));
  const ElementType type = pass.compute(node);
  if (quantization != Quantization::kNone) {
    const std::string refusal = write_quantized_matmul(pass, node);
    if (refusal.empty()) return;
    pass.fall_back(node, name_of(quantization), name_of(type), refusal);
  }
  for (ValueId& id : node.inputs)
    if (id != kNone) id = pass.as_type(node, id, type);
  pass.record(node, type, type, type, Quantization::kNone);
  if (pass.rounds_each(node) && operand(node, kBias) != kNone) return write_bias_apart(pass, std::move(node), type);
  pass.emit_in(std::move(node), type);
}

}  // namespace nacre::tools
