// Converts layers of several inputs. If the ranks of operands of Add, Multiply, .. differ, axes of size 1 are inserted.
#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

ValueId of_rank(const Call& call, ValueId x, int rank) {
  std::vector<int64_t> dims = call.dims(x);
  if (dims.empty() || int(dims.size()) >= rank || call.value(x).constant()) return x;
  dims.insert(dims.begin() + 1, size_t(rank) - dims.size(), 1);
  return call.reshape(x, dims);
}

// A tensor, and a condition of its rank that says which of its steps count, or kNone.
struct Operand {
  ValueId x = kNone, mask = kNone;
};

// Returns an operand's mask. Layers of Keras 3 read it if the operand keeps its rank. Functions and Keras 2 read none.
ValueId mask_of_operand(const Call& call, ValueId x, int rank) {
  if (call.importer->keras2() || is_function(call.module) || call.rank(x) != rank) return kNone;
  const ValueId mask = mask_left(call, x);
  if (mask == kNone) return kNone;
  std::vector<int64_t> dims = call.dims(mask);
  dims.push_back(1);
  if (int(dims.size()) != rank) call.unsupported("a mask of shape " + dims_text(call.dims(mask)));
  return call.reshape(mask, dims);
}

// Returns tensors, arrays and numbers in the order of the arguments, which may be one list. Keras 3 writes x + 1.0 as a
// layer Add.
std::vector<Operand> operands(const Call& call) {
  std::vector<Operand> all;
  int rank = 0;
  for (const ValueId x : call.inputs)
    if (!call.value(x).constant()) rank = std::max(rank, call.rank(x));
  size_t next = 0;
  const auto take_tensor = [&] {
    const ValueId x = call.raw_input(next);
    all.push_back({of_rank(call, call.input(next++), rank), mask_of_operand(call, x, rank)});
  };
  const auto take = [&](const Json& argument) {
    if (is_operand(argument)) return take_tensor();
    if (!argument.is_number()) call.unsupported("an operand that is neither a tensor nor a number");
    all.push_back({call.constant("number", {1}, {argument.get<float>()}), kNone});
  };
  if (!call.args.is_array())
    while (next < call.inputs.size()) take_tensor();
  for (const Json& argument : call.args) {
    if (!argument.is_array() || is_operand(argument)) take(argument);
    else std::for_each(argument.begin(), argument.end(), take);
  }
  if (call.keyword.contains("x1") || call.keyword.contains("x2")) call.unsupported("operands that are given by name");
  if (all.empty()) call.bad("has no input");
  return all;
}

// Combines all operands, two at a time, into the output, and returns the number of operands.
template <class Combine>
size_t fold(Call& call, Combine combine) {
  const std::vector<Operand> all = operands(call);
  ValueId y = all[0].x;
  for (size_t i = 1; i < all.size(); ++i) y = combine(y, all[i].x);
  call.outputs = {y};
  return all.size();
}

template <Op kOp>
void convert_sum(Call& call) {
  fold(call, [&](ValueId a, ValueId b) { return call.emit(kOp, {a, b}); });
}
template <Binary::Function kFunction>
void convert_binary(Call& call) {
  fold(call, [&](ValueId a, ValueId b) { return call.binary(kFunction, a, b); });
}

// Converts Maximum or Minimum. If a mask hides a step of a or b, the other operand's number counts there (base_merge.py
// of Keras 3.15):
//   b' = b where b counts, else a      a' = a where a counts, else b'      y = max(a', b'), likewise min
template <Binary::Function kFunction>
void convert_extreme(Call& call) {
  const std::vector<Operand> all = operands(call);
  Operand y = all[0];
  for (size_t i = 1; i < all.size(); ++i) {
    Operand b = all[i];
    if (b.mask != kNone) b.x = call.select(b.mask, b.x, y.x);
    if (y.mask != kNone) y.x = call.select(y.mask, y.x, b.x);
    y.mask = y.mask != kNone && b.mask != kNone ? either(call, y.mask, b.mask) : kNone;
    y.x = call.binary(kFunction, y.x, b.x);
  }
  call.outputs = {y.x};
}

// Converts Multiply: y = product of x_i. A hidden step of x_i counts as 1. If all x_i have masks and hide it, y is 0.
void convert_product(Call& call) {
  const std::vector<Operand> all = operands(call);
  ValueId y = kNone, counts = kNone;
  for (const Operand& each : all) {
    const ValueId x = each.mask == kNone ? each.x : call.select(each.mask, each.x, call.number(1));
    if (each.mask != kNone) counts = counts == kNone ? each.mask : either(call, counts, each.mask);
    y = y == kNone ? x : call.emit(Op::kMul, {y, x});
  }
  const bool masked = std::all_of(all.begin(), all.end(), [](const Operand& each) { return each.mask != kNone; });
  call.outputs = {masked ? call.select(counts, y, call.number(0)) : y};
}

void convert_average(Call& call) {
  const size_t count = fold(call, [&](ValueId a, ValueId b) { return call.emit(Op::kAdd, {a, b}); });
  call.outputs = {call.scaled(call.outputs[0], 1 / float(count))};
}

void convert_concatenate(Call& call) {
  std::vector<ValueId> parts;
  bool reals = false;
  for (size_t i = 0; i < call.inputs.size(); ++i) reals |= call.value(call.raw_input(i)).type == ElementType::kFloat32;
  for (size_t i = 0; i < call.inputs.size(); ++i) parts.push_back(reals ? call.input(i) : call.raw_input(i));
  if (parts.empty()) call.bad("has no input");
  int64_t axis = call.integer("axis", -1);
  if (call.kwargs.is_object() && call.kwargs.contains("axis") && call.kwargs.at("axis").is_number_integer())
    axis = call.kwargs.at("axis").get<int64_t>();
  const int along = call.axis(axis, call.rank(parts[0]));
  if (along == 0) call.unsupported("joins rows of the batch");
  call.outputs = {call.concat(parts, along)};
}

ValueId normalized(const Call& call, ValueId x, int axis) {
  const ValueId sum = call.reduce(Reduce::kSum, call.unary(Unary::kSquare, x), {axis}, true);
  return call.emit(Op::kMul, {x, call.clamp(call.unary(Unary::kRsqrt, sum), 0, 1e12f)});
}

// Returns x as [batch, rest, k]: `axis`, of size k, last, the other axes joined. Appends the sizes of these to `rest`.
ValueId contracted_last(const Call& call, ValueId x, int axis, std::vector<int64_t>& rest) {
  std::vector<int> perm;
  int64_t product = 1;
  for (int i = 0; i < call.rank(x); ++i) {
    if (i == axis) continue;
    perm.push_back(i);
    if (i == 0) continue;
    rest.push_back(call.dims(x)[size_t(i)]);
    product *= rest.back();
  }
  perm.push_back(axis);
  const int64_t batch = call.dims(x)[0], k = call.dims(x)[size_t(axis)];
  return call.reshape(call.transpose(x, perm), {batch, product, k});
}

// Converts Dot: y [batch, rest of a, rest of b] = sum of products over one axis of a and one of b.
void convert_dot(Call& call) {
  ValueId a = call.input(0), b = call.input(1);
  const std::vector<int64_t> axes = call.integers("axes", 2, -1);
  const int axis_a = call.axis(axes[0], call.rank(a)), axis_b = call.axis(axes[1], call.rank(b));
  if (axis_a == 0 || axis_b == 0) call.unsupported("sums over the batch");
  if (call.flag("normalize", false)) a = normalized(call, a, axis_a), b = normalized(call, b, axis_b);
  std::vector<int64_t> dims = {call.dims(a)[0]};
  a = contracted_last(call, a, axis_a, dims);
  b = contracted_last(call, b, axis_b, dims);
  Node node = call.step(Op::kBatchedMatmul, {a, b});
  set_integer(node, "transpose_b", 1);
  if (dims.size() == 1) dims.push_back(1);
  call.outputs = {call.reshape(call.emit(std::move(node)), dims)};
}

constexpr Converter kMergeRows[] = {
    {"Add", &convert_sum<Op::kAdd>},
    {"Subtract", &convert_sum<Op::kSub>},
    {"Multiply", &convert_product},
    {"Average", &convert_average},
    {"Maximum", &convert_extreme<Binary::kMaximum>},
    {"Minimum", &convert_extreme<Binary::kMinimum>},
    {"Divide", &convert_binary<Binary::kDiv>},
    {"TrueDivide", &convert_binary<Binary::kDiv>},
    {"Concatenate", &convert_concatenate},
    {"Dot", &convert_dot},
};

}  // namespace

std::span<const Converter> merge_converters() { return kMergeRows; }

}  // namespace nacre::tools::keras
