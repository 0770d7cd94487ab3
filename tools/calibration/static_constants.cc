#include "tools/calibration/static_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/model/model.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/calibration/quantizers.h"
#include "tools/calibration/static_plan.h"
#include "tools/graph/matmul_operands.h"

namespace nacre::tools {
namespace {

const Value& value_of(const Graph& graph, const Node& node, size_t slot) {
  return graph.values[size_t(node.inputs[slot])];
}

bool has(const Node& node, size_t slot) { return slot < node.inputs.size() && node.inputs[slot] != kNone; }

// Returns whether the constant holds codes already, from the source or from this pass.
bool is_coded(const Value& v) { return v.stored != ElementType::kFloat32 && v.quantizer.has_value(); }

std::vector<float> finite_reals(const Graph& graph, const Node& node, size_t slot, const Range* limits = nullptr) {
  const Value& v = value_of(graph, node, slot);
  std::vector<float> x = reals(v);
  for (float& number : x)
    if (limits != nullptr && !std::isnan(number)) number = std::clamp(number, limits->low, limits->high);
  for (size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i]))
      throw Error(kBadInput, layer_place(graph, node),
                  fmt::format("{} has {} at element {}, which has no code", v.name, x[i], i),
                  std::isnan(x[i]) ? "the network was saved broken: train or export it again"
                                   : "give this layer a float type: " + option("set"));
  return x;
}

// Gives operand `slot` of `node` the codes. If another node reads the float constant, or it is an output, the codes are
// another value.
template <class T>
void store(Graph& graph, Node& node, size_t slot, const std::vector<T>& codes, const Quantizer& quantizer,
           ElementType type) {
  size_t readers = 0;
  for (const Node& n : graph.nodes) readers += size_t(std::ranges::count(n.inputs, node.inputs[slot]));
  const bool shared =
      readers > 1 || std::ranges::find(graph.outputs, node.inputs[slot], &Binding::value) != graph.outputs.end();
  if (shared) {
    Value copy = value_of(graph, node, slot);
    copy.name += "/int8";
    node.inputs[slot] = graph.add(std::move(copy));
  }
  Value& v = graph.values[size_t(node.inputs[slot])];
  const auto* first = reinterpret_cast<const uint8_t*>(codes.data());
  v.data = std::make_shared<const std::vector<uint8_t>>(first, first + codes.size() * sizeof(T));
  v.stored = type;
  v.quantizer = quantizer;
}

// Makes the weight scale of a channel coarser if the code of its bias would exceed half of int32
// (AdjustWeightsForBiasScale, lite/tools/optimize/quantization_utils.cc):  scale_wk >= 2 |b_k| / (scale_x (2^31 - 1)).
// This happens if a channel's weights are nearly 0.
void make_room_for_bias(Quantizer& w, float x_scale, std::span<const float> bias) {
  constexpr double kMostCode = 2147483647.0;
  for (size_t k = 0; k < bias.size(); ++k) {
    float& scale = w.scale[k % w.scale.size()];
    const double least = 2 * std::abs(double(bias[k])) / (double(x_scale) * kMostCode);
    if (double(scale) < least) scale = float(least);
  }
}

void code_bias(Graph& graph, Node& node, const Quantizer& w, float x_scale, std::span<const float> bias) {
  Quantizer quantizer = {.codes = ElementType::kInt32, .scale = {}, .zero = {}, .axis = 0};
  for (const float s : w.scale) quantizer.scale.push_back(x_scale * s);
  quantizer.zero.resize(w.scale.size());
  std::vector<int32_t> codes;
  for (size_t k = 0; k < bias.size(); ++k) {
    const double code = std::round(double(bias[k]) / (double(x_scale) * double(w.scale[k % w.scale.size()])));
    codes.push_back(int32_t(std::clamp(code, -2147483647.0, 2147483647.0)));
  }
  if (std::ranges::any_of(quantizer.scale, [](float s) { return !is_scale(std::bit_cast<uint32_t>(s)); }))
    throw Error(kUnsupported, layer_place(graph, node),
                "the scales of its input and weights are too small or too large to multiply");
  store(graph, node, kBias, codes, quantizer, ElementType::kInt32);
}

int channel_axis(const Node& node, bool dense_per_channel) {
  if (node.op == Op::kDense) return dense_per_channel ? 0 : kPerTensor;
  return node.op == Op::kDepthwiseConv2d ? 2 : 0;
}

}  // namespace

void code_matmul(Graph& graph, Node& node, bool dense_per_channel) {
  if (is_coded(value_of(graph, node, kW))) return;  // apply_policy makes the codes of the bias
  const float x_scale = value_of(graph, node, kX).quantizer->scale[0];
  const std::vector<float> w = finite_reals(graph, node, kW);
  const std::vector<float> bias = has(node, kBias) ? finite_reals(graph, node, kBias) : std::vector<float>();
  const Value& value = value_of(graph, node, kW);
  Quantizer quantizer;
  if (value.quantizer) {
    quantizer = *value.quantizer;
  } else {
    quantizer = symmetric_quantizer(w, value.dims, channel_axis(node, dense_per_channel));
    make_room_for_bias(quantizer, x_scale, bias);
  }
  store(graph, node, kW, symmetric_codes(w, value.dims, quantizer), quantizer, ElementType::kInt8);
  if (has(node, kBias)) code_bias(graph, node, quantizer, x_scale, bias);
}

void code_operands(Graph& graph, Node& node, const std::string& output, const MaskLimits* masks) {
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (!has(node, slot) || !value_of(graph, node, slot).constant() || is_coded(value_of(graph, node, slot))) continue;
    const Range* limits = nullptr;
    if (masks != nullptr)
      if (const auto found = masks->operands.find({output, int(slot)}); found != masks->operands.end())
        limits = &found->second;
    const std::vector<float> x = finite_reals(graph, node, slot, limits);
    Quantizer quantizer = value_of(graph, node, slot).quantizer.value_or(quantizer_of_range(range_of(x)));
    if (node.op == Op::kConcat) quantizer = *graph.values[size_t(node.outputs[0])].quantizer;
    store(graph, node, slot, asymmetric_codes(x, quantizer), quantizer, ElementType::kInt8);
  }
}

}  // namespace nacre::tools
