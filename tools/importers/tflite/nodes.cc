// Operands and nodes: what the converters of operators build with.
#include <algorithm>
#include <limits>

#include "tools/base/names.h"
#include "tools/graph/operands.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {

ValueId Importer::input(const Operation& op, size_t i) {
  if (!has_input(op, i)) bad(op, "input " + std::to_string(i) + " is missing");
  const int id = op.inputs[i];
  if (scope_.values[size_t(id)] == kNone && tensor(id).is_variable())
    unsupported(tensor_name(id), "is a variable that lives between runs");
  const ValueId x = made(id);
  if (x == kNone) bad(op, "reads " + tensor_name(id) + " before it is written");
  return x;
}

ValueId Importer::made(int id) {
  ValueId& x = scope_.values[size_t(id)];
  if (x != kNone) return x;
  if (scope_.rows.contains(id)) return join_rows(id);
  if (!has_data(id)) return kNone;
  const auto [found, is_new] = constants_.try_emplace({scope_.graph, id}, kNone);
  if (is_new) found->second = constant(id);
  return x = found->second;
}

ValueId Importer::real_input(const Operation& op, size_t i) {
  const ValueId id = input(op, i);
  const Value& v = value(id);
  if (v.type != ElementType::kFloat32) unsupported(op, "arithmetic on integer or float16 data (" + v.name + ")");
  return id;
}

ValueId Importer::whole_or_real_input(const Operation& op, size_t i) {
  const ValueId id = input(op, i);
  const ElementType type = value(id).type;
  return type == ElementType::kInt32 || type == ElementType::kInt64 ? id : real_input(op, i);
}

bool Importer::is_computed(const Operation& op, size_t i) const {
  return has_input(op, i) && scope_.written[size_t(op.inputs[i])];
}

std::vector<int64_t> Importer::integers(const Operation& op, size_t i) {
  if (!has_input(op, i)) bad(op, "input " + std::to_string(i) + " is missing");
  const int id = op.inputs[i];
  if (scope_.values[size_t(id)] == kNone && !has_data(id)) {
    const std::vector<int64_t> dims = dims_of(id);
    if (dims.size() == 1 && dims[0] == 0) return {};  // the empty list has no bytes, like what is yet to be computed
  }
  const Value& v = value(input(op, i));
  if (!v.constant()) unsupported(op, v.name + " is computed at run time; only constants are supported there");
  if (v.stored != ElementType::kInt32 && v.stored != ElementType::kInt64) bad(op, v.name + " must hold integers");
  if (v.elements() > kMaxRank * 2 + 1024)
    unsupported(op, v.name + " has " + std::to_string(v.elements()) + " elements");
  return tools::integers(v);
}

std::vector<int64_t> Importer::file_dims(const Operation& op, size_t i) {
  const Value& v = value(input(op, i));
  if (same_batch_ || v.constant()) return v.dims;
  const std::vector<int64_t> dims = dims_of(op.inputs[i]);
  if (dims.size() != v.dims.size()) unsupported(op, v.name + " has no shape in the file, which another batch needs");
  return dims;
}

std::vector<int64_t> Importer::declared_dims(const Operation& op) const { return dims_of(op.outputs[0]); }

ValueId Importer::output(const Operation& op, size_t i) {
  if (i >= op.outputs.size()) bad(op, "has no output " + std::to_string(i));
  const int id = op.outputs[i];
  if (scope_.values[size_t(id)] != kNone) return scope_.values[size_t(id)];
  Value v = make_value(id);
  if (v.type == ElementType::kFloat16) unsupported(op, "float16 activations (" + tensor_name(id) + ")");
  if (v.quantizer && v.quantizer->scale.size() > 1)
    unsupported(op, tensor_name(id) + " is an activation with a scale per channel");
  if (v.type == ElementType::kInt32 && has_scale(id))
    unsupported(op, tensor_name(id) + " is an activation quantized to int32");
  v.stored = ElementType::kNone;
  v.name = unique(tensor_name(id));
  return scope_.values[size_t(id)] = graph_.add(std::move(v));
}

ValueId Importer::between(ValueId like, const std::string& suffix) {
  Value v;
  v.type = value(like).type;
  v.quantizer = value(like).quantizer;
  v.name = unique(value(like).name + suffix);
  return graph_.add(std::move(v));
}

void Importer::define(const Operation& op, Value constant) {
  constant.name = unique(tensor_name(op.outputs[0]));
  constant.region = Region::kWeights;
  scope_.values[size_t(op.outputs[0])] = graph_.add(std::move(constant));
}

Policy& Importer::policy(Operation& op) {
  if (op.layer == kNone) op.layer = graph_.add_layer({value(output(op)).name, op.code_name, {}});
  return graph_.layers[size_t(op.layer)].policy;
}

// What is computed of constants alone is computed here, with the reference kernels: tables, masks, weights that are
// turned. Not where a gradient may be wanted of it, and not codes, whose rounding is a policy's.
bool Importer::compute_constant(const Operation& op, Node& node) {
  constexpr int64_t kMostElements = 1 << 22;
  const bool whole = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) {
    const ElementType type = value(y).type;
    return type == ElementType::kInt32 || type == ElementType::kInt64 || type == ElementType::kBool;
  });
  const auto is_plain = [&](ValueId x) {
    return x != kNone && value(x).constant() && !value(x).quantizer && value(x).stored == value(x).type;
  };
  const auto takes_codes = [&](ValueId y) { return value(y).quantizer.has_value(); };
  const auto writes_result = [&](int id) {
    return is_result(id) && std::ranges::count(node.outputs, scope_.values[size_t(id)]) > 0;
  };
  if (is_matmul(node.op) || (options_.train && !whole) || node.inputs.empty() ||
      !std::all_of(node.inputs.begin(), node.inputs.end(), is_plain) ||
      std::any_of(node.outputs.begin(), node.outputs.end(), takes_codes) ||
      std::any_of(op.outputs.begin(), op.outputs.end(), writes_result))
    return false;
  node.name = op.name;
  infer_shapes(graph_, node);
  check_types(op, node);
  int64_t elements = 0;
  for (const ValueId y : node.outputs) elements += value(y).elements();
  if (elements > kMostElements || find_kernel(graph_, node) == nullptr) return false;
  graph_.budget.take(uint64_t(elements) * 8, op.name, "what is computed of constants", "use a smaller network");
  std::vector<std::vector<uint8_t>> results = evaluate(graph_, node);
  for (size_t i = 0; i < results.size(); ++i) {
    Value& y = value(node.outputs[i]);
    y.data = std::make_shared<const std::vector<uint8_t>>(std::move(results[i]));
    y.stored = y.type;
    y.region = Region::kWeights;
  }
  return true;
}

void Importer::emit(Operation& op, Node node) {
  if (compute_constant(op, node)) return;
  policy(op);
  node.layer = op.layer;
  node.name = graph_.layers[size_t(op.layer)].name;
  infer_shapes(graph_, node);
  check_types(op, node);
  graph_.nodes.push_back(std::move(node));
}

// A file may declare what no operator gives: codes without a scale, or integers behind arithmetic.
void Importer::check_types(const Operation& op, const Node& node) {
  const Op other_types[] = {Op::kCast, Op::kArgMax, Op::kCompare, Op::kNonMaxSuppression};
  if (std::ranges::find(other_types, node.op) != std::end(other_types) || node.inputs.empty()) return;
  const ElementType first = value(node.inputs[0]).type;
  const bool same = find_rule(node.op)->numerics == Numerics::kMove || first == ElementType::kInt32 ||
                    first == ElementType::kInt64 || first == ElementType::kBool;
  const ElementType given = same ? first : ElementType::kFloat32;
  for (const ValueId id : node.outputs) {
    if (id == kNone || value(id).type == given) continue;
    const ElementType declared = value(id).type;
    const bool codes = declared == ElementType::kInt8 || declared == ElementType::kUint8;
    unsupported(op, value(id).name + " is declared " + name_of(declared) + (codes ? " without a scale" : "") +
                        ", but the operator gives " + name_of(given));
  }
}

namespace {

struct Bounds {
  float low, high;
};

// Of RELU, RELU_N1_TO_1, RELU6.
constexpr Bounds kBounds[] = {{}, {0, kInfinity}, {-1, 1}, {0, 6}};

}  // namespace

void Importer::emit_activated(Operation& op, Node node, Activation activation, ValueId y) {
  if (y == kNone) y = output(op);
  const bool clamps =
      activation == Activation::RELU || activation == Activation::RELU_N1_TO_1 || activation == Activation::RELU6;
  if (clamps && (node.op == Op::kBinary || node.op == Op::kSvdf)) {  // has no clamp of its own
    Node clamp{.op = Op::kClamp, .name = "", .words = {}, .inputs = {between(y, "/before_clamp")}, .outputs = {}};
    node.outputs = clamp.inputs;
    emit(op, std::move(node));
    node = std::move(clamp);
  }
  if (activation == Activation::NONE || clamps) {
    if (clamps) {
      set_integer(node, "clamp", 1);
      set_real(node, "low", kBounds[int(activation)].low);
      set_real(node, "high", kBounds[int(activation)].high);
    }
    node.outputs = {y};
    return emit(op, std::move(node));
  }
  if (activation != Activation::TANH) unsupported(op, "fused activation " + std::to_string(int(activation)));
  if (value(y).quantizer) unsupported(op, "a fused TANH on codes");
  node.outputs = {between(y, "/before_tanh")};
  const ValueId x = node.outputs[0];
  emit(op, std::move(node));
  emit(op, {.op = Op::kTanh, .name = "", .words = {}, .inputs = {x}, .outputs = {y}});
}

std::vector<ValueId> Importer::in_groups(Operation& op, std::vector<ValueId> parts, int axis, ValueId like) {
  constexpr size_t kMostParts = 16;
  while (parts.size() > kMostParts) {
    std::vector<ValueId> joined;
    for (size_t i = 0; i < parts.size(); i += kMostParts) {
      Node node{.op = Op::kConcat, .name = "", .words = {}, .inputs = {}, .outputs = {}};
      node.inputs.assign(parts.begin() + long(i), parts.begin() + long(std::min(i + kMostParts, parts.size())));
      set_integer(node, "axis", axis);
      joined.push_back(node.inputs.size() == 1 ? node.inputs[0] : between(like, "/joined"));
      if (node.inputs.size() == 1) continue;
      node.outputs = {joined.back()};
      emit(op, std::move(node));
    }
    parts = std::move(joined);
  }
  return parts;
}

void Importer::emit_reshape(Operation& op, ValueId x, std::vector<int64_t> dims, ValueId y) {
  if (dims.size() > size_t(kMaxRank)) unsupported(op, "more than 8 axes");
  Node node{.op = Op::kReshape, .name = "", .words = {}, .inputs = {x}, .outputs = {y}};
  set_integer(node, "rank", int(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1 || dims[i] > kMaxSize) unsupported(op, "a shape of " + dims_text(dims));
    set_integer(node, "dims", int(dims[i]), int(i));
  }
  emit(op, std::move(node));
}

int Importer::axis(const Operation& op, int64_t axis, size_t rank) const {
  if (axis < -int64_t(rank) || axis >= int64_t(rank))
    bad(op, "axis " + std::to_string(axis) + " of a tensor with " + std::to_string(rank) + " axes");
  return int(axis < 0 ? axis + int64_t(rank) : axis);
}

int Importer::integer(const Operation& op, int64_t number, const char* what) const {
  if (number < -kMaxSize || number > kMaxSize) bad(op, std::string(what) + " of " + std::to_string(number));
  return int(number);
}

}  // namespace nacre::tools::tflite
