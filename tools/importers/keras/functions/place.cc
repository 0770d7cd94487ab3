// Converts functions of keras.ops that choose or reorder elements, such as roll, take, tril and top_k; also diff.
#include <algorithm>
#include <cmath>

#include "engine/ops/arg_max.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/select.h"
#include "tools/importers/keras/functions/functions.h"

namespace nacre::tools::keras {
namespace {

// Converts Roll: y_i = x_j, j = i - shift modulo the size of the axis; without an axis, over the flat array.
void ops_roll(Call& call) {
  const ValueId given = only(call);
  const std::vector<int64_t> dims = call.dims(given), shifts = call.list("shift");
  ValueId x = given;
  std::vector<int> axes;
  for (const int64_t a : call.list("axis")) axes.push_back(call.axis(a, call.rank(x)));
  if (axes.empty()) x = call.reshape(x, {call.value(x).elements()}), axes = {0};
  if (shifts.empty() || (shifts.size() != 1 && shifts.size() != axes.size()))
    call.bad("shifts that do not fit its axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = call.dims(x)[size_t(axes[i])];
    const int64_t shift = (shifts[shifts.size() == 1 ? 0 : i] % size + size) % size;
    if (shift == 0) continue;
    x = call.concat({call.slice(x, axes[i], size - shift, shift), call.slice(x, axes[i], 0, size - shift)}, axes[i]);
  }
  call.outputs = {call.reshape(x, dims)};
}

// Takes the indices `places`, known only at run time, along `axis` of x: x is a table [size of the axis, all others].
ValueId rows_at(const Call& call, ValueId x, ValueId places, int axis) {
  std::vector<int> perm = {axis};
  for (int i = 0; i < call.rank(x); ++i)
    if (i != axis) perm.push_back(i);
  const std::vector<int64_t> from = call.dims(x), at = call.dims(places);
  const int64_t size = from[size_t(axis)];
  const ValueId table = call.reshape(call.transpose(x, perm), {size, call.value(x).elements() / size});
  const ValueId row = call.reshape(call.cast(places, ElementType::kInt32), {call.value(places).elements()});
  ValueId y = call.emit(Op::kEmbedding, {table, row});
  std::vector<int64_t> dims = at;
  for (const int i : perm)
    if (i != axis) dims.push_back(from[size_t(i)]);
  std::vector<int> back;
  for (int i = 0; i < axis; ++i) back.push_back(int(at.size()) + i);
  for (int i = 0; i < int(at.size()); ++i) back.push_back(i);
  for (int i = axis + int(at.size()); i < int(dims.size()); ++i) back.push_back(i);
  return call.transpose(call.reshape(y, dims), back);
}

void ops_take(Call& call) {
  ValueId x = operand(call, 0, "x");
  if (!call.given("axis")) x = call.reshape(x, {call.value(x).elements()});
  const int axis = call.axis(call.integer("axis", 0), call.rank(x));
  const int64_t size = call.dims(x)[size_t(axis)];
  if (const std::vector<ValueId> places = tensors_at(call, 1, "indices"); places.size() == 1) {
    call.outputs = {rows_at(call, call.cast(x), places[0], axis)};
    return;
  }
  const Json* given = argument(call, 1, "indices");
  if (given == nullptr || !(given->is_number_integer() || given->is_array())) call.unsupported("such indices");
  const Json all = given->is_array() ? *given : Json::array({*given});
  std::vector<ValueId> parts;
  for (const Json& each : all) {
    if (!each.is_number_integer() || parts.size() == 1024) call.unsupported("such indices");
    const int64_t at = each.get<int64_t>();
    if (at < -size || at >= size) call.bad("an index out of range");
    parts.push_back(call.slice(x, axis, at < 0 ? at + size : at, 1));
  }
  if (parts.empty()) call.unsupported("no indices");
  std::vector<int64_t> dims = call.dims(x);
  dims[size_t(axis)] = int64_t(parts.size());
  if (!given->is_array()) dims.erase(dims.begin() + axis);
  if (dims.empty()) dims = {1};
  call.outputs = {call.reshape(call.concat(parts, axis), dims)};
}

// Keeps the elements of each matrix on and below diagonal k, or on and above it; the others become 0.
template <bool kLower>
void ops_triangle(Call& call) {
  const ValueId x = call.cast(only(call));
  if (call.rank(x) < 2) call.unsupported("a vector");
  const int64_t k = call.integer("k", 0), rows = call.dims(x).end()[-2], columns = call.dims(x).back();
  call.spend(rows * columns);
  std::vector<float> kept;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t right = i % columns - i / columns;
    kept.push_back((kLower ? right <= k : right >= k) ? 1 : 0);
  }
  const ValueId mask =
      call.compare(Compare::kNotEqual, call.constant("triangle", {rows, columns}, kept), call.number(0));
  call.outputs = {call.select(mask, x, call.number(0))};
}

void ops_move_axis(Call& call) {
  const ValueId x = only(call);
  const std::vector<int64_t> from = call.list("source"), to = call.list("destination");
  if (from.size() != to.size()) call.bad("has other destinations than axes");
  const int rank = call.rank(x);
  std::vector<int> perm(size_t(rank), -1), rest;
  for (size_t i = 0; i < from.size(); ++i) perm[size_t(call.axis(to[i], rank))] = call.axis(from[i], rank);
  for (int axis = 0; axis < rank; ++axis)
    if (std::ranges::find(perm, axis) == perm.end()) rest.push_back(axis);
  if (std::ranges::count(perm, -1) != std::ptrdiff_t(rest.size())) call.bad("names an axis twice");
  size_t next = 0;
  for (int& axis : perm)
    if (axis < 0) axis = rest[next++];
  call.outputs = {call.transpose(x, perm)};
}

void ops_broadcast_to(Call& call) {
  ValueId x = call.cast(only(call));
  std::vector<int64_t> to = call.list("shape"), dims = call.dims(x), times;
  if (to.size() < dims.size()) call.bad("a shape of fewer axes");
  dims.insert(dims.begin(), to.size() - dims.size(), 1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == -1) to[i] = dims[i];
    if (to[i] < 1 || (dims[i] != 1 && dims[i] != to[i])) call.bad("a shape that its input does not become");
    times.push_back(to[i] / dims[i]);
  }
  call.outputs = {call.repeat(call.reshape(x, dims), times)};
}

void ops_ravel(Call& call) {
  const ValueId x = only(call);
  call.outputs = {call.reshape(x, {call.value(x).elements()})};
}

template <int kAxis>
void ops_flip_axis(Call& call) {
  const ValueId x = only(call);
  if (call.rank(x) <= kAxis) call.bad("has too few axes");
  const int64_t size = call.dims(x)[kAxis];
  call.outputs = {size > 1 ? call.slice(x, kAxis, size - 1, size, -1) : x};
}

// Converts Diff: x_(i + 1) - x_i, applied n times.
void ops_difference(Call& call) {
  ValueId x = call.cast(only(call));
  const int axis = call.axis(call.integer("axis", -1), call.rank(x));
  for (int64_t n = call.integer("n", 1); n > 0; --n) {
    const int64_t size = call.dims(x)[size_t(axis)];
    if (size < 2) call.bad("has no differences left");
    x = call.emit(Op::kSub, {call.slice(x, axis, 1, size - 1), call.slice(x, axis, 0, size - 1)});
  }
  call.outputs = {x};
}

// Finds the largest number along the last axis and its index, k times. A number that was found counts as -inf later.
void ops_top_k(Call& call) {
  constexpr int64_t kMost = 64;
  ValueId x = call.cast(only(call));
  const int last = call.rank(x) - 1;
  const int64_t k = call.integer("k", 1), size = call.dims(x).back();
  if (k < 1 || k > size || k > kMost) call.unsupported("such a k");
  std::vector<float> counted;
  for (int64_t i = 0; i < size; ++i) counted.push_back(float(i));
  const ValueId places = call.constant("places", {size}, counted);
  std::vector<ValueId> values, indices;
  for (int64_t i = 0; i < k; ++i) {
    Node node = call.step(Op::kArgMax, {x});
    set_integer(node, "axis", last);
    set_integer(node, "keep_dims", 1);
    indices.push_back(call.emit(std::move(node), ElementType::kInt32));
    values.push_back(call.reduce(Reduce::kMax, x, {last}, true));
    if (i + 1 == k) break;
    x = call.select(call.compare(Compare::kEqual, places, call.cast(indices.back())), call.number(-kInfinity), x);
  }
  call.outputs = {call.concat(values, last), call.concat(indices, last)};
}

constexpr Converter kPlaceFunctions[] = {
    {"Roll", &ops_roll},           {"Take", &ops_take},
    {"Tril", &ops_triangle<true>}, {"Triu", &ops_triangle<false>},
    {"Moveaxis", &ops_move_axis},  {"BroadcastTo", &ops_broadcast_to},
    {"Ravel", &ops_ravel},         {"Flipud", &ops_flip_axis<0>},
    {"Fliplr", &ops_flip_axis<1>}, {"Diff", &ops_difference},
    {"TopK", &ops_top_k},
};

}  // namespace

std::span<const Converter> place_functions() { return kPlaceFunctions; }

}  // namespace nacre::tools::keras
