// Implements class Import: operands in two layouts, nodes of the graph, outputs of the current node.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "tools/base/error.h"
#include "tools/importers/onnx/file.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/model/model_limits.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns whether the permutation keeps the order of all axes that have more than one index. No element moves then.
bool moves_nothing(const std::vector<int64_t>& dims, const std::vector<int>& perm) {
  int last = -1;
  for (const int axis : perm) {
    if (dims[size_t(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

std::vector<int64_t> moved_dims(const std::vector<int64_t>& dims, const std::vector<int>& perm) {
  std::vector<int64_t> moved;
  for (const int axis : perm) moved.push_back(dims[size_t(axis)]);
  return moved;
}

// Returns the constant of x as a value of the graph. Refuses a type, shape or rank that no value may have.
Value storable(const Source& source, const Operand& x) {
  if (!at_run_time(x.type)) source.refuse(x.name + " has an element type that no value at run time has");
  if (x.constant->elements() == 0) source.refuse(x.name + " is empty: it has no elements");
  if (x.rank() > kMaxRank) source.refuse(x.name + " has more than 8 axes");
  Value value = *x.constant;
  value.name = x.name;
  return value;
}

// Returns an operand with the type and shape of v, an output of the node. `kept` is that of the node's operands.
OperandPtr operand_like(const Source& source, const Value& v) {
  const ElementType type = is_other_real(v.type) ? ElementType::kFloat32 : v.type;
  const ElementType kept = type == ElementType::kFloat32 ? source.kept() : ElementType::kNone;
  return std::make_shared<Operand>(Operand{.type = type, .kept = kept, .dims = v.dims});
}

Value read_stored(const Graph& graph, const ::onnx::TensorProto& tensor) {
  const std::string directory = std::filesystem::path(graph.source).parent_path().string();
  return read_tensor(tensor, directory.empty() ? "." : directory);
}

}  // namespace

void need_float32(const Source& source, const Operand& operand) {
  if (operand.rank() > kMaxRank) source.refuse(operand.name + " has more than 8 axes");
  if (operand.type != ElementType::kFloat32)
    source.refuse("arithmetic at run time is done in float32 only (" + operand.name + " is of another type)",
                  "export the network in float32");
}

bool at_run_time(ElementType type) {
  using enum ElementType;
  constexpr ElementType kTypes[] = {kFloat32, kInt8, kUint8, kInt16, kInt32, kUint32, kInt64, kBool};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

bool is_whole(ElementType type) { return type == ElementType::kInt32 || type == ElementType::kInt64; }

bool is_input(const Graph& graph, ValueId id) {
  return std::ranges::find(graph.inputs, id, &Binding::value) != graph.inputs.end();
}

// ---- Layouts: [n, c, d1, d2, ..] and [n, d1, d2, .., c]

std::vector<int> to_channels_last(int rank) {
  std::vector<int> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

std::vector<int> from_channels_last(int rank) {
  std::vector<int> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}

int channels_last_axis(int axis, int rank) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

std::vector<int64_t> channels_last_dims(const std::vector<int64_t>& dims) {
  return dims.size() < 3 ? dims : moved_dims(dims, to_channels_last(int(dims.size())));
}

Import::Import(FileWalk& walk, const std::string& name, const ImportOptions& options, const TorchConstants& torch,
               SplitParameters split)
    : walk_(walk), options_(options), parameters_(*this, torch, std::move(split)), log_(*this, graph_) {
  graph_.source = name;
}

// ---- Operands

OperandPtr Import::find(Scope& scope, const std::string& name) {
  const auto found = scope.operands.find(name);
  if (found != scope.operands.end()) return found->second;
  const auto tensor = scope.initializers.find(name);
  if (tensor == scope.initializers.end()) return scope.outer != nullptr ? find(*scope.outer, name) : nullptr;
  if (tensor->second == nullptr)
    throw Error(kUnsupported, name, "is a sparse initializer", "store the weights densely");
  if (tensor->second->data_type() == ::onnx::TensorProto::STRING)
    return scope.operands.emplace(name, read_names(*tensor->second)).first->second;
  OperandPtr& operand = tensors_[tensor->second];
  if (!operand) {
    Value constant = read_stored(graph_, *tensor->second);
    constant.fixed = parameters_.is_literal(name, constant);
    operand = operand_of(std::move(constant));
    operand->name = name;
    if (operand->exact) graph_.log.push_back("import: " + name + ": its numbers are rounded to float32");
  }
  operand->uses += scope.uses[name];
  return scope.operands.emplace(name, operand).first->second;
}

ValueId Import::plain(const OperandPtr& x) {
  if (x->rank() > kMaxRank && !x->constant) current_.source->refuse(x->name + " has more than 8 axes");
  if (x->plain != kNone) return x->plain;
  if (x->sequence) current_.source->refuse(x->name + " is a sequence of tensors, which no value is");
  if (x->dynamic)
    current_.source->refuse(x->name + " is a part of a dynamically quantized layer: it has no value of its own");
  if (x->constant) return x->plain = parameters_.parameter(x, {}, storable(*current_.source, *x));
  if (x->quantized) {  // a node reads the codes themselves, so a quantize node makes them
    const Quantizer& q = x->quantized->quantizer;
    if (!is_code_type(q.codes)) current_.source->refuse("reads codes of 16 bits, which have no kernels, as they are");
    Node node = step(Op::kQuantize);
    node.rounding = Rounding::kHalfEven;
    const auto count = int64_t(q.scale.size());
    const std::vector<int32_t> zeros(q.zero.begin(), q.zero.end());
    node.inputs = {plain(x->quantized->real), graph_.constant(x->name + "/scale", {count}, q.scale),
                   graph_.constant(x->name + "/zero", {count}, zeros)};
    if (count > 1) set_integer(node, "axis", q.axis);
    return x->plain = append(std::move(node), x->name, x->type);
  }
  return x->plain = transposed(x->channels_last, from_channels_last(x->rank()), x->name + "/nchw");
}

ValueId Import::channels_last(const OperandPtr& x) {
  if (x->rank() < 3) return plain(x);
  images_ |= x->rank() == 4;
  if (x->channels_last != kNone) return x->channels_last;
  if (x->constant) {
    const std::vector<int> perm = to_channels_last(x->rank());
    return x->channels_last =
               parameters_.parameter(x, {Move::transpose(perm)}, permuted(storable(*current_.source, *x), perm));
  }
  return x->channels_last = transposed(plain(x), to_channels_last(x->rank()), x->name + "/nhwc");
}

// ---- Steps

Node Import::step(Op op) {
  if (current_.layer == kNone) {
    Policy policy;
    if (const ElementType kept = current_.source->kept(); kept != ElementType::kNone)
      policy.variable = policy.compute = policy.output = kept;
    current_.layer =
        graph_.add_layer({.name = current_.source->name,
                          .source_op = current_.layer_op.empty() ? current_.source->proto.op_type() : current_.layer_op,
                          .policy = policy});
  }
  Node node;
  node.op = op;
  node.name = current_.source->name;
  node.layer = current_.layer;
  return node;
}

ValueId Import::append(Node node, const std::string& name, ElementType type) {
  Value value;
  value.name = name;
  value.type = is_other_real(type) && node.op != Op::kCast ? ElementType::kFloat32 : type;
  node.outputs = {graph_.add(std::move(value))};
  const ValueId y = node.outputs[0];
  infer_shapes(graph_, node);
  if (options_.train) parameters_.keep_steps_of_constants(node);
  require_operators(graph_);
  graph_.nodes.push_back(std::move(node));
  return y;
}

ValueId Import::transposed(ValueId x, const std::vector<int>& perm, const std::string& name) {
  const std::vector<int64_t> dims = value(x).dims;
  if (moves_nothing(dims, perm)) return reshaped(x, moved_dims(dims, perm), name);
  Node node = step(Op::kTranspose);
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  node.inputs = {x};
  return append(std::move(node), name, value(x).type);
}

ValueId Import::concatenation(std::vector<ValueId> parts, int axis, const std::string& name) {
  constexpr size_t kMostParts = 22;  // the engine's kMaxOperands (24) less 2 for output and scratch memory
  const ElementType type = value(parts[0]).type;
  while (parts.size() > 1) {
    std::vector<ValueId> joined;
    for (size_t i = 0; i < parts.size(); i += kMostParts) {
      Node node = step(Op::kConcat);
      set_integer(node, "axis", axis);
      const size_t end = std::min(i + kMostParts, parts.size());
      node.inputs.assign(parts.begin() + ptrdiff_t(i), parts.begin() + ptrdiff_t(end));
      const bool whole = parts.size() <= kMostParts;
      joined.push_back(node.inputs.size() == 1 ? parts[i]
                                               : append(std::move(node), whole ? name : name + "/part", type));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

ValueId Import::reshaped(ValueId x, const std::vector<int64_t>& dims, const std::string& name) {
  if (value(x).dims == dims) return x;
  if (dims.size() > size_t(kMaxRank))
    current_.source->refuse("gives rank " + std::to_string(dims.size()) + ", at most 8 is supported");
  Node node = step(Op::kReshape);
  set_integer(node, "rank", int(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) current_.source->refuse("gives a tensor without elements");
    set_integer(node, "dims", int(dims[i]), int(i));
  }
  node.inputs = {x};
  return append(std::move(node), name, value(x).type);
}

ValueId Import::reals(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data) {
  const ValueId id = graph_.constant(name, std::move(dims), data);
  value(id).fixed = true;
  return id;
}

void Import::expand(const Source& source, const Body& body) {
  Scope inner, &outer = *current_.scope;
  inner.opsets = outer.opsets;
  if (body.opset != 0) inner.opsets[""] = body.opset;
  const std::string layer_op = current_.layer_op;
  if (current_.layer_op.empty()) current_.layer_op = body.source_op;
  walk_.run_body(outer, inner, source, body.function(), body.operands());
  current_.layer_op = layer_op;
  current_.enter(outer, source);
}

// ---- Results

void Import::give(int index, OperandPtr operand) {
  if (!current_.source->wants(index)) return;
  const std::string& name = output_name(index);
  if (operand->name.empty()) operand->name = name;
  const bool casts = current_.source->proto.op_type().starts_with("Cast");  // a Cast sets `kept` itself
  if (!casts && operand->type == ElementType::kFloat32 && operand->kept == ElementType::kNone)
    operand->kept = current_.source->kept();
  const auto uses = current_.scope->uses.find(name);
  // An operand under a second name has the readers of both names. The node between the names is no reader.
  if (operand->uses > 0) --operand->uses;
  operand->uses += uses != current_.scope->uses.end() ? uses->second : 0;
  if (!current_.scope->operands.emplace(name, std::move(operand)).second)
    current_.source->malformed("writes " + name + ", which is there already");
}

void Import::give_plain(int index, ValueId id) {
  auto operand = operand_like(*current_.source, value(id));
  operand->plain = id;
  give(index, std::move(operand));
}

void Import::give_channels_last(int index, ValueId id) {
  const int rank = int(value(id).dims.size());
  if (rank < 3) return give_plain(index, id);
  auto operand = operand_like(*current_.source, value(id));
  operand->dims = moved_dims(value(id).dims, from_channels_last(rank));
  operand->channels_last = id;
  give(index, std::move(operand));
}

void Import::give_constant(int index, Value value) {
  const ElementType stored = value.stored;
  const auto exact = stored == ElementType::kFloat64 ? std::make_shared<const Value>(value) : nullptr;
  value = as_float32(std::move(value));
  auto operand = operand_like(*current_.source, value);
  operand->exact = exact;
  if (is_other_real(stored)) operand->kept = options_.train ? ElementType::kNone : stored;
  else if (!value.quantizer) value = rounded(std::move(value), operand->kept);
  if (current_.source->wants(index)) value.name = output_name(index);
  operand->constant = std::make_shared<const Value>(std::move(value));
  give(index, std::move(operand));
}

// Makes an operand of the constant, which becomes float32 if it is float16, bfloat16 or float64.
OperandPtr Import::operand_of(Value constant) const {
  const ElementType kept = is_other_real(constant.stored) && !options_.train ? constant.stored : ElementType::kNone;
  const auto exact = kept == ElementType::kFloat64 ? std::make_shared<const Value>(constant) : nullptr;
  const bool fixed = constant.fixed;
  constant = as_float32(std::move(constant));
  constant.fixed = fixed;
  OperandPtr x = constant_operand(std::move(constant));
  x->kept = kept;
  x->exact = exact;
  return x;
}

void Import::give_stored(const ::onnx::TensorProto& tensor) {
  if (!current_.layer_op.empty())
    return give_constant(0, read_stored(graph_, tensor));  // the node of a Body, and its tensor, live only briefly
  OperandPtr& stored = tensors_[&tensor];
  if (stored) {
    ++stored->uses;  // give() subtracts 1 for this node
    return give(0, stored);
  }
  give_constant(0, read_stored(graph_, tensor));
  if (current_.source->wants(0)) stored = find(output_name());
}

void Import::give_moved(int index, const OperandPtr& x, const Move& move, Value made) {
  if (current_.source->wants(index)) made.name = output_name(index);
  give(index, parameters_.moved(x, move, std::move(made)));
}

void Import::spend(uint64_t bytes) {
  graph_.budget.take(bytes, current_.source->place, "constants computed at import",
                     "export the network with smaller constants");
}

}  // namespace nacre::tools::onnx_import
