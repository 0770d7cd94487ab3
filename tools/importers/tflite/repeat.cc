// Converts operators that become a few other nodes: TILE, BROADCAST_TO, GATHER of stored indices, ADD_N, LOGICAL_AND,
// LOGICAL_OR, LOGICAL_NOT, ONE_HOT, L2_NORMALIZATION.
#include <algorithm>
#include <numeric>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "engine/ops/unary.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

using RepeatDims = std::vector<int64_t>;

constexpr int64_t kMostRepeated = int64_t{1} << 31;  // a value has fewer elements
constexpr size_t kMostPicked = 256;                  // most indices at unequal distances, each of which is a slice

// Adds a node. Its output is y, or a new value like `like` if y is kNone.
ValueId append(Importer& importer, Operation& op, Node node, ValueId like, const char* suffix, ValueId y = kNone) {
  if (y == kNone) y = importer.between(like, suffix);
  node.outputs = {y};
  importer.emit(op, std::move(node));
  return y;
}

Node step(Op op, std::vector<ValueId> inputs) {
  return {.op = op, .name = "", .words = {}, .inputs = std::move(inputs), .outputs = {}};
}

// Joins x to itself `count` times along an axis, by doubling.
ValueId joined_to_itself(Importer& importer, Operation& op, ValueId x, int64_t count, int axis) {
  if (count == 1) return x;
  const ValueId half = joined_to_itself(importer, op, x, count / 2, axis);
  Node join = step(Op::kConcat, {half, half});
  if (count % 2 != 0) join.inputs.push_back(x);
  set_integer(join, "axis", axis);
  return append(importer, op, std::move(join), x, "/repeated");
}

void repeat(Importer& importer, Operation& op, ValueId x, const RepeatDims& repeats) {
  const RepeatDims dims = importer.value(x).dims;
  int64_t elements = importer.value(x).elements();
  for (const int64_t count : repeats)
    if (count < 1 || count >= kMostRepeated || (elements *= count) >= kMostRepeated)
      importer.unsupported(op, "repeats of " + dims_text(repeats));
  for (size_t axis = 0; axis < repeats.size(); ++axis) x = joined_to_itself(importer, op, x, repeats[axis], int(axis));
  importer.emit_reshape(op, x, importer.value(x).dims, importer.output(op));
}

void convert_tile(Importer& importer, Operation& op) {
  const ValueId x = importer.input(op, 0);
  const RepeatDims repeats = importer.integers(op, 1);
  if (repeats.size() != importer.value(x).dims.size()) importer.bad(op, "its repeats are not one per axis");
  repeat(importer, op, x, repeats);
}

void convert_broadcast_to(Importer& importer, Operation& op) {
  ValueId x = importer.input(op, 0);
  RepeatDims repeats = importer.integers(op, 1), dims = importer.value(x).dims;
  if (dims.size() > repeats.size()) importer.bad(op, "a shape of fewer axes than its input");
  if (dims.size() < repeats.size()) {
    dims.insert(dims.begin(), repeats.size() - dims.size(), 1);
    const ValueId wide = importer.between(x, "/wide");
    importer.emit_reshape(op, x, dims, wide);
    x = wide;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != repeats[i] && dims[i] != 1) importer.bad(op, "a shape that its input does not fit");
    if (dims[i] == repeats[i]) repeats[i] = 1;
  }
  repeat(importer, op, x, repeats);
}

void convert_add_n(Importer& importer, Operation& op) {
  ValueId sum = importer.real_input(op, 0);
  if (importer.value(sum).quantizer) importer.unsupported(op, "a sum of several tensors of codes");
  for (size_t i = 1; i < op.inputs.size(); ++i)
    sum = append(importer, op, step(Op::kAdd, {sum, importer.real_input(op, i)}), sum, "/sum",
                 i + 1 == op.inputs.size() ? importer.output(op) : kNone);
  if (op.inputs.size() == 1) importer.emit_reshape(op, sum, importer.value(sum).dims, importer.output(op));
}

// Returns input i, of bools, as the float32 numbers 0 and 1.
ValueId real_bools(Importer& importer, Operation& op, size_t i) {
  const ValueId x = importer.input(op, i);
  if (importer.value(x).type != ElementType::kBool) importer.bad(op, "an operand that has no bools");
  const ValueId y = importer.between(x, "/real");
  importer.value(y).type = ElementType::kFloat32;
  return append(importer, op, step(Op::kCast, {x}), x, "", y);
}

ValueId number(Importer& importer, const std::string& name, size_t rank, float v) {
  return importer.graph().constant(name, RepeatDims(rank, 1), std::vector<float>{v});
}

// LOGICAL_AND is the minimum of 0s and 1s, LOGICAL_OR the maximum.
template <Binary::Function kFunction>
void convert_logical(Importer& importer, Operation& op) {
  const ValueId a = real_bools(importer, op, 0), b = real_bools(importer, op, 1);
  Node node = step(Op::kBinary, {a, b});
  set_integer(node, "function", int(kFunction));
  const ValueId y = append(importer, op, std::move(node), a, "/both");
  append(importer, op, step(Op::kCast, {y}), y, "", importer.output(op));
}

void convert_logical_not(Importer& importer, Operation& op) {
  const ValueId x = real_bools(importer, op, 0);
  const size_t rank = importer.value(x).dims.size();
  Node node = step(Op::kCompare, {x, number(importer, importer.value(x).name + "/zero", rank, 0)});
  set_integer(node, "function", int(Compare::kEqual));
  append(importer, op, std::move(node), x, "", importer.output(op));
}

// Returns input i. A constant of codes gets the output's quantizer: its codes are taken unchanged.
ValueId as_output(Importer& importer, const Operation& op, size_t i) {
  const ValueId id = importer.input(op, i);
  const std::optional<Quantizer> to = importer.value(importer.output(op)).quantizer;
  Value v = importer.value(id);
  if (!v.constant() || !v.quantizer || !to || v.stored != to->codes) return id;
  v.quantizer = to;
  v.name += "/as_output";
  return importer.graph().add(std::move(v));
}

// Converts ONE_HOT: y[.., d, ..] = on where d is the index, else off. d runs along a new axis.
void convert_one_hot(Importer& importer, Operation& op) {
  const ValueId ids = importer.whole_or_real_input(op, 0), on = as_output(importer, op, 2),
                off = as_output(importer, op, 3);
  if (importer.value(on).type != importer.value(off).type) importer.bad(op, "its operands have several types");
  const RepeatDims depth = importer.integers(op, 1);
  if (depth.size() != 1 || depth[0] < 1 || depth[0] > 1 << 20) importer.unsupported(op, "a depth that is no number");
  if (importer.value(ids).type == ElementType::kFloat32) importer.bad(op, "indices that are no integers");
  RepeatDims dims = importer.value(ids).dims, counted(dims.size() + 1, 1);
  const int64_t given = importer.options<OneHotOptions>(op).axis();
  const int axis = importer.axis(op, given, dims.size() + 1);
  dims.insert(dims.begin() + axis, 1);
  counted[size_t(axis)] = depth[0];
  const ValueId wide = importer.between(ids, "/wide");
  importer.emit_reshape(op, ids, dims, wide);
  Value places;
  places.name = importer.value(ids).name + "/places";
  places.type = places.stored = importer.value(ids).type;
  places.dims = counted;
  places.region = Region::kWeights;
  std::vector<uint8_t> bytes(size_t(depth[0]) * storage_bytes(places.type, 1));
  for (size_t i = 0, size = size_t(storage_bytes(places.type, 1)); i < size_t(depth[0]); ++i)
    for (size_t byte = 0; byte < 4; ++byte) bytes[i * size + byte] = uint8_t(i >> (8 * byte));
  places.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  Node node = step(Op::kCompare, {wide, importer.graph().add(std::move(places))});
  set_integer(node, "function", int(Compare::kEqual));
  const ValueId hit = importer.between(ids, "/hit");
  importer.value(hit).type = ElementType::kBool;
  append(importer, op, std::move(node), ids, "", hit);
  append(importer, op, step(Op::kSelect, {on, off, hit}), on, "", importer.output(op));
}

// Converts L2_NORMALIZATION: y = x / max(|x|, 1e-6) with the norm |x| over the last axis, like LiteRT's kernel.
void convert_l2_normalization(Importer& importer, Operation& op) {
  const ValueId x = importer.real_input(op, 0);
  const int rank = int(importer.value(x).dims.size());
  if (rank < 1) importer.bad(op, "its input has no axis");
  const auto plain = [&](const char* suffix) {
    const ValueId id = importer.between(x, suffix);
    importer.value(id).quantizer.reset();
    return id;
  };
  const auto function = [&](Unary::Function kind, ValueId of, const char* suffix) {
    Node node = step(Op::kUnary, {of});
    set_integer(node, "function", int(kind));
    return append(importer, op, std::move(node), x, "", plain(suffix));
  };
  Node sum = step(Op::kReduce, {function(Unary::kSquare, x, "/squares")});
  set_integer(sum, "function", int(Reduce::kSum));
  set_integer(sum, "axes", 1 << (rank - 1));
  set_integer(sum, "keep_dims", 1);
  const ValueId squares = append(importer, op, std::move(sum), x, "", plain("/sum"));
  Node clamp = step(Op::kClamp, {function(Unary::kSqrt, squares, "/length")});
  set_integer(clamp, "clamp", 1);
  set_real(clamp, "low", 1e-6f);
  set_real(clamp, "high", kInfinity);
  const ValueId divisor = append(importer, op, std::move(clamp), x, "", plain("/divisor"));
  Node divide = step(Op::kBinary, {x, divisor});
  set_integer(divide, "function", int(Binary::kDiv));
  append(importer, op, std::move(divide), x, "", importer.output(op));
}

}  // namespace

// Gives y the codes q of x: y = s_y (q - z_y), in float32 accurate enough to give q again.
void emit_same_codes(Importer& importer, Operation& op, ValueId x, ValueId y) {
  const Quantizer from = *importer.value(x).quantizer, to = *importer.value(y).quantizer;
  const size_t rank = importer.value(x).dims.size();
  const ValueId scaled = importer.between(x, "/rescaled");
  importer.value(scaled).quantizer.reset();
  const std::string name = importer.value(y).name;
  const ValueId factor = number(importer, name + "/factor", rank, to.scale[0] / from.scale[0]),
                shift = number(importer, name + "/shift", rank, to.scale[0] * float(from.zero[0] - to.zero[0]));
  append(importer, op, step(Op::kMul, {x, factor}), x, "", scaled);
  append(importer, op, step(Op::kAdd, {scaled, shift}), x, "", y);
}

ValueId with_output_codes(Importer& importer, Operation& op, ValueId x) {
  const ValueId y = importer.output(op);
  const std::optional<Quantizer>&from = importer.value(x).quantizer, &to = importer.value(y).quantizer;
  if (!from || !to || (from->scale == to->scale && from->zero == to->zero)) return x;
  const ValueId same = importer.between(y, "/operand");
  emit_same_codes(importer, op, x, same);
  return same;
}

// Gathers stored indices. Indices at equal distances become one slice. Other indices become a slice each.
void gather_stored(Importer& importer, Operation& op, int axis) {
  const ValueId x = importer.input(op, 0);
  const RepeatDims ids = importer.integers(op, 1), dims = importer.value(x).dims,
                   of_ids = importer.value(importer.input(op, 1)).dims;
  for (const int64_t id : ids)
    if (id < 0 || id >= dims[size_t(axis)])
      importer.bad(op, "index " + std::to_string(id) + " of an axis of " + std::to_string(dims[size_t(axis)]));
  const auto cut = [&](int64_t begin, int64_t size, int64_t apart) {
    return cut_axis(importer, op, x, axis, {begin, size, apart}, "/taken");
  };
  const int64_t apart = ids.size() > 1 ? ids[1] - ids[0] : 1;
  bool even = apart != 0;
  for (size_t i = 1; i < ids.size(); ++i) even = even && ids[i] - ids[i - 1] == apart;
  std::vector<ValueId> parts;
  if (even) parts.push_back(cut(ids[0], int64_t(ids.size()), apart));
  if (!even && ids.size() > kMostPicked) importer.unsupported(op, "more than 256 stored indices in no order");
  for (size_t i = 0; !even && i < ids.size(); ++i) parts.push_back(cut(ids[i], 1, 1));
  parts = in_groups(importer, op, std::move(parts), axis, x);
  ValueId taken = parts[0];
  if (parts.size() > 1) {
    Node join = step(Op::kConcat, parts);
    set_integer(join, "axis", axis);
    taken = append(importer, op, std::move(join), x, "/joined");
  }
  RepeatDims shape(dims.begin(), dims.begin() + axis);
  shape.insert(shape.end(), of_ids.begin(), of_ids.end());
  shape.insert(shape.end(), dims.begin() + axis + 1, dims.end());
  importer.emit_reshape(op, taken, shape, importer.output(op));
}

std::span<const Converter> repeat_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::TILE, &convert_tile},
      {BuiltinOperator::BROADCAST_TO, &convert_broadcast_to},
      {BuiltinOperator::ADD_N, &convert_add_n},
      {BuiltinOperator::LOGICAL_AND, &convert_logical<Binary::kMinimum>},
      {BuiltinOperator::LOGICAL_OR, &convert_logical<Binary::kMaximum>},
      {BuiltinOperator::LOGICAL_NOT, &convert_logical_not},
      {BuiltinOperator::ONE_HOT, &convert_one_hot},
      {BuiltinOperator::L2_NORMALIZATION, &convert_l2_normalization},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
