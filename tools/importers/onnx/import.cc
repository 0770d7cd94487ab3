// Operands and steps of the ONNX importer.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "tools/base/error.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/model/model_limits.h"

namespace nacre::tools::onnx_import {
namespace {

// True if the permutation keeps the order of all axes that have more than one index: no element moves.
bool moves_nothing(const std::vector<int64_t>& dims, const std::vector<int>& perm) {
  int last = -1;
  for (const int axis : perm) {
    if (dims[size_t(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace

void need_float32(const Source& source, const Operand& operand) {
  if (operand.rank() > kMaxRank) source.refuse(operand.name + " has more than 8 axes");
  if (operand.type != ElementType::kFloat32)
    source.refuse("arithmetic at run time is done in float32 only (" + operand.name + " is of another type)",
                  "export the network in float32");
}

bool at_run_time(ElementType type) {
  constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kInt8,  ElementType::kUint8,
                                    ElementType::kInt16,   ElementType::kInt32, ElementType::kUint32,
                                    ElementType::kInt64,   ElementType::kBool};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

bool is_whole(ElementType type) { return type == ElementType::kInt32 || type == ElementType::kInt64; }

// ONNX gives the reals of an operator one type; where a scale is float32 nevertheless, the data come first.
ElementType Import::kept_by_source() const {
  for (const OperandPtr& x : source_->inputs)
    if (x && x->kept != ElementType::kNone) return x->kept;
  return ElementType::kNone;
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
  if (dims.size() < 3) return dims;
  std::vector<int64_t> result;
  for (const int axis : to_channels_last(int(dims.size()))) result.push_back(dims[size_t(axis)]);
  return result;
}

Value Import::storable(const Operand& x) const {
  if (!at_run_time(x.type)) source_->refuse(x.name + " has an element type that no value at run time has");
  if (x.constant->elements() == 0) source_->refuse(x.name + " is empty: it has no elements");
  if (x.rank() > kMaxRank) source_->refuse(x.name + " has more than 8 axes");
  Value value = *x.constant;
  value.name = x.name;
  return value;
}

ValueId Import::plain(const OperandPtr& x) {
  if (x->rank() > kMaxRank && !x->constant) source_->refuse(x->name + " has more than 8 axes");
  if (x->plain != kNone) return x->plain;
  if (x->sequence) source_->refuse(x->name + " is a sequence of tensors, which no value is");
  if (x->dynamic) source_->refuse(x->name + " is a part of a dynamically quantized layer: it has no value of its own");
  if (x->constant) return x->plain = parameter(x, {}, storable(*x));
  if (x->quantized) {  // codes that something reads as they are
    const Quantizer& q = x->quantized->quantizer;
    if (!is_code_type(q.codes)) source_->refuse("reads codes of 16 bits, which have no kernels, as they are");
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
    return x->channels_last = parameter(x, {Move::transpose(perm)}, permuted(storable(*x), perm));
  }
  return x->channels_last = transposed(plain(x), to_channels_last(x->rank()), x->name + "/nhwc");
}

// ---- Steps

Node Import::step(Op op) {
  if (layer_ == kNone) {
    Policy policy;
    if (const ElementType kept = kept_by_source(); kept != ElementType::kNone)
      policy.variable = policy.compute = policy.output = kept;
    layer_ = graph_.add_layer({.name = source_->name,
                               .source_op = layer_op_.empty() ? source_->proto.op_type() : layer_op_,
                               .policy = policy});
  }
  Node node;
  node.op = op;
  node.name = source_->name;
  node.layer = layer_;
  return node;
}

// What steps make of constants alone would be folded, and trained in the place of what it is made of.
void Import::keep_steps_of_constants(const Node& node) {
  const auto constant_of = [&](ValueId id) {
    if (id == kNone || value(id).constant()) return id;
    const auto found = moved_from_.find(id);
    return found != moved_from_.end() ? found->second : kNone;
  };
  for (const ValueId id : node.inputs)
    if (id != kNone && constant_of(id) == kNone) return;
  if (node.op == Op::kTranspose || node.op == Op::kReshape) {
    moved_from_.emplace(node.outputs[0], constant_of(node.inputs[0]));
    return;
  }
  for (const ValueId id : node.inputs)
    if (id != kNone && is_trainable(value(constant_of(id)))) value(constant_of(id)).keeps_steps = true;
}

ValueId Import::append(Node node, const std::string& name, ElementType type) {
  Value value;
  value.name = name;
  value.type = is_other_real(type) && node.op != Op::kCast ? ElementType::kFloat32 : type;
  node.outputs = {graph_.add(std::move(value))};
  const ValueId y = node.outputs[0];
  infer_shapes(graph_, node);
  if (options_.train) keep_steps_of_constants(node);
  require_operators(graph_);
  graph_.nodes.push_back(std::move(node));
  return y;
}

ValueId Import::transposed(ValueId x, const std::vector<int>& perm, const std::string& name) {
  const std::vector<int64_t> dims = value(x).dims;
  if (moves_nothing(dims, perm)) {
    std::vector<int64_t> moved;
    for (const int axis : perm) moved.push_back(dims[size_t(axis)]);
    return moved == dims ? x : reshaped(x, moved, name);
  }
  Node node = step(Op::kTranspose);
  for (size_t i = 0; i < perm.size(); ++i) set_integer(node, "perm", perm[i], int(i));
  node.inputs = {x};
  return append(std::move(node), name, value(x).type);
}

ValueId Import::concatenation(std::vector<ValueId> parts, int axis, const std::string& name) {
  constexpr size_t kMostParts = 22;  // of kMaxOperands, 2 are for outputs and scratch
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
    source_->refuse("gives rank " + std::to_string(dims.size()) + ", at most 8 is supported");
  Node node = step(Op::kReshape);
  set_integer(node, "rank", int(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) source_->refuse("gives a tensor without elements");
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

// ---- Results

void Import::give(int index, OperandPtr operand) {
  if (!source_->wants(index)) return;
  const std::string& name = output_name(index);
  if (operand->name.empty()) operand->name = name;
  const bool casts = source_->proto.op_type().starts_with("Cast");  // which say what they keep
  if (!casts && operand->type == ElementType::kFloat32 && operand->kept == ElementType::kNone)
    operand->kept = kept_by_source();
  const auto uses = scope_->uses.find(name);
  // An operand under a second name is used by the readers of both; the node between them is none.
  if (operand->uses > 0) --operand->uses;
  operand->uses += uses != scope_->uses.end() ? uses->second : 0;
  if (!scope_->operands.emplace(name, std::move(operand)).second)
    source_->malformed("writes " + name + ", which is there already");
}

// What the current node makes, in the type of its other reals.
OperandPtr Import::operand_like(const Value& v) const {
  auto operand = std::make_shared<Operand>();
  operand->type = is_other_real(v.type) ? ElementType::kFloat32 : v.type;
  if (operand->type == ElementType::kFloat32) operand->kept = kept_by_source();
  return operand;
}

void Import::give_plain(int index, ValueId id) {
  auto operand = operand_like(value(id));
  operand->dims = value(id).dims;
  operand->plain = id;
  give(index, std::move(operand));
}

void Import::give_channels_last(int index, ValueId id) {
  const int rank = int(value(id).dims.size());
  if (rank < 3) return give_plain(index, id);
  auto operand = operand_like(value(id));
  for (const int axis : from_channels_last(rank)) operand->dims.push_back(value(id).dims[size_t(axis)]);
  operand->channels_last = id;
  give(index, std::move(operand));
}

void Import::give_constant(int index, Value value) {
  const ElementType stored = value.stored;
  const auto exact = stored == ElementType::kFloat64 ? std::make_shared<const Value>(value) : nullptr;
  value = as_float32(std::move(value));
  auto operand = operand_like(value);
  operand->exact = exact;
  if (is_other_real(stored)) operand->kept = to_train() ? ElementType::kNone : stored;
  else if (!value.quantizer) value = rounded(std::move(value), operand->kept);
  if (source_->wants(index)) value.name = output_name(index);
  operand->dims = value.dims;
  operand->constant = std::make_shared<const Value>(std::move(value));
  give(index, std::move(operand));
}

Value Import::read_stored(const ::onnx::TensorProto& tensor) const {
  const std::string directory = std::filesystem::path(graph_.source).parent_path().string();
  return read_tensor(tensor, directory.empty() ? "." : directory);
}

// Reals of 16 and of 64 bits are float32 in the graph.
OperandPtr Import::operand_of(Value constant) const {
  auto x = std::make_shared<Operand>();
  if (is_other_real(constant.stored) && !to_train()) x->kept = constant.stored;
  if (x->kept == ElementType::kFloat64) x->exact = std::make_shared<const Value>(constant);
  const bool fixed = constant.fixed;
  constant = as_float32(std::move(constant));
  constant.fixed = fixed;
  x->name = constant.name;
  x->type = constant.type;
  x->dims = constant.dims;
  x->constant = std::make_shared<const Value>(std::move(constant));
  return x;
}

void Import::give_stored(const ::onnx::TensorProto& tensor) {
  if (!layer_op_.empty()) return give_constant(0, read_stored(tensor));  // of a node that is made, and no longer there
  OperandPtr& stored = tensors_[&tensor];
  if (stored) {
    ++stored->uses;  // as if the node read it
    return give(0, stored);
  }
  give_constant(0, read_stored(tensor));
  if (source_->wants(0)) stored = find(*scope_, output_name());
}

void Import::give_moved(int index, const OperandPtr& x, const Move& move, Value made) {
  if (source_->wants(index)) made.name = output_name(index);
  give(index, moved(x, move, std::move(made)));
}

bool Import::is_input(ValueId id) const {
  return std::any_of(graph_.inputs.begin(), graph_.inputs.end(), [&](const Binding& b) { return b.value == id; });
}

void Import::spend(uint64_t bytes) {
  graph_.budget.take(bytes, source_->place, "constants computed at import",
                     "export the network with smaller constants");
}

}  // namespace nacre::tools::onnx_import
