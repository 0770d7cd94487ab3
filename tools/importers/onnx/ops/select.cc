// Imports comparisons, And, Or, Not and Where. On constants alone they are computed at import.
#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/select.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

std::vector<int64_t> broadcast_dims(const Source& source) {
  std::vector<int64_t> dims = source.operand(0)->dims;
  for (int i = 1; i < int(source.inputs.size()); ++i) {
    const std::optional<std::vector<int64_t>> both = broadcast(dims, source.operand(i)->dims);
    if (!both) source.malformed("its operands have shapes that cannot be combined");
    dims = *both;
  }
  return dims;
}

bool are_constant(const Source& source, int count) {
  for (int i = 0; i < count; ++i)
    if (!source.operand(i)->constant) return false;
  return true;
}

ValueId cast_step(Import& import, ValueId x, ElementType type, const std::string& name) {
  Node node = import.step(Op::kCast);
  node.inputs = {x};
  return import.append(std::move(node), name, type);
}

// Returns operand `input` for a comparison with `other`: float32, int32 or int64. Bools are cast to int32.
ValueId comparable(Import& import, const Source& source, const Operand& other, int input) {
  const OperandPtr& x = source.operand(input);
  if (x->type != other.type) source.malformed("its operands have several types");
  const bool is_bool = x->type == ElementType::kBool;
  if (!is_bool && !is_whole(x->type)) need_float32(source, *x);
  const ValueId plain = import.plain(x);
  return is_bool ? cast_step(import, plain, ElementType::kInt32, import.output_name() + "/" + std::to_string(input))
                 : plain;
}

template <Compare::Function kFunction>
void compare(Import& import, const Source& source) {
  const OperandPtr &a = source.operand(0), &b = source.operand(1);
  const std::vector<int64_t> dims = broadcast_dims(source);
  if (are_constant(source, 2)) {
    import.spend(uint64_t(checked_elements(source.place, dims)) * 8);
    std::optional<Value> y = pointwise(source.proto.op_type(), *a->constant, *b->constant);
    if (!y) source.refuse("is not supported on operands of these types");
    return import.give_constant(0, std::move(*y));
  }
  if (source.opset < 7) source.refuse("opset 7 says how its operands are broadcast", "export with opset 7 or later");
  Node node = import.step(Op::kCompare);
  set_integer(node, "function", int(kFunction));
  node.inputs = {comparable(import, source, *b, 0), comparable(import, source, *a, 1)};
  import.give_plain(0, import.append(std::move(node), import.output_name(), ElementType::kBool));
}

// Returns operand `input`, which must be bool, as the float32 numbers 0 and 1.
ValueId real_bools(Import& import, const Source& source, int input) {
  const OperandPtr& x = source.operand(input);
  if (x->type != ElementType::kBool) source.malformed("an operand is not of type bool");
  return cast_step(import, import.plain(x), ElementType::kFloat32, import.output_name() + "/" + std::to_string(input));
}

bool fold_bools(Import& import, const Source& source, int count) {
  if (!are_constant(source, count)) return false;
  import.spend(uint64_t(checked_elements(source.place, broadcast_dims(source))) * 8);
  const Value& x = *source.operand(0)->constant;
  std::optional<Value> y = count == 1 ? pointwise(source.proto.op_type(), x)
                                      : pointwise(source.proto.op_type(), x, *source.operand(1)->constant);
  if (!y) source.refuse("is not supported on operands of these types");
  import.give_constant(0, std::move(*y));
  return true;
}

// Imports And as the minimum of the float32 numbers 0 and 1, and Or as their maximum.
template <Binary::Function kFunction>
void logical(Import& import, const Source& source) {
  if (fold_bools(import, source, 2)) return;
  Node node = import.step(Op::kBinary);
  set_integer(node, "function", int(kFunction));
  node.inputs = {real_bools(import, source, 0), real_bools(import, source, 1)};
  const ValueId y = import.append(std::move(node), import.output_name() + "/real");
  import.give_plain(0, cast_step(import, y, ElementType::kBool, import.output_name()));
}

void logical_not(Import& import, const Source& source) {
  if (fold_bools(import, source, 1)) return;
  Node node = import.step(Op::kCompare);
  set_integer(node, "function", int(Compare::kEqual));
  node.inputs = {real_bools(import, source, 0), import.reals(import.output_name() + "/zero", {1}, {0})};
  if (source.operand(0)->rank() == 0) node.inputs[1] = import.reals(import.output_name() + "/zero", {}, {0});
  import.give_plain(0, import.append(std::move(node), import.output_name(), ElementType::kBool));
}

void where_operator(Import& import, const Source& source) {
  const OperandPtr &c = source.operand(0), &a = source.operand(1), &b = source.operand(2);
  const std::vector<int64_t> dims = broadcast_dims(source);
  if (are_constant(source, 3)) {
    import.spend(uint64_t(checked_elements(source.place, dims)) * 24);
    return import.give_constant(0, where(*c->constant, *a->constant, *b->constant));
  }
  if (c->type != ElementType::kBool) source.malformed("its condition is not of type bool");
  if (a->type != b->type) source.malformed("its operands have several types");
  if (!is_whole(a->type) && a->type != ElementType::kBool) need_float32(source, *a);
  Node node = import.step(Op::kSelect);
  node.inputs = {import.plain(a), import.plain(b), import.plain(c)};
  import.give_plain(0, import.append(std::move(node), import.output_name(), a->type));
}

constexpr OperatorImporter kSelectImporters[] = {
    {"Equal", compare<Compare::kEqual>},
    {"Less", compare<Compare::kLess>},
    {"LessOrEqual", compare<Compare::kLessEqual>},
    {"Greater", compare<Compare::kGreater>},
    {"GreaterOrEqual", compare<Compare::kGreaterEqual>},
    {"And", logical<Binary::kMinimum>},
    {"Or", logical<Binary::kMaximum>},
    {"Not", logical_not},
    {"Where", where_operator},
};

}  // namespace

std::span<const OperatorImporter> select_importers() { return kSelectImporters; }

}  // namespace nacre::tools::onnx_import
