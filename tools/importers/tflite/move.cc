// Converts operators that move or rename elements: RESHAPE, SQUEEZE, EXPAND_DIMS, TRANSPOSE, CONCATENATION, PACK, PAD,
// PADV2, MIRROR_PAD. SHAPE is computed while reading.
#include <algorithm>
#include <cstring>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

int64_t product(const std::vector<int64_t>& dims) {
  int64_t product = 1;  // the dims are a value's, so it stays below 2^31
  for (const int64_t d : dims) product *= d;
  return product;
}

// Replaces the only -1 of a target shape by the size that gives `elements` in all. Throws if the sizes do not fit.
void resolve(Importer& importer, const Operation& op, std::vector<int64_t>& target, int64_t elements) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& dim : target) {
    if (dim == -1) {
      if (open != nullptr) importer.bad(op, "a target shape with two open sizes");
      open = &dim;
      continue;
    }
    if (dim < 1 || (known *= dim) > elements)
      importer.bad(op, "a target shape of " + dims_text(target) + " for " + std::to_string(elements) + " elements");
  }
  if (open != nullptr) *open = elements / known;
  if (product(target) != elements)
    importer.bad(op, "a target shape of " + dims_text(target) + " for " + std::to_string(elements) + " elements");
}

std::vector<int64_t> reshape_target(Importer& importer, const Operation& op) {
  if (op.has_input(1)) return importer.integers(op, 1);
  const auto* shape = importer.options<ReshapeOptions>(op).new_shape();
  if (shape == nullptr) return {};
  if (shape->size() > size_t(kMaxRank)) importer.unsupported(op, "more than 8 axes");
  return {shape->begin(), shape->end()};
}

// Converts RESHAPE. A target shape in the file has the file's batch, so its axis 0 grows with the batch. A target that
// an operator computes, from SHAPE, has the batch of this import.
void convert_reshape(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0);
  std::vector<int64_t> target = reshape_target(importer, op);
  const int64_t elements = importer.value(x).elements();
  const bool is_computed = op.has_input(1) && importer.scope().written[size_t(op.inputs[1])];
  const int64_t file_elements = is_computed ? elements : product(importer.file_dims(op, 0));
  resolve(importer, op, target, file_elements);
  if (!target.empty() && file_elements > 0) target[0] = target[0] * elements / file_elements;
  importer.emit_reshape(op, x, target, importer.output(op));
}

void convert_squeeze(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0);
  const std::vector<int64_t> dims = importer.value(x).dims, file = importer.file_dims(op, 0);
  const auto* squeezed = importer.options<SqueezeOptions>(op).squeeze_dims();
  uint32_t drop = 0;
  if (squeezed != nullptr && squeezed->size() > 0) {
    for (const int32_t axis : *squeezed) drop |= 1u << importer.axis(op, axis, dims.size());
  } else {
    for (size_t i = 0; i < dims.size(); ++i) drop |= uint32_t{file[i] == 1} << i;
  }
  std::vector<int64_t> target;
  for (size_t i = 0; i < dims.size(); ++i) {
    if ((drop >> i & 1) == 0) target.push_back(dims[i]);
    else if (dims[i] != 1) importer.bad(op, "squeezes axis " + std::to_string(i) + " of shape " + dims_text(dims));
  }
  importer.emit_reshape(op, x, target, importer.output(op));
}

void convert_expand_dims(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0);
  std::vector<int64_t> target = importer.value(x).dims;
  const std::vector<int64_t> axis = importer.integers(op, 1);
  if (axis.size() != 1) importer.bad(op, "needs one axis");
  target.insert(target.begin() + importer.axis(op, axis[0], target.size() + 1), 1);
  importer.emit_reshape(op, x, target, importer.output(op));
}

void convert_transpose(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0);
  const std::vector<int64_t> perm = importer.integers(op, 1);
  const size_t rank = importer.value(x).dims.size();
  if (perm.size() != rank)
    importer.bad(op, "a permutation of " + std::to_string(perm.size()) + " axes for " + std::to_string(rank));
  Node node{.op = Op::kTranspose, .name = "", .words = {}, .inputs = {x}, .outputs = {importer.output(op)}};
  for (size_t i = 0; i < rank; ++i) set_integer(node, "perm", importer.axis(op, perm[i], rank), int(i));
  importer.emit(op, std::move(node));
}

// Adds a concatenation. TFLite forbids an activation on codes here, and the engine's concat has none, so a relu becomes
// a clamp node after it.
void emit_concat(Importer& importer, Operation& op, std::vector<ValueId> inputs, int axis, Activation activation) {
  inputs = in_groups(importer, op, std::move(inputs), axis, importer.output(op));
  Node node{.op = Op::kConcat, .name = "", .words = {}, .inputs = std::move(inputs), .outputs = {}};
  set_integer(node, "axis", axis);
  if (activation == Activation::NONE || activation == Activation::TANH)
    return importer.emit_activated(op, std::move(node), activation);
  const ValueId x = importer.between(importer.output(op), "/before_clamp");
  node.outputs = {x};
  importer.emit(op, std::move(node));
  importer.emit_activated(op, {.op = Op::kClamp, .name = "", .words = {}, .inputs = {x}, .outputs = {}}, activation);
}

void convert_concatenation(Importer& importer, Operation& op) {
  const auto& options = importer.options<ConcatenationOptions>(op);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!importer.calls().is_empty(op, i)) inputs.push_back(importer.input(op, i));
  if (inputs.empty()) importer.bad(op, "has no input");
  emit_concat(importer, op, inputs, importer.axis(op, options.axis(), importer.value(inputs[0]).dims.size()),
              options.activation());
}

void convert_pack(Importer& importer, Operation& op) {
  std::vector<ValueId> inputs;
  int axis = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId x = importer.input(op, i);
    std::vector<int64_t> dims = importer.value(x).dims;
    axis = importer.axis(op, importer.options<PackOptions>(op).axis(), dims.size() + 1);
    dims.insert(dims.begin() + axis, 1);
    inputs.push_back(importer.between(x, "/packed"));
    importer.emit_reshape(op, x, dims, inputs.back());
  }
  if (inputs.empty()) importer.bad(op, "has no input");
  emit_concat(importer, op, inputs, axis, Activation::NONE);
}

Node padded(Importer& importer, const Operation& op, ValueId x) {
  const std::vector<int64_t> pads = importer.integers(op, 1);
  const size_t rank = importer.value(x).dims.size();
  if (pads.size() != 2 * rank)
    importer.bad(op, std::to_string(pads.size()) + " paddings for " + std::to_string(rank) + " axes");
  Node node{.op = Op::kPad, .name = "", .words = {}, .inputs = {x}, .outputs = {importer.output(op)}};
  for (size_t i = 0; i < rank; ++i) {
    if (pads[2 * i] < 0 || pads[2 * i + 1] < 0) importer.bad(op, "a negative padding");
    set_integer(node, "before", importer.integer(op, pads[2 * i], "padding"), int(i));
    set_integer(node, "after", importer.integer(op, pads[2 * i + 1], "padding"), int(i));
  }
  return node;
}

void convert_pad(Importer& importer, Operation& op) { importer.emit(op, padded(importer, op, importer.input(op, 0))); }

void convert_padv2(Importer& importer, Operation& op) {
  Node node = padded(importer, op, importer.input(op, 0));
  const Value& outside = importer.value(importer.input(op, 2));
  if (!outside.constant() || outside.elements() != 1) importer.unsupported(op, "a filling that is not one constant");
  if (outside.type != importer.value(node.inputs[0]).type) importer.bad(op, "a filling of another type than its input");
  if (outside.type == ElementType::kFloat32) {
    set_real(node, "value", reals(outside)[0]);
  } else {
    const int64_t number = integers(outside)[0];
    if (number < INT32_MIN || number > INT32_MAX) importer.unsupported(op, "a filling over 2^31");
    set_integer(node, "value", int(number));
  }
  importer.emit(op, std::move(node));
}

// Converts a SYMMETRIC pad, which mirrors the end elements too: joins the reversed ends to x, axis after axis.
void emit_symmetric(Importer& importer, Operation& op, const Node& pads) {
  ValueId x = pads.inputs[0];
  for (int axis = 0; axis < int(importer.value(x).dims.size()); ++axis) {
    const std::vector<int64_t> dims = importer.value(x).dims;
    const int before = get_integer(pads, "before", axis), after = get_integer(pads, "after", axis);
    if (before == 0 && after == 0) continue;
    if (std::max(before, after) > dims[size_t(axis)]) importer.bad(op, "a padding larger than its axis");
    const auto reversed = [&](int64_t last, int size) {
      return cut_axis(importer, op, x, axis, {last, size, -1}, "/end");
    };
    Node concat{.op = Op::kConcat, .name = "", .words = {}, .inputs = {}, .outputs = {}};
    set_integer(concat, "axis", axis);
    if (before > 0) concat.inputs.push_back(reversed(before - 1, before));
    concat.inputs.push_back(x);
    if (after > 0) concat.inputs.push_back(reversed(dims[size_t(axis)] - 1, after));
    concat.outputs = {importer.between(x, "/symmetric")};
    x = concat.outputs[0];
    importer.emit(op, std::move(concat));
  }
  importer.emit_reshape(op, x, importer.value(x).dims, importer.output(op));
}

void convert_mirror_pad(Importer& importer, Operation& op) {
  Node node = padded(importer, op, importer.real_input(op, 0));
  if (importer.options<MirrorPadOptions>(op).mode() != MirrorPadMode::REFLECT)
    return emit_symmetric(importer, op, node);
  set_integer(node, "mode", 1);
  importer.emit(op, std::move(node));
}

void convert_shape(Importer& importer, Operation& op) {
  const std::vector<int64_t> dims = importer.value(importer.input(op, 0)).dims;
  importer.define_integers(op, dims, {int64_t(dims.size())});
}

}  // namespace

void Importer::define_integers(const Operation& op, const std::vector<int64_t>& numbers,
                               const std::vector<int64_t>& dims) {
  const ElementType type = tensors().type(op.outputs[0]);
  if (type != ElementType::kInt32 && type != ElementType::kInt64 && type != ElementType::kBool)
    bad(op, "its output has no integers");
  std::vector<uint8_t> bytes;
  for (const int64_t number : numbers) {
    uint8_t element[8];
    std::memcpy(element, &number, sizeof number);  // little-endian: the low half comes first
    bytes.insert(bytes.end(), element, element + storage_bytes(type, 1));
  }
  Value v;
  v.type = v.stored = type;
  v.dims = dims;
  v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  define(op, std::move(v));
}

std::span<const Converter> move_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::RESHAPE, &convert_reshape},
      {BuiltinOperator::SQUEEZE, &convert_squeeze},
      {BuiltinOperator::EXPAND_DIMS, &convert_expand_dims},
      {BuiltinOperator::TRANSPOSE, &convert_transpose},
      {BuiltinOperator::CONCATENATION, &convert_concatenation},
      {BuiltinOperator::PACK, &convert_pack},
      {BuiltinOperator::PAD, &convert_pad},
      {BuiltinOperator::PADV2, &convert_padv2},
      {BuiltinOperator::MIRROR_PAD, &convert_mirror_pad},
      {BuiltinOperator::SHAPE, &convert_shape},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
