// apply_policy: walks over the nodes. For every node the first row that holds decides:
//
//   it belongs to a loop over time in integers       the step of loops.cc
//   it copies one value into another form            quantize, dequantize, requantize or copy
//   none of its activations carries codes            a float type, by its layer's policy (types.cc, matmul.cc)
//   all do, its layer's policy allows codes, and
//   its op has an integer form for them              that form (forms.cc, matmul.cc)
//   otherwise                                        dequantize, a float type, quantize: logged
#include "tools/passes/policy/apply_policy.h"
#include "tools/base/option_id.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/parameters.h"
#include "tools/base/names.h"
#include "tools/base/unsupported.h"
#include "tools/graph/code_ends.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

// Returns whether the op's output has its input's real values. The quantizers of both then decide which conversion it
// is.
bool is_identity(const Node& node) {
  const bool op =
      node.op == Op::kCopy || node.op == Op::kQuantize || node.op == Op::kDequantize || node.op == Op::kRequantize;
  return op && std::count_if(node.inputs.begin(), node.inputs.end(), [](ValueId id) { return id != kNone; }) == 1;
}

}  // namespace

bool converts(Op op) {
  return op == Op::kQuantize || op == Op::kDequantize || op == Op::kRequantize || op == Op::kDynamicQuantize;
}

int32_t bound_code(float bound, Codes y) {
  const CodeEnds range = code_ends(y.type);
  const float code = std::round(bound / y.scale) + float(y.zero);
  return code > float(range.high) ? range.high : code >= float(range.low) ? int32_t(code) : range.low;
}

const Policy& PolicyPass::policy(const Node& node) const {
  static const Policy kFloat32;
  return node.layer == kNone ? kFloat32 : asked_[size_t(node.layer)].policy;
}

void PolicyPass::log(const Node& node, const std::string& what) {
  const std::string& name = node.layer == kNone ? node.name : graph_.layers[size_t(node.layer)].name;
  graph_.log.push_back("apply_policy: " + name + ": " + what);
}

void PolicyPass::fall_back(const Node& node, const std::string& wanted, const std::string& runs,
                           const std::string& reason) {
  const std::string& name = node.layer == kNone ? node.name : graph_.layers[size_t(node.layer)].name;
  const std::string step = name + " (" + find_rule(node.op)->name + "):";
  // quantize_static may have listed the step already, with a better reason.
  const auto listed = [&](const std::string& line) { return line.starts_with(step); };
  if (std::none_of(graph_.fallbacks.begin(), graph_.fallbacks.end(), listed))
    graph_.fallbacks.push_back(step + " wants " + wanted + ", runs in " + runs + ": " + reason);
  log(node, "wants " + wanted + ", runs in " + runs + ": " + reason);
}

void PolicyPass::record(const Node& node, ElementType variable, ElementType compute, ElementType output,
                        Quantization quantization) {
  // A layer's record comes from its matmul, else its reduction, else another op. Steps that only convert come last.
  constexpr int kStrength[] = {4, 2, 3, 1};        // kMatmul, kPointwise, kReduction, kMove
  if (node.layer == kNone || asked(node)) return;  // an asked policy stays; graph.fallbacks has its exceptions
  const int strength = converts(node.op) ? 0 : kStrength[size_t(find_rule(node.op)->numerics)];
  const auto [at, first] = recorded_.try_emplace(node.layer, strength);
  if (!first && at->second >= strength) return;
  at->second = strength;
  Policy& policy = graph_.layers[size_t(node.layer)].policy;
  policy.variable = variable;
  policy.compute = compute;
  policy.output = output;
  policy.quantization = quantization;
  policy.rounding = uint8_t(node.rounding);
}

void PolicyPass::emit(Node node) {
  const ElementType x = node.inputs.empty() ? ElementType::kFloat32 : value(node.inputs[0]).type;
  const ElementType y = node.outputs.empty() ? x : value(node.outputs[0]).type;
  const bool uint8 = x == ElementType::kUint8 || y == ElementType::kUint8;
  const bool codes = node.op == Op::kRequantize ? !uint8 : holds_codes(x) && holds_codes(y);
  const ElementType compute = converts(node.op) && !codes ? ElementType::kFloat32 : x;
  if (!is_matmul(node.op)) record(node, x, compute, y, codes ? Quantization::kInt8Static : Quantization::kNone);
  steps_.push_back(std::move(node));
}

void PolicyPass::convert(const Node& node) {
  const ValueId x = *std::find_if(node.inputs.begin(), node.inputs.end(), [](ValueId id) { return id != kNone; });
  const ValueId y = node.outputs[0];
  const bool from = coded(x), to = coded(y);
  if (from && to && codes(x) != codes(y)) return requantize(node, as_codes(x), y);
  if (from && !to) return dequantize(node, as_codes(x), y);
  if (!from && to) return quantize(node, x, y);
  Node copy = make_step(Op::kCopy, node, node.name, {x}, {y});
  from ? emit(std::move(copy)) : real(std::move(copy));
}

void PolicyPass::resolve(const Node& node) {
  if (node.op == Op::kDropout && (node.inputs.size() < 2 || node.inputs[1] == kNone))
    throw Error(kUnsupported, graph_.source, node.name + " drops elements at random: training_mode is set",
                "export for inference, or convert it for training: " + option("train"));
  const auto found = node.outputs.empty() ? integer_products_.end() : integer_products_.find(node.outputs[0]);
  if (found != integer_products_.end()) return write_integer_product(*this, node, found->second);
  if (!node.inputs.empty() && integer_products_.contains(node.inputs[0])) return write_integer_loop(*this, node);
  if (is_identity(node) || (casts_real(node) && coded(node.outputs[0]))) return convert(node);
  const auto activation = [&](ValueId id) { return id != kNone && !value(id).constant(); };
  const auto is_coded = [&](ValueId id) { return !activation(id) || coded(id); };
  const auto is_real = [&](ValueId id) { return !activation(id) || !coded(id); };
  const auto all = [&](auto holds) {
    return std::all_of(node.inputs.begin(), node.inputs.end(), holds) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), holds);
  };
  if (all(is_real)) return real(node);
  const bool wants_reals = asked(node) && policy(node).quantization != Quantization::kInt8Static;
  if (wants_reals && find_rule(node.op)->numerics != Numerics::kMove)
    return by_way_of_real(node, "its policy is not int8/static");
  if (!all(is_coded)) return by_way_of_real(node, "codes and float32 values meet");
  if (!coded(as_codes(node.inputs[0]))) return by_way_of_real(node, "its input is a constant without codes");
  const ElementType type = codes(node.inputs[0]).type;
  const auto is_alike = [&](ValueId id) {
    if (!activation(id)) return true;
    const Codes of = codes(id);
    if (node.op == Op::kSoftmax && type == ElementType::kInt8) return holds_codes(of.type);  // softmax gives int16 too
    return of.type == type && (type == ElementType::kInt8 || of.zero == 0);
  };
  if (!all(is_alike) || !holds_codes(type))
    return by_way_of_real(node, "codes of several types meet, or of 16 bits with a zero point");
  std::string why = kNoIntegerForm;
  if (is_matmul(node.op)) {
    if (write_integer_matmul(*this, node, why)) return;
    return by_way_of_real(node, why);
  }
  const IntegerForm* form = find_integer_form(node.op);
  const auto write = form == nullptr ? nullptr : type == ElementType::kInt8 ? form->write : form->write_int16;
  if (write == nullptr) return by_way_of_real(node, why);
  // If an op's output must have the codes of its input, another quantizer of y needs its own step.
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (facts_of(node.op).forms == IntegerOutput::kOwn || codes(x) == codes(y)) {
    if (!write(*this, node, why)) by_way_of_real(node, why);
    return;
  }
  // An average or an interpolated value lies between codes of x. Rounding it to a code of x moves it by up to half a
  // step of x. That may be at most one step of y.
  if ((node.op == Op::kAveragePool || node.op == Op::kResize) && codes(x).scale > 2 * codes(y).scale)
    return by_way_of_real(node, "its output has finer codes than its input");
  Node step = node;
  step.outputs[0] = like(y, "/codes", type);
  value(step.outputs[0]).quantizer = value(x).quantizer;
  if (!write(*this, step, why)) return by_way_of_real(node, why);
  requantize(node, step.outputs[0], y);
}

void PolicyPass::by_way_of_real(Node node, const std::string& reason) {
  log(node, std::string(find_rule(node.op)->name) + " runs in " + name_of(compute(node)) +
                " between dequantize and quantize: " + reason);
  if (asked(node) && policy(node).quantization == Quantization::kInt8Static)
    fall_back(node, "int8/static", name_of(compute(node)), reason);
  for (ValueId& id : node.inputs)
    if (id != kNone && !value(id).constant()) id = as_real(node, id);
  std::vector<std::pair<ValueId, ValueId>> quantized;
  for (ValueId& id : node.outputs) {
    if (!coded(id)) continue;
    const ValueId y = id;
    id = like(y, "/real", ElementType::kFloat32);
    quantized.emplace_back(id, y);
  }
  const Node near = node;
  real(std::move(node));
  for (const auto& [x, y] : quantized) quantize(near, x, y);
  if (near.layer != kNone && !asked(near) && !quantized.empty())
    graph_.layers[size_t(near.layer)].policy.output = value(quantized[0].second).type;
}

// Runs `work`. Errors for unsupported features are collected and reported at the end. Returns false if there was one.
bool PolicyPass::collect(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    problems_.push_back(without_file(error.what(), graph_.source));
    return false;
  }
}

void PolicyPass::run() {
  prepare_values();
  add_uint8_borders();
  let_quantizers_travel();
  integer_products_ = integer_products(*this);
  find_wide_values();
  const std::vector<Node> nodes = std::move(graph_.nodes);
  graph_.nodes.clear();
  for (Node node : nodes) {
    for (ValueId& id : node.inputs)
      if (const auto found = widened_.find(id); found != widened_.end()) id = found->second;
    collect([&] { resolve(node); });
  }
  report_problems(graph_.source, problems_, "", "  ");
  for (const auto& [inside, border] : output_borders_) requantize(Node(), inside, border);
  for (Value& v : graph_.values)
    if (v.constant()) v.type = v.stored;
  graph_.nodes = std::move(steps_);
  if (options_.io_types == IoTypes::kPolicy) open_io_types();
}

void apply_policy(Graph& graph, const PolicyOptions& options) {
  fuse_quantized_clamps(graph);
  PolicyPass(graph, options).run();
  remove_dead_values(graph, {});
}

}  // namespace nacre::tools
