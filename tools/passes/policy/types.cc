// apply_policy: chooses the float type in which a step runs, and casts its operands and results.
//
//   matmul, pointwise, reduction   the compute type of its layer's policy
//   move                           the type of its operands, if they have one type
//
// A step's operands are cast to its type, as Keras and Axon cast the inputs of a layer and its parameters. Its result
// is cast to the policy's output type, if that is another. Integers that are data (indices) are not cast.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/training.h"
#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/graph/operands.h"
#include "tools/passes/policy/apply_policy.h"

namespace nacre::tools {
namespace {

// Returns the reference kernel that runs `op` on a first operand of type x, preferably one that gives y in x too. Its
// entry says which types the other operands need. The entries of observe_range without an output are skipped: they do
// not say that the output is float32 whatever x is.
const KernelEntry* find_float_entry(Op op, ElementType x) {
  const KernelEntry* mixed = nullptr;
  for (const KernelSet* set : {&reference::kernels(), &reference::training_kernels()})
    for (const KernelEntry* entry : set->entries) {
      if (entry->op != op || entry->rounding != Rounding::kNone || entry->operands[0].element != x) continue;
      if (op == Op::kObserveRange && entry->operand_count == 3) continue;
      if (entry->operands[entry->operand_count - 1].element == x) return entry;
      if (mixed == nullptr) mixed = entry;
    }
  return mixed;
}

template <class T>
void append(std::vector<uint8_t>& bytes, float v) {
  const T element(v);
  const auto* first = reinterpret_cast<const uint8_t*>(&element);
  bytes.insert(bytes.end(), first, first + sizeof element);
}

using Append = void (*)(std::vector<uint8_t>& bytes, float v);
Append append_as(ElementType type) {
  switch (type) {
    case ElementType::kFloat16: return &append<Float16>;
    case ElementType::kBfloat16: return &append<Bfloat16>;
    case ElementType::kFloat64: return &append<double>;
    default: return &append<float>;
  }
}

// Returns v rounded to a float type, as a float32. float32 and float64 represent v, so it stays.
float rounded_to(ElementType type, float v) {
  if (type == ElementType::kFloat16) return float(Float16(v));
  if (type == ElementType::kBfloat16) return float(Bfloat16(v));
  return v;
}

float largest_of(ElementType type) {
  if (type == ElementType::kFloat16) return 65504;
  if (type == ElementType::kBfloat16) return 0x1.FEp127f;
  return std::numeric_limits<float>::max();
}

int digits(ElementType type) {  // digits of the significand
  switch (type) {
    case ElementType::kBfloat16: return 8;
    case ElementType::kFloat16: return 11;
    case ElementType::kFloat32: return 24;
    default: return 53;
  }
}

// Returns whether `to` represents every value of `from`.
bool holds_all(ElementType to, ElementType from) {
  return to == from || (digits(to) >= 24 && digits(to) >= digits(from));
}

bool is_output(const Graph& graph, ValueId id) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const Binding& b) { return b.value == id; });
}

}  // namespace

ElementType PolicyPass::step_type(const Node& node) const {
  if (node.op == Op::kCast || converts(node.op)) return ElementType::kFloat32;
  if (node.op == Op::kStore) return value(node.inputs[1]).type;
  if (find_rule(node.op)->numerics != Numerics::kMove) return compute(node);
  ElementType type = ElementType::kNone;
  const bool reals = is_float_type(value(node.outputs[0]).type);
  for (const ValueId id : node.inputs) {
    if (id == kNone || value(id).constant() || coded(id)) continue;
    if (reals && !is_float_type(value(id).type)) continue;  // indices stay integers
    if (type != ElementType::kNone && type != value(id).type) return compute(node);
    type = value(id).type;
  }
  return type == ElementType::kNone ? compute(node) : type;
}

void PolicyPass::real(Node node) {
  if (is_matmul(node.op)) return write_real_matmul(*this, std::move(node));
  if (casts_real(node)) return cast_real(node);
  ElementType type = step_type(node);
  const KernelEntry* entry = find_float_entry(node.op, type);
  if (entry == nullptr && type != ElementType::kFloat32 && is_float_type(type)) {
    fall_back(node, name_of(type), "float32", std::string(find_rule(node.op)->name) + " has no kernel in it");
    type = ElementType::kFloat32;
    entry = find_float_entry(node.op, type);
  }
  const OpRule& rule = *find_rule(node.op);
  const bool variadic = entry != nullptr && (entry->operands[0].role & kVariadic) != 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    if (is_updated(rule, i)) {
      if (entry != nullptr && value(node.inputs[i]).region == Region::kStream)
        value(node.inputs[i]).type = entry->operands[i].element;
      continue;
    }
    const bool known = entry != nullptr && (variadic || i + node.outputs.size() < entry->operand_count);
    const ElementType wanted = known ? entry->operands[variadic ? 0 : i].element : type;
    node.inputs[i] = as_type(node, node.inputs[i], is_float_type(wanted) ? wanted : ElementType::kFloat32);
  }
  const Quantization quantization = policy(node).quantization;
  if (asked(node) && find_rule(node.op)->numerics == Numerics::kMatmul && quantization != Quantization::kNone)
    fall_back(node, name_of(quantization), name_of(type), "it has no quantized form");
  else if (asked(node) && quantization == Quantization::kInt8Static && !converts(node.op) && is_float_type(type))
    fall_back(node, "int8/static", name_of(type), "its values have no int8 codes");
  emit_in(std::move(node), type, entry);
}

// Finds the values that only wide nodes write and read (wide_), from the last node to the first. A step that only moves
// a value passes the property on.
void PolicyPass::find_wide_values() {
  std::vector<bool> read(graph_.values.size()), rounded(graph_.values.size());
  for (const Binding& b : graph_.outputs) rounded[size_t(b.value)] = true;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[i];
    const bool moves = find_rule(node.op)->numerics == Numerics::kMove;
    for (const ValueId y : node.outputs)
      if (node.wide && read[size_t(y)] && !rounded[size_t(y)]) wide_.insert(y);
    const bool keeps = node.wide && (!moves || wide_.contains(node.outputs[0]));
    for (const ValueId x : node.inputs)
      if (x != kNone) read[size_t(x)] = true, rounded[size_t(x)] = rounded[size_t(x)] || !keeps;
  }
}

// Returns the types from the one in which a step makes y to the one in which y is kept. y is rounded to each in turn.
std::vector<ElementType> PolicyPass::kept_types(const Node& node, ValueId y, ElementType type) const {
  std::vector<ElementType> types = {type};
  const auto then = [&](ElementType next) {
    if (next != types.back()) types.push_back(next);
  };
  const bool moves = find_rule(node.op)->numerics == Numerics::kMove || wide_.contains(y);
  if (!moves && asked(node) && is_float_type(policy(node).output)) then(policy(node).output);
  if (is_output(graph_, y) || (node.op == Op::kCast && !asked(node))) then(value(y).type);  // as the source has it
  return types;
}

void PolicyPass::emit_in(Node node, ElementType type, const KernelEntry* entry) {
  std::vector<std::pair<ValueId, ValueId>> casts;
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    ValueId& id = node.outputs[slot];
    if (!is_float_type(value(id).type)) continue;
    const ValueId y = id;
    // If a step saves an output in a wider type, that type stays. Example: batch_norm_training saves its mean.
    const ElementType made =
        entry == nullptr ? type : entry->operands[entry->operand_count - node.outputs.size() + slot].element;
    // A cast has the types of its values, not those of its first entry.
    const bool own = made != type && node.op != Op::kCast;
    if (entry != nullptr && entry->op == node.op && (own || node.op == Op::kObserveRange)) {
      value(y).type = made;
      continue;
    }
    const std::vector<ElementType> types = kept_types(node, y, type);
    value(y).type = types.back();
    ElementType narrowest = types.back();
    for (size_t i = types.size() - 1; i-- > 0;) {  // from y back to the step's own result
      const ValueId inner = like(y, std::string("/") + name_of(types[i]), types[i]);
      casts.emplace_back(inner, id);
      id = inner;
      // A reader of this type may read y here, if no type between here and y rounds.
      if (holds_all(narrowest, types[i])) typed_.emplace(std::pair(y, types[i]), inner);
      if (!holds_all(narrowest, types[i])) narrowest = types[i + 1];
    }
  }
  const Node near = node;
  emit(std::move(node));
  for (size_t i = casts.size(); i-- > 0;) cast(near, casts[i].first, casts[i].second);
}

void PolicyPass::cast(const Node& near, ValueId x, ValueId y) {
  emit(make_step(Op::kCast, near, value(y).name + "/cast", {x}, {y}));
}

// Returns whether a node is a cast of the source between float types. The values may be codes here.
bool PolicyPass::casts_real(const Node& node) const {
  const auto real = [&](ValueId id) { return is_float_type(value(id).type) || coded(id); };
  return node.op == Op::kCast && real(node.inputs[0]) && real(node.outputs[0]);
}

// Writes a cast of the source between float types. If its layer is asked for a policy, it casts to the policy's output
// type.
void PolicyPass::cast_real(const Node& node) {
  const ValueId y = node.outputs[0];
  if (asked(node) && is_float_type(policy(node).output) && !is_output(graph_, y)) value(y).type = policy(node).output;
  const bool stored = value(node.inputs[0]).constant();
  const ValueId x = stored ? constant_in(node, node.inputs[0], value(y).type) : decoded(node, node.inputs[0]);
  // If the type of y represents all numbers of x, the readers of y read x and cast it if they need to.
  if (!value(x).constant() && !is_output(graph_, y) && holds_all(value(y).type, value(x).type)) {
    widened_.emplace(y, x);
    return;
  }
  emit(make_step(value(x).type == value(y).type ? Op::kCopy : Op::kCast, node, node.name, {x}, {y}));
}

ValueId PolicyPass::as_type(const Node& reader, ValueId id, ElementType type) {
  if (value(id).constant()) return constant_in(reader, id, type);
  const ValueId real = decoded(reader, id);
  if (value(real).type == type || !is_float_type(value(real).type)) return real;
  if (const auto found = typed_.find({real, type}); found != typed_.end()) return found->second;
  const ValueId typed = like(real, std::string("/") + name_of(type), type);
  cast(reader, real, typed);
  typed_.emplace(std::pair(real, type), typed);
  return typed;
}

// Returns an activation as float32 if it has codes. Otherwise returns the activation itself.
ValueId PolicyPass::decoded(const Node& reader, ValueId id) {
  if (!coded(id)) return id;
  if (const auto found = reals_.find(id); found != reals_.end()) return found->second;
  const ValueId real = like(id, "/real", ElementType::kFloat32);
  dequantize(reader, id, real);
  return real;
}

std::vector<float> PolicyPass::rounded_reals(const Node& reader, const Value& constant,
                                             std::initializer_list<ElementType> types) {
  std::vector<float> x = reals(constant);
  Saturated saturated;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]))
      throw Error(
          kBadInput, graph_.source,
          fmt::format("{}: {} has {} at element {}, which no weight may be", reader.name, constant.name, x[i], i),
          "the network was saved broken: train or export it again");
    float y = x[i];
    for (const ElementType type : types) {
      y = rounded_to(type, y);
      if (std::isfinite(y) || y == x[i]) continue;  // infinity stays infinity
      y = std::copysign(largest_of(type), x[i]);
      saturated.add(x[i], i, type);
    }
    x[i] = y;
  }
  if (saturated.count > 0) say_saturated(reader, constant, saturated);
  return x;
}

std::vector<float> PolicyPass::codable_reals(const Node& reader, const Value& constant,
                                             std::initializer_list<ElementType> types) {
  const std::vector<float> x = rounded_reals(reader, constant, types);
  const auto infinite = std::ranges::find_if(x, [](float number) { return std::isinf(number); });
  if (infinite != x.end())
    throw Error(kBadInput, graph_.source,
                fmt::format("{}: {} has {} at element {}, which has no code", reader.name, constant.name, *infinite,
                            infinite - x.begin()),
                "give this layer a float type: " + option("set"));
  return x;
}

// Logs that elements became the type's largest number. Saturated weights change the layer's results, so the user is
// told. A mask is added to scores: its elements below the type's range mean minus infinity, and softmax makes 0 of the
// lowest number too.
void PolicyPass::say_saturated(const Node& reader, const Value& constant, const Saturated& s) {
  const std::string text =
      fmt::format("{} has {} beyond {}, the first {} at element {}: they become {}", constant.name,
                  counted(s.count, "number"), name_of(s.type), s.first, s.index,
                  s.all_negative ? -largest_of(s.type) : std::copysign(largest_of(s.type), s.first));
  if (reader.op == Op::kAdd && s.all_negative) return log(reader, text + ", for minus infinity");
  const std::string& layer = reader.layer == kNone ? reader.name : graph_.layers[size_t(reader.layer)].name;
  const std::string line = "policy: " + layer + ": " + text;
  if (std::ranges::count(graph_.log, line) == 0) graph_.log.push_back(line);
}

ValueId PolicyPass::constant_in(const Node& reader, ValueId id, ElementType type) {
  const Value& v = value(id);
  const bool codes = v.quantizer && v.stored != ElementType::kFloat32;
  if (!codes && !is_float_type(v.stored)) return id;
  // An epsilon or a factor that wide nodes read is not a variable, and 16 bits may not represent it.
  const bool kept_in = is_float_type(policy(reader).variable) && !(reader.wide && v.elements() == 1);
  const ElementType variable = asked(reader) && kept_in ? policy(reader).variable : ElementType::kFloat32;
  const auto key = std::tuple(id, variable, type);
  if (const auto found = constants_.find(key); found != constants_.end()) return found->second;
  const std::vector<float> kept = rounded_reals(reader, v, {variable, type});
  if (!codes && v.stored == type && holds_all(variable, type)) return constants_.emplace(key, id).first->second;
  if (codes) log(reader, v.name + ": codes of a float step are decoded to " + name_of(type));
  std::vector<uint8_t> bytes;
  for (const float x : kept) append_as(type)(bytes, x);
  Value constant;
  constant.name = v.name + (type == ElementType::kFloat32 ? "/real" : std::string("/") + name_of(type));
  constant.type = constant.stored = type;
  constant.dims = v.dims;
  if (codes && !asked(reader)) constant.source_type = v.stored;
  if (!codes && type == v.stored) constant.source_type = v.source_type;
  constant.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  const ValueId made = graph_.add(std::move(constant));
  constants_.emplace(key, made);
  return made;
}

}  // namespace nacre::tools
