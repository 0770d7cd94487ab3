// apply_policy: integer loops over time (stream_lstm and svdf), each with the dense layer that makes its input.
// Multipliers are computed as in LiteRT (kernels/lstm.cc PopulateQuantizedLstmParams8x8_16, kernels/svdf.cc), in
// float32, for an LSTM's y in float64:
//
//   gates, filters    M = s_x s_w / s    s = 2^-12 of an LSTM's gates, else the scale of the loop's past
//   recurrence        M_k = s_h s_wk / 2^-12
//   y of an LSTM      M = 2^-15 / s_y 2^-15        y of svdf   M = s_past s_w / s_y
//
// TensorFlow Lite Micro's LSTM computes its functions by a table (micro/kernels/lstm_eval.cc).
#include <algorithm>
#include <cmath>

#include "tools/graph/matmul_operands.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/lookup_tables.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::tools {
namespace {

constexpr float kGateScale = 0x1p-12f;
constexpr size_t kFirstState = 3;  // of a loop's operands, after kX, kW and kBias

bool is_loop(Op op) { return op == Op::kStreamLstm || op == Op::kSvdf; }

bool is_int8(const PolicyPass& pass, ValueId id) { return pass.coded(id) && pass.codes(id).type == ElementType::kInt8; }

bool has_integer_past(const PolicyPass& pass, const Node& loop) {
  if (pass.asked(loop) && pass.policy(loop).quantization != Quantization::kInt8Static) return false;
  const auto codes = [&](size_t i) { return pass.value(loop.inputs[kFirstState + i]).quantizer; };
  if (!codes(0) || !is_int8(pass, loop.outputs[0])) return false;
  if (loop.op == Op::kSvdf) return codes(0)->codes == pass.value(loop.inputs[kW]).stored;
  return codes(1).has_value() && pass.value(loop.inputs[kW]).stored == ElementType::kInt8;
}

const Node* product_of(const Graph& graph, const Node& loop) {
  const ValueId x = loop.inputs[kX];
  const Node* writer = nullptr;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kDense && node.outputs[0] == x) writer = &node;
    if (&node != &loop && std::ranges::count(node.inputs, x) > 0) return nullptr;
  }
  const auto is_x = [&](const Binding& b) { return b.value == x; };
  return std::ranges::any_of(graph.outputs, is_x) ? nullptr : writer;
}

bool has_integer_product(const PolicyPass& pass, const Node& dense) {
  const ValueId bias = dense.inputs.size() > kBias ? dense.inputs[kBias] : kNone;
  return is_int8(pass, dense.inputs[kX]) && refusal_of_weights(pass, dense).empty() &&
         (bias == kNone || pass.value(bias).stored == ElementType::kInt32);
}

ValueId pairs(PolicyPass& pass, const std::string& name, const std::vector<float>& multipliers) {
  std::vector<int32_t> numbers;
  for (const float m : multipliers) {
    const FixedPoint pair = quantize_multiplier(std::isfinite(m) ? double(m) : 0);
    numbers.insert(numbers.end(), {pair.multiplier, pair.shift});
  }
  return pass.graph().constant(name, {int64_t(multipliers.size()), 2}, numbers);
}

void set_scale(Node& node, const char* word, int at, float multiplier) {
  const FixedPoint pair = quantize_multiplier(std::isfinite(multiplier) ? double(multiplier) : 0);
  set_integer(node, word, pair.multiplier, 2 * at);
  set_integer(node, word, pair.shift, 2 * at + 1);
}

void emit_integer(PolicyPass& pass, Node node) {
  node.rounding = Rounding::kDouble;
  pass.record(node, ElementType::kInt8, ElementType::kInt8, ElementType::kInt8, Quantization::kInt8Static);
  pass.emit(std::move(node));
}

// Makes the graph keep the loop's past as codes.
void keep_in_codes(PolicyPass& pass, ValueId past) { pass.value(past).type = pass.value(past).quantizer->codes; }

}  // namespace

std::map<ValueId, Quantizer> integer_products(PolicyPass& pass) {
  std::map<ValueId, Quantizer> products;
  for (const Node& loop : pass.graph().nodes) {
    if (!is_loop(loop.op)) continue;
    const Node* dense = product_of(pass.graph(), loop);
    if (dense != nullptr && has_integer_past(pass, loop) && has_integer_product(pass, *dense)) {
      const Quantizer gates = {.codes = ElementType::kInt16, .scale = {kGateScale}, .zero = {0}, .axis = 0};
      const Quantizer past = *pass.value(loop.inputs[kFirstState]).quantizer;
      products.emplace(loop.inputs[kX], loop.op == Op::kStreamLstm ? gates : past);
      continue;
    }
    for (size_t i = kFirstState; i < loop.inputs.size(); ++i) pass.value(loop.inputs[i]).quantizer.reset();
  }
  return products;
}

void write_integer_product(PolicyPass& pass, Node dense, const Quantizer& codes) {
  const ValueId y = dense.outputs[0];
  const Codes x = pass.codes(dense.inputs[kX]);
  std::vector<float> multipliers;
  for (const float w : pass.value(dense.inputs[kW]).quantizer->scale)
    multipliers.push_back(x.scale * w / codes.scale[0]);
  const ValueId bias = dense.inputs.size() > kBias ? dense.inputs[kBias] : kNone;
  dense.inputs = {dense.inputs[kX], pass.as_codes(dense.inputs[kW]), bias == kNone ? kNone : pass.as_codes(bias),
                  pairs(pass, pass.value(y).name + "/requant", multipliers)};
  set_integer(dense, "x_zero", x.zero);
  set_integer(dense, "y_zero", int(codes.zero[0]));
  pass.value(y).type = codes.codes;
  pass.value(y).quantizer = codes;
  emit_integer(pass, std::move(dense));
}

void write_integer_loop(PolicyPass& pass, Node loop) {
  const ValueId past = loop.inputs[kFirstState];
  const Codes y = pass.codes(loop.outputs[0]);
  const std::vector<float> w = pass.value(loop.inputs[kW]).quantizer->scale;
  loop.inputs[kW] = pass.as_codes(loop.inputs[kW]);
  if (loop.inputs[kBias] != kNone) loop.inputs[kBias] = pass.as_codes(loop.inputs[kBias]);
  if (loop.op == Op::kSvdf) {
    const Quantizer& codes = *pass.value(past).quantizer;
    set_integer(loop, "x_zero", int(codes.zero[0]));
    set_integer(loop, "y_zero", y.zero);
    set_scale(loop, "scale", 0, codes.scale[0] * w[0] / y.scale);
  } else {
    const ValueId cell = loop.inputs[kFirstState + 1];
    const float unit = pass.value(cell).quantizer->scale[0], clip = get_real(loop, "cell_clip");
    const size_t rows = w.size() / 4;
    set_integer(loop, "cell_clip", int(std::clamp(clip / unit, -32768.0f, 32767.0f)));
    set_integer(loop, "cell_fraction", -std::ilogb(unit));
    set_integer(loop, "h_zero", y.zero);
    set_integer(loop, "y_zero", y.zero);
    for (int k = 0; k < 4; ++k) set_scale(loop, "scales", k, w[size_t(k) * rows] * y.scale / kGateScale);
    set_scale(loop, "scales", 4, float(0x1p-15 / double(y.scale) * 0x1p-15));
    keep_in_codes(pass, cell);
    if (!pass.as_litert())
      loop.inputs.push_back(
          pass.graph().constant(pass.value(loop.outputs[0]).name + "/table", {256}, sigmoid_points()));
  }
  keep_in_codes(pass, past);
  emit_integer(pass, std::move(loop));
}

}  // namespace nacre::tools
