// apply_policy: dense and conv whose weights are quantized here, because the layer's policy asks for it.
//
//   int8            weights and activations by Keras's abs-max. Activations are quantized in every run, per row; in a
//                   conv per sample
//   int8/weights    int8 weights by TFLite's rule, float arithmetic
//   int4            per channel by Keras's abs-max, or in groups with zero points; float arithmetic
//   gptq, awq       int4 or int8 weights in groups, fitted to samples (fit_weights.h); float arithmetic
//   float8          E4M3 weights, and activations by a scale that calibration found
//   float8/current  like float8, but by scales from the current values
#include <fmt/format.h>

#include <algorithm>

#include "engine/numeric/absmax.h"
#include "engine/numeric/float8_scale.h"
#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/fit_weights.h"
#include "tools/passes/policy/quantize_weights.h"

namespace nacre::tools {
namespace {

class QuantizedMatmul {
 public:
  QuantizedMatmul(PolicyPass& pass, const Node& node)
      : pass_(pass), node_(node), policy_(pass.policy(node)), type_(pass.compute(node)), each_(pass.rounds_each(node)),
        name_(pass.value(node.outputs[0]).name) {}

  std::string write() {
    const Value& w = pass_.value(node_.inputs[kW]);
    if (!w.constant()) return "its weights are no constant";
    const ValueId bias = node_.inputs.size() > kBias ? node_.inputs[kBias] : kNone;
    if (bias != kNone && !pass_.value(bias).constant()) return "its bias is no constant";
    w_ = pass_.codable_reals(node_, w, {policy_.variable});
    layout_ = layout_of(node_.op, w.dims);
    if (policy_.weight_fit != WeightFit::kNearest) return fitted();
    switch (policy_.quantization) {
      case Quantization::kInt8Dynamic: return dynamic();
      case Quantization::kInt8Weights:
        return weight_only(codes(0, [&] { return step_codes(w_, layout_); }), ElementType::kInt8, false);
      case Quantization::kInt4Weights: return int4();
      case Quantization::kFloat8: return float8();
      case Quantization::kFloat8Current: return float8_current();
      default: return "its values have no int8 codes";
    }
  }

 private:
  ValueId constant(const std::string& suffix, ElementType type, std::vector<int64_t> dims, std::vector<uint8_t> bytes) {
    Value value;
    value.name = name_ + suffix;
    value.type = value.stored = type;
    value.dims = std::move(dims);
    value.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    return pass_.graph().add(std::move(value));
  }

  // Adds the quantized weights, named after the source's weights and the type: "w/int8".
  ValueId weights(ElementType type, std::vector<uint8_t> bytes) {
    const Value& w = pass_.value(node_.inputs[kW]);
    const std::vector<int64_t> dims = w.dims;
    const ValueId id = constant("", type, dims, std::move(bytes));
    pass_.graph().rename(id, pass_.value(node_.inputs[kW]).name + "/" + name_of(type));
    return id;
  }
  static std::vector<uint8_t> bytes_of(const std::vector<int8_t>& codes) { return {codes.begin(), codes.end()}; }

  ValueId x(ElementType type) { return pass_.as_type(node_, node_.inputs[kX], type); }
  ValueId bias(ElementType type) {
    if (node_.inputs.size() <= kBias || node_.inputs[kBias] == kNone) return kNone;
    return pass_.as_type(node_, node_.inputs[kBias], type);
  }
  ValueId scales(const std::string& suffix, const std::vector<float>& scale) {
    return scales(suffix, {int64_t(scale.size())}, scale);
  }
  // Adds scales in float32. If every operation rounds to the compute type, they have that type, which selects the
  // kernel.
  ValueId scales(const std::string& suffix, const std::vector<int64_t>& dims, const std::vector<float>& scale) {
    const ValueId id = pass_.graph().constant(name_ + suffix, dims, scale);
    return each_ ? pass_.as_type(node_, id, type_) : id;
  }

  // Emits the step on these operands if there is a kernel for them. Returns "", or why not.
  std::string emit(std::vector<ValueId> inputs, ElementType type, bool reciprocal = false, int block = 0) {
    Node node = node_;
    node.inputs = std::move(inputs);
    if (reciprocal) set_integer(node, "form", 1);
    if (block > 0) set_integer(node, "block", block);
    Graph& graph = pass_.graph();
    const ElementType before = pass_.value(node.outputs[0]).type;
    pass_.value(node.outputs[0]).type = type;
    const bool runs = find_kernel(graph, node) != nullptr;
    pass_.value(node.outputs[0]).type = before;
    if (!runs) return std::string("there is no kernel for it in ") + name_of(type);
    pass_.emit_in(std::move(node), type);
    return "";
  }

  // Returns {q, scale}: codes of x, with one scale per row in a dense layer and per sample in a convolution.
  std::pair<ValueId, ValueId> quantize_rows(ValueId x, ElementType codes, ElementType scale_type) {
    const Value source = pass_.value(x);
    const size_t rank = source.dims.size();
    const size_t axis = rank < 2 ? 0 : node_.op == Op::kDense ? rank - 1 : 1;
    const ValueId q = pass_.like(x, "/codes", codes), scale = pass_.like(x, "/scale", scale_type);
    pass_.value(scale).dims.assign(source.dims.begin(), source.dims.begin() + std::ptrdiff_t(axis));
    if (axis == 0) pass_.value(scale).dims = {1};
    pass_.value(scale).batched = source.batched && axis > 0;
    Node step = make_step(Op::kDynamicQuantize, node_, node_.name + "/quantize", {x}, {q, scale});
    set_integer(step, "axis", int(axis));
    pass_.emit(std::move(step));
    return {q, scale};
  }

  // Returns the source's codes if they have the policy's quantization and this block, else those of `rule`.
  template <class Rule>
  WeightCodes codes(int64_t block, Rule rule) const {
    const Value& w = pass_.value(node_.inputs[kW]);
    const SourceCodes* source = w.source_codes.get();
    if (source == nullptr || source->of != w.data || source->quantization != policy_.quantization ||
        source->block != block)
      return rule();
    return {source->codes, source->scale, source->zero};
  }

  // y = acc / (scale x_scale) + b, all in the compute type. The weights' scale is a variable and is cast like any
  // other. Codes are made in float64 if that is the compute type, else in float32.
  std::string dynamic() {
    if (policy_.scale_form != ScaleForm::kReciprocal)
      return "weights that the source does not bring take the reciprocal form";
    if (type_ == ElementType::kFloat16) return "float16 is too narrow for the products of scales";
    ValueId w = kNone, scale = kNone;
    if (type_ == ElementType::kFloat64) {
      const ScaledCodes<double> codes = absmax_codes(std::vector<double>(w_.begin(), w_.end()), layout_, kInt8Range);
      w = weights(ElementType::kInt8, bytes_of(codes.codes));
      const auto* first = reinterpret_cast<const uint8_t*>(codes.scale.data());
      scale = constant("/w_scale", type_, {layout_.channels}, {first, first + codes.scale.size() * sizeof(double)});
    } else {
      const WeightCodes made = codes(0, [&] { return absmax_codes(w_, layout_, kInt8Range); });
      w = weights(ElementType::kInt8, bytes_of(made.codes));
      scale = pass_.as_type(node_, scales("/w_scale", made.scale), type_);
    }
    const auto [q, x_scale] = quantize_rows(x(type_), ElementType::kInt8, type_);
    return emit({q, w, bias(type_), scale, x_scale}, type_);
  }

  std::string weight_only(const WeightCodes& codes, ElementType stored, bool reciprocal) {
    const ValueId w = weights(stored, stored == ElementType::kInt4 ? packed_int4(codes.codes) : bytes_of(codes.codes));
    return emit({x(type_), w, bias(type_), scales("/w_scale", codes.scale)}, type_, reciprocal);
  }

  std::string int4() {
    const auto block = int64_t(policy_.block);
    if (block == 0)
      return weight_only(codes(0, [&] { return absmax_codes(w_, layout_, kInt4Range); }), ElementType::kInt4, true);
    const WeightCodes made = codes(block, [&] { return grouped_codes(w_, layout_, block, policy_.group_range); });
    return grouped(x(type_), made, ElementType::kInt4, std::min(block, layout_.terms));
  }

  std::string grouped(ValueId x, const WeightCodes& codes, ElementType stored, int64_t block) {
    const int64_t groups = int64_t(codes.scale.size()) / layout_.channels;
    const ValueId w = weights(stored, stored == ElementType::kInt4 ? packed_int4(codes.codes) : bytes_of(codes.codes));
    const ValueId scale = scales("/w_scale", {layout_.channels, groups}, codes.scale);
    const ValueId zero = pass_.graph().constant(name_ + "/w_zero", {layout_.channels, groups}, codes.zero);
    return emit({x, w, bias(type_), scale, zero}, type_, false, int(block));
  }

  // Writes fitted weights. Codes of up to 4 bits are stored in 4.
  std::string fitted() {
    const bool gptq = policy_.weight_fit == WeightFit::kGptq, int4 = policy_.weight_bits <= 4;
    if (node_.moments == nullptr)
      throw Error(kUsage, pass_.graph().source,
                  node_.name + ": policy " + name_of(policy_.weight_fit) + " needs samples of its input",
                  "give samples with " + option("calibrate", "FILE") +
                      ", or a policy with the nearest codes, int4/128_from_float32");
    const int64_t block = policy_.block == 0 ? layout_.terms : std::min(int64_t(policy_.block), layout_.terms);
    const FitProblem problem = {.w = w_,
                                .layout = layout_,
                                .moments = *node_.moments,
                                .block = block,
                                .bits = policy_.weight_bits,
                                .name = node_.name};
    const Fit fit = gptq ? gptq_fit(problem, policy_.activation_order != 0) : awq_fit(problem, type_);
    say_fit(fit);
    return grouped(times(fit.factor), fit.codes, int4 ? ElementType::kInt4 : ElementType::kInt8, block);
  }

  void say_fit(const Fit& fit) {
    const std::string dead = fit.dead == 0 ? "" : fmt::format(", {} inputs without values", fit.dead);
    pass_.log(node_,
              fmt::format("{}: squared error of the outputs on the samples {:.4g}, of the nearest codes {:.4g}{}{}",
                          name_of(policy_.weight_fit), fit.error, fit.nearest_error, dead,
                          fit.error < fit.nearest_error ? "" : ": has the nearest codes"));
  }

  // Returns x times a factor per channel (last axis), by a step of its own. Returns x itself if `factor` is empty.
  ValueId times(const std::vector<float>& factor) {
    const ValueId real = x(type_);
    if (factor.empty()) return real;
    const ValueId constant =
        pass_.as_type(node_, pass_.graph().constant(name_ + "/x_factor", {int64_t(factor.size())}, factor), type_);
    const ValueId y = pass_.like(real, "/scaled", type_);
    pass_.emit(make_step(Op::kMul, node_, node_.name + "/scale", {real, constant}, {y}));
    return y;
  }

  float amax() const { return absmax(std::span(w_)); }
  float weights_amax() const {
    const std::vector<float>& of_source = pass_.value(node_.inputs[kW]).amaxes;
    return of_source.empty() ? amax() : history_amax(of_source);
  }

  // Returns the amax of the history that the calibration samples leave: its maximum, or its newest entry.
  float history_amax(const std::vector<float>& amaxes) const {
    const size_t length = std::max<size_t>(policy_.amax_history_length, 1);
    const size_t first = amaxes.size() > length ? amaxes.size() - length : 0;
    if (policy_.amax_rule == AmaxRule::kMostRecent) return amaxes.back();
    return *std::max_element(amaxes.begin() + std::ptrdiff_t(first), amaxes.end());
  }

  static constexpr float kMax = float(Float8E4M3::of_bits(Float8E4M3::kMax));

  // Returns {the factor that multiplies, the step} for the amax of a history. Keras computes the step and divides by
  // it. TransformerEngine computes the factor and multiplies by it (NUMERICS.md section 9).
  std::pair<float, float> factor_and_step(float amax) const {
    if (policy_.update_order == UpdateOrder::kKeras) {
      const float step = keras_step(amax, 1, kMax, policy_.margin, true).scale;
      return {1 / step, step};
    }
    const float factor = delayed_scale(amax, 1, kMax, policy_.margin, true).scale;
    return {factor, 1 / factor};
  }

  // Keras rounds a float32 bias of a float8 layer through bfloat16.
  ValueId float8_bias() {
    if (policy_.update_order != UpdateOrder::kKeras || type_ != ElementType::kFloat32) return bias(type_);
    if (node_.inputs.size() <= kBias || node_.inputs[kBias] == kNone) return kNone;
    const std::vector<float> b =
        pass_.rounded_reals(node_, pass_.value(node_.inputs[kBias]), {policy_.variable, ElementType::kBfloat16});
    return pass_.graph().constant(pass_.value(node_.inputs[kBias]).name + "/rounded", {int64_t(b.size())}, b);
  }

  std::string float8() {
    const std::vector<float>& amaxes = pass_.value(node_.inputs[kX]).amaxes;
    if (amaxes.empty() && node_.x_amax == 0)
      throw Error(kUsage, pass_.graph().source, node_.name + ": policy float8 needs a range for its input",
                  "give samples with " + option("calibrate", "FILE") +
                      ", or a policy with scales found at run time, "
                      "float8/current_from_float32");
    const float x_amax = amaxes.empty() ? node_.x_amax : history_amax(amaxes);
    if (each_ && type_ == ElementType::kFloat16)
      return float8_each<Float16>(amaxes.empty() ? x_amax : float(Float16(x_amax)));
    if (each_) return float8_each<Bfloat16>(amaxes.empty() ? x_amax : float(Bfloat16(x_amax)));
    const auto [x_factor, x_step] = factor_and_step(x_amax);
    const auto [w_factor, w_step] = factor_and_step(weights_amax());
    const bool reciprocal = policy_.update_order != UpdateOrder::kKeras;
    const ValueId w = weights(ElementType::kFloat8E4M3,
                              reciprocal ? float8_codes_by_reciprocal(w_, w_factor) : float8_codes(w_, w_step));
    const ValueId real = x(ElementType::kFloat32), q = pass_.like(real, "/float8", ElementType::kFloat8E4M3);
    Node step = make_step(Op::kQuantize, node_, node_.name + "/quantize",
                          {real, scales(reciprocal ? "/x_factor" : "/x_scale", {reciprocal ? x_factor : x_step})}, {q});
    step.rounding = Rounding::kHalfEven;
    if (reciprocal) set_integer(step, "form", 1);
    pass_.emit(std::move(step));
    return emit({q, w, float8_bias(), scales("/w_scale", {w_step}), scales("/x_step", {x_step})}, type_);
  }

  // Does as float8(), but rounds every operation to the compute type T, as Keras does. Scales are cast to T. Weights,
  // and values whose magnitudes are observed, are rounded to T first. A file's scales stay as they are.
  template <class T>
  std::string float8_each(float x_amax) {
    const bool reciprocal = policy_.update_order != UpdateOrder::kKeras;
    const std::vector<float> reals =
        pass_.codable_reals(node_, pass_.value(node_.inputs[kW]), {policy_.variable, type_});
    const std::vector<float>& of_source = pass_.value(node_.inputs[kW]).amaxes;
    const auto [x_factor, x_step] = factor_and_step(x_amax);
    const auto [w_factor, w_step] =
        factor_and_step(of_source.empty() ? absmax(std::span(reals)) : history_amax(of_source));
    const ValueId w =
        weights(ElementType::kFloat8E4M3, float8_codes_in<T>(reals, reciprocal ? w_factor : w_step, reciprocal));
    const ValueId real = x(type_), q = pass_.like(real, "/float8", ElementType::kFloat8E4M3);
    Node step = make_step(Op::kQuantize, node_, node_.name + "/quantize",
                          {real, scales(reciprocal ? "/x_factor" : "/x_scale", {reciprocal ? x_factor : x_step})}, {q});
    step.rounding = Rounding::kHalfEven;
    if (reciprocal) set_integer(step, "form", 1);
    pass_.emit(std::move(step));
    return emit({q, w, bias(type_), scales("/w_scale", {w_step}), scales("/x_step", {x_step})}, type_);
  }

  std::string float8_current() {
    const float w_factor = current_scale(amax(), {.format_max = kMax}).scale;
    const ValueId w = weights(ElementType::kFloat8E4M3, float8_codes_by_reciprocal(w_, w_factor));
    const auto [q, x_step] = quantize_rows(x(ElementType::kFloat32), ElementType::kFloat8E4M3, ElementType::kFloat32);
    return emit({q, w, float8_bias(), scales("/w_scale", {1 / w_factor}), x_step}, type_);
  }

  PolicyPass& pass_;
  const Node node_;
  const Policy& policy_;
  const ElementType type_;
  const bool each_;
  const std::string name_;
  std::vector<float> w_;
  WeightLayout layout_;
};

}  // namespace

std::string write_quantized_matmul(PolicyPass& pass, const Node& node) { return QuantizedMatmul(pass, node).write(); }

}  // namespace nacre::tools
