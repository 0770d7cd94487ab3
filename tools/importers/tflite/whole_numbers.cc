// Converts FLOOR_MOD and CUMSUM of floats and integers, BITWISE_XOR of integers, REDUCE_ANY and REDUCE_ALL to nodes.
#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

using Inputs = std::vector<ValueId>;

// Adds a node. Its output is y, or a new value like `like` if y is kNone.
ValueId emit_step(Importer& importer, Operation& op, Node node, ValueId like, ValueId y = kNone) {
  if (y == kNone) y = importer.between(like, "/part");
  node.outputs = {y};
  importer.emit(op, std::move(node));
  return y;
}

Node plain(Op op, Inputs inputs) {
  return {.op = op, .name = "", .words = {}, .inputs = std::move(inputs), .outputs = {}};
}

Node function_of_two(Binary::Function function, ValueId a, ValueId b) {
  Node node = plain(Op::kBinary, {a, b});
  set_integer(node, "function", int(function));
  return node;
}

// Returns an input of numbers, which are neither bools nor codes.
ValueId number_input(Importer& importer, Operation& op, size_t i) {
  const ValueId id = importer.whole_or_real_input(op, i);
  if (importer.value(id).quantizer) importer.unsupported(op, "codes (" + importer.value(id).name + ")");
  return id;
}

// Converts FLOOR_MOD: a - b floor(a / b), which has the sign of b.
void convert_floor_mod(Importer& importer, Operation& op) {
  const ValueId a = number_input(importer, op, 0), b = number_input(importer, op, 1), y = importer.output(op);
  if (importer.value(a).type != importer.value(b).type) importer.bad(op, "its operands have several types");
  const ValueId whole = emit_step(importer, op, function_of_two(Binary::kFloorDiv, a, b), y);
  const ValueId times = emit_step(importer, op, plain(Op::kMul, {whole, b}), y);
  emit_step(importer, op, plain(Op::kSub, {a, times}), y, y);
}

void convert_xor(Importer& importer, Operation& op) {
  const ValueId a = number_input(importer, op, 0), b = number_input(importer, op, 1);
  if (importer.value(a).type == ElementType::kFloat32) importer.bad(op, "operands that are no integers");
  if (importer.value(a).type != importer.value(b).type) importer.bad(op, "its operands have several types");
  emit_step(importer, op, function_of_two(Binary::kXor, a, b), a, importer.output(op));
}

// Moves x by `by` indices along the axis, or back, and fills the free ones with zeros.
ValueId moved(Importer& importer, Operation& op, ValueId x, int axis, int64_t by, bool back) {
  const std::vector<int64_t> dims = importer.value(x).dims;
  const Cut left = {back ? by : 0, dims[size_t(axis)] - by};
  Value zeros;
  zeros.name = importer.value(x).name + "/zeros";
  zeros.type = zeros.stored = importer.value(x).type;
  zeros.dims = dims;
  zeros.dims[size_t(axis)] = by;
  zeros.region = Region::kWeights;
  zeros.data = std::make_shared<const std::vector<uint8_t>>(storage_bytes(zeros.type, uint64_t(zeros.elements())));
  const ValueId rest = cut_axis(importer, op, x, axis, left, "/part"), none = importer.graph().add(std::move(zeros));
  Node join = plain(Op::kConcat, back ? Inputs{rest, none} : Inputs{none, rest});
  set_integer(join, "axis", axis);
  return emit_step(importer, op, std::move(join), x);
}

// Converts CUMSUM: y <- y + y moved by s, s = 1, 2, 4, .. After log2 n rounds y_i is the sum of x_0 to x_i.
void convert_cumsum(Importer& importer, Operation& op) {
  ValueId y = number_input(importer, op, 0);
  const std::vector<int64_t> dims = importer.value(y).dims, axes = importer.integers(op, 1);
  if (axes.size() != 1) importer.bad(op, "has another number of axes than one");
  const int axis = importer.axis(op, axes[0], dims.size());
  const auto* options = op.record->builtin_options_as<CumsumOptions>();
  const bool back = options != nullptr && options->reverse(), exclusive = options != nullptr && options->exclusive();
  const int64_t count = dims[size_t(axis)];
  if (exclusive && count > 1) y = moved(importer, op, y, axis, 1, back);
  else if (exclusive) y = emit_step(importer, op, plain(Op::kSub, {y, y}), y);
  for (int64_t by = 1; by < count; by *= 2)
    y = emit_step(importer, op, plain(Op::kAdd, {y, moved(importer, op, y, axis, by, back)}), y);
  importer.emit_reshape(op, y, dims, importer.output(op));
}

// Converts REDUCE_ANY or REDUCE_ALL: the largest or smallest of bools as 0 and 1.
template <Reduce::Function kFunction>
void convert_bools(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0), y = importer.output(op);
  if (importer.value(x).type != ElementType::kBool) importer.bad(op, "an operand that has no bools");
  const auto real = [&](ValueId like) {
    const ValueId id = importer.between(like, "/real");
    importer.value(id).type = ElementType::kFloat32;
    return id;
  };
  const ValueId numbers = emit_step(importer, op, plain(Op::kCast, {x}), x, real(x));
  Node reduce = plain(Op::kReduce, {numbers});
  set_integer(reduce, "function", int(kFunction));
  const size_t rank = importer.value(x).dims.size();
  int axes = 0;  // bit i: axis i
  for (const int64_t axis : importer.integers(op, 1)) axes |= 1 << importer.axis(op, axis, rank);
  set_integer(reduce, "axes", axes);
  const auto* options = op.record->builtin_options_as<ReducerOptions>();
  set_integer(reduce, "keep_dims", options != nullptr && options->keep_dims() ? 1 : 0);
  emit_step(importer, op, plain(Op::kCast, {emit_step(importer, op, std::move(reduce), y, real(y))}), y, y);
}

}  // namespace

std::span<const Converter> whole_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::FLOOR_MOD, &convert_floor_mod},
      {BuiltinOperator::BITWISE_XOR, &convert_xor},
      {BuiltinOperator::CUMSUM, &convert_cumsum},
      {BuiltinOperator::REDUCE_ANY, &convert_bools<Reduce::kMax>},
      {BuiltinOperator::REDUCE_ALL, &convert_bools<Reduce::kMin>},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
