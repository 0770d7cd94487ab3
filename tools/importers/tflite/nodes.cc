// Makes operands and nodes for the converters of operators.
#include <algorithm>
#include <limits>

#include "tools/base/names.h"
#include "tools/graph/operands.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

struct Bounds {
  float low, high;
};

// Bounds of no activation, RELU, RELU_N1_TO_1 and RELU6.
constexpr Bounds kBounds[] = {{}, {0, kInfinity}, {-1, 1}, {0, 6}};

// Throws if the file declares a type that the operator does not give: codes without a scale, or integers after
// arithmetic.
void check_types(const Importer& importer, const Operation& op, const Node& node) {
  const Op other_types[] = {Op::kCast, Op::kArgMax, Op::kCompare, Op::kNonMaxSuppression};
  if (std::ranges::find(other_types, node.op) != std::end(other_types) || node.inputs.empty()) return;
  const ElementType first = importer.value(node.inputs[0]).type;
  const bool same = find_rule(node.op)->numerics == Numerics::kMove || first == ElementType::kInt32 ||
                    first == ElementType::kInt64 || first == ElementType::kBool;
  const ElementType given = same ? first : ElementType::kFloat32;
  for (const ValueId id : node.outputs) {
    if (id == kNone || importer.value(id).type == given) continue;
    const ElementType declared = importer.value(id).type;
    const bool codes = declared == ElementType::kInt8 || declared == ElementType::kUint8;
    importer.unsupported(op, importer.value(id).name + " is declared " + name_of(declared) +
                                 (codes ? " without a scale" : "") + ", but the operator gives " + name_of(given));
  }
}

// Computes a node of constants alone (tables, masks, transposed weights) with the reference kernels. Returns false for
// a node that stays, such as one that training may need a gradient of, one with codes, or one that writes a result.
bool compute_constant(Importer& importer, const Operation& op, Node& node) {
  constexpr int64_t kMostComputed = 1 << 22;
  Graph& graph = importer.graph();
  const bool whole = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) {
    const ElementType type = importer.value(y).type;
    return type == ElementType::kInt32 || type == ElementType::kInt64 || type == ElementType::kBool;
  });
  const auto is_plain = [&](ValueId x) {
    return x != kNone && importer.value(x).constant() && !importer.value(x).quantizer &&
           importer.value(x).stored == importer.value(x).type;
  };
  const auto takes_codes = [&](ValueId y) { return importer.value(y).quantizer.has_value(); };
  const auto writes_result = [&](int id) {
    return importer.scope().is_result(id) && std::ranges::count(node.outputs, importer.scope().values[size_t(id)]) > 0;
  };
  if (is_matmul(node.op) || (importer.file().options().train && !whole) || node.inputs.empty() ||
      !std::all_of(node.inputs.begin(), node.inputs.end(), is_plain) ||
      std::any_of(node.outputs.begin(), node.outputs.end(), takes_codes) ||
      std::any_of(op.outputs.begin(), op.outputs.end(), writes_result))
    return false;
  node.name = op.name;
  infer_shapes(graph, node);
  check_types(importer, op, node);
  int64_t elements = 0;
  for (const ValueId y : node.outputs) elements += importer.value(y).elements();
  if (elements > kMostComputed || find_kernel(graph, node) == nullptr) return false;
  graph.budget.take(uint64_t(elements) * 8, op.name, "what is computed of constants", "use a smaller network");
  std::vector<std::vector<uint8_t>> results = evaluate(graph, node);
  for (size_t i = 0; i < results.size(); ++i) {
    Value& y = importer.value(node.outputs[i]);
    y.data = std::make_shared<const std::vector<uint8_t>>(std::move(results[i]));
    y.stored = y.type;
    y.region = Region::kWeights;
  }
  return true;
}

}  // namespace

bool Scope::is_result(int id) const {
  const auto* outputs = tensors.graph().outputs();
  return depth == 0 && outputs != nullptr && std::find(outputs->begin(), outputs->end(), id) != outputs->end();
}

Importer::Importer(File& file, Reader& reader)
    : file_(file), scope_(file, *file.model().subgraphs()->Get(0), 0), calls_(*this, reader, scope_),
      variables_(*this) {
  graph_.source = file.name();
}

// Returns `name`, or name_2, name_3, ... if it is used: each tensor has one name, whatever the file's names are.
std::string Importer::unique(const std::string& name) {
  int& count = names_[name];
  if (++count == 1) return name;
  for (;; ++count) {
    const std::string candidate = name + "_" + std::to_string(count);
    if (names_.try_emplace(candidate, 1).second) return candidate;
  }
}

ValueId Importer::input(const Operation& op, size_t i) {
  if (!op.has_input(i)) bad(op, "input " + std::to_string(i) + " is missing");
  const int id = op.inputs[i];
  if (scope_.values[size_t(id)] == kNone && tensors()[id].is_variable())
    file_.unsupported(tensors().name(id), "is a variable that lives between runs");
  const ValueId x = made(id);
  if (x == kNone) bad(op, "reads " + tensors().name(id) + " before it is written");
  return x;
}

ValueId Importer::made(int id) {
  ValueId& x = scope_.values[size_t(id)];
  if (x != kNone) return x;
  if (scope_.rows.contains(id)) return calls_.join_rows(id);
  if (!tensors().has_data(id)) return kNone;
  const auto [found, is_new] = constants_.try_emplace({&tensors().graph(), id}, kNone);
  if (is_new) {
    Value v = tensors().constant(id);
    v.name = unique(tensors().name(id));
    found->second = graph_.add(std::move(v));
  }
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

std::vector<int64_t> Importer::integers(const Operation& op, size_t i) {
  if (!op.has_input(i)) bad(op, "input " + std::to_string(i) + " is missing");
  const int id = op.inputs[i];
  if (scope_.values[size_t(id)] == kNone && !tensors().has_data(id)) {
    const std::vector<int64_t> dims = tensors().dims(id);
    if (dims.size() == 1 && dims[0] == 0) return {};  // the empty list has no bytes, like a tensor that a node computes
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
  if (file_.batch().same || v.constant()) return v.dims;
  const std::vector<int64_t> dims = tensors().dims(op.inputs[i]);
  if (dims.size() != v.dims.size()) unsupported(op, v.name + " has no shape in the file, which another batch needs");
  return dims;
}

ValueId Importer::output(const Operation& op, size_t i) {
  if (i >= op.outputs.size()) bad(op, "has no output " + std::to_string(i));
  const int id = op.outputs[i];
  if (scope_.values[size_t(id)] != kNone) return scope_.values[size_t(id)];
  Value v = tensors().value(id);
  if (v.type == ElementType::kFloat16) unsupported(op, "float16 activations (" + tensors().name(id) + ")");
  if (v.quantizer && v.quantizer->scale.size() > 1)
    unsupported(op, tensors().name(id) + " is an activation with a scale per channel");
  if (v.type == ElementType::kInt32 && tensors().has_scale(id))
    unsupported(op, tensors().name(id) + " is an activation quantized to int32");
  v.stored = ElementType::kNone;
  v.name = unique(tensors().name(id));
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
  constant.name = unique(tensors().name(op.outputs[0]));
  constant.region = Region::kWeights;
  scope_.values[size_t(op.outputs[0])] = graph_.add(std::move(constant));
}

Policy& Importer::policy(Operation& op) {
  if (op.layer == kNone) op.layer = graph_.add_layer({value(output(op)).name, op.code_name, {}});
  return graph_.layers[size_t(op.layer)].policy;
}

void Importer::emit(Operation& op, Node node) {
  if (compute_constant(*this, op, node)) return;
  policy(op);
  node.layer = op.layer;
  node.name = graph_.layers[size_t(op.layer)].name;
  infer_shapes(graph_, node);
  check_types(*this, op, node);
  graph_.nodes.push_back(std::move(node));
}

void Importer::emit_activated(Operation& op, Node node, Activation activation, ValueId y) {
  if (y == kNone) y = output(op);
  const bool clamps =
      activation == Activation::RELU || activation == Activation::RELU_N1_TO_1 || activation == Activation::RELU6;
  if (clamps && (node.op == Op::kBinary || node.op == Op::kSvdf)) {  // this op has no clamp of its own
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

std::vector<ValueId> in_groups(Importer& importer, Operation& op, std::vector<ValueId> parts, int axis, ValueId like) {
  constexpr size_t kMostParts = 16;
  while (parts.size() > kMostParts) {
    std::vector<ValueId> joined;
    for (size_t i = 0; i < parts.size(); i += kMostParts) {
      Node node{.op = Op::kConcat, .name = "", .words = {}, .inputs = {}, .outputs = {}};
      node.inputs.assign(parts.begin() + long(i), parts.begin() + long(std::min(i + kMostParts, parts.size())));
      set_integer(node, "axis", axis);
      joined.push_back(node.inputs.size() == 1 ? node.inputs[0] : importer.between(like, "/joined"));
      if (node.inputs.size() == 1) continue;
      node.outputs = {joined.back()};
      importer.emit(op, std::move(node));
    }
    parts = std::move(joined);
  }
  return parts;
}

ValueId cut_axis(Importer& importer, Operation& op, ValueId x, int axis, const Cut& cut, const std::string& suffix,
                 ValueId y) {
  const std::vector<int64_t> dims = importer.value(x).dims;
  if (y == kNone) y = importer.between(x, suffix);
  Node node{.op = Op::kSlice, .name = "", .words = {}, .inputs = {x}, .outputs = {y}};
  for (int i = 0; i < int(dims.size()); ++i) {
    set_integer(node, "begin", i == axis ? int(cut.begin) : 0, i);
    set_integer(node, "size", int(i == axis ? cut.size : dims[size_t(i)]), i);
    set_integer(node, "step", i == axis ? int(cut.step) : 1, i);
  }
  importer.emit(op, std::move(node));
  return y;
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
