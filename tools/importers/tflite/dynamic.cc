// Converts slices at positions that only a run knows: SLICE and STRIDED_SLICE with a computed begin and fixed sizes,
// and DYNAMIC_UPDATE_SLICE. A slice takes the indices begin + 0, 1, .. of each axis that it does not take whole.
#include <algorithm>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

using PlaceInts = Steps::Ints;

// Returns element i of a list of integers, as a list of one.
ValueId element_of(Importer& importer, const Operation& op, Steps& s, ValueId list, size_t i) {
  if (!s.is_whole(list) || s.dims(list).size() != 1 || int64_t(i) >= s.dims(list)[0])
    importer.bad(op, "places that are no list of integers, one per axis");
  return s.slice(list, 0, int64_t(i), 1);
}

// Returns the `size` indices at, at + 1, .., for an `at` that only a run knows.
ValueId run_from(Steps& s, ValueId at, int64_t size) {
  return size == 1 ? at : s(Op::kAdd, {at, s.counted(s.type(at), {size})});
}

void update_axis(Importer& importer, Operation& op, Steps& s, ValueId start, int axis) {
  const ValueId x = importer.input(op, 0), update = importer.input(op, 1);
  const int64_t all = s.dims(x)[size_t(axis)], some = s.dims(update)[size_t(axis)];
  const auto bounded = [&](ValueId v, int64_t high) {
    return s.binary(Binary::kMaximum, s.binary(Binary::kMinimum, v, s.one_like(v, high)), s.one_like(v, 0));
  };
  const ValueId first = bounded(start, all - some);  // as LiteRT does, so that the update stays inside x
  const ValueId at = s(Op::kSub, {s.counted(s.type(start), {all}), first}), inside = bounded(at, some - 1);
  PlaceInts along(s.dims(x).size(), 1);
  along[size_t(axis)] = all;
  const ValueId is_new = s.reshape(s.compare(Compare::kEqual, at, inside), along);
  s.give(s.select(is_new, s.take(update, inside, axis), x));
}

void convert_update(Importer& importer, Operation& op) {
  Steps s(importer, op);
  const ValueId x = importer.real_input(op, 0), update = importer.real_input(op, 1), start = importer.input(op, 2);
  const PlaceInts dims = s.dims(x), of_update = s.dims(update);
  if (dims.size() != of_update.size()) importer.bad(op, "an update of shape " + dims_text(of_update));
  int axis = 0, axes = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (of_update[i] > dims[i]) importer.bad(op, "an update of shape " + dims_text(of_update));
    if (of_update[i] == dims[i]) continue;
    axis = int(i);
    ++axes;
  }
  if (axes > 1) importer.unsupported(op, "an update at run time that is smaller along several axes");
  if (axes == 0) return s.give(update);
  update_axis(importer, op, s, element_of(importer, op, s, start, size_t(axis)), axis);
}

}  // namespace

bool slice_at_run_time(Importer& importer, Operation& op) {
  if (!op.has_input(1) || importer.value(importer.input(op, 1)).constant()) return false;
  Steps s(importer, op);
  const ValueId begin = importer.input(op, 1);
  ValueId x = importer.real_input(op, 0);
  const PlaceInts dims = s.dims(x), sizes = importer.integers(op, 2);
  if (sizes.size() != dims.size()) importer.bad(op, "its sizes are not one per axis");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] > dims[i]) importer.unsupported(op, "a size that only a run knows");
    if (sizes[i] == dims[i]) continue;
    x = s.take(x, run_from(s, element_of(importer, op, s, begin, i), sizes[i]), int(i));
  }
  s.give(x);
  return true;
}

// Converts x[.., i, ..] and x[.., i : i + n, ..]. The output's shape in the file gives n.
bool strided_slice_at_run_time(Importer& importer, Operation& op) {
  if (!op.has_input(1) || importer.value(importer.input(op, 1)).constant()) return false;
  const auto& options = importer.options<StridedSliceOptions>(op);
  Steps s(importer, op);
  const ValueId begin = importer.input(op, 1);
  ValueId x = importer.real_input(op, 0);
  const PlaceInts dims = s.dims(x), strides = importer.integers(op, 3),
                  declared = importer.tensors().dims(op.outputs[0]);
  if (options.ellipsis_mask() != 0 || options.new_axis_mask() != 0 || strides.size() > dims.size() ||
      std::ranges::any_of(strides, [](int64_t stride) { return stride != 1; }))
    importer.unsupported(op, "a slice from a place that only a run knows, with strides or new axes");
  PlaceInts left;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto has = [&](int32_t mask) { return (uint32_t(mask) >> i & 1) != 0; };
    const bool drops = i < strides.size() && has(options.shrink_axis_mask());
    const bool whole = i >= strides.size() || (!drops && has(options.begin_mask()) && has(options.end_mask()));
    if (!drops && left.size() >= declared.size()) importer.bad(op, "an output of shape " + dims_text(declared));
    const int64_t size = drops ? 1 : whole ? dims[i] : declared[left.size()];
    if (!drops) left.push_back(size);
    if (whole) continue;
    if (has(options.begin_mask()) && !drops) {
      x = s.slice(x, int(i), 0, std::min(size, dims[i]));
      continue;
    }
    const ValueId given = element_of(importer, op, s, begin, i);
    const ValueId at = s.select(s.compare(Compare::kLess, given, s.one_like(given, 0)),
                                s(Op::kAdd, {given, s.one_like(given, dims[i])}), given);
    x = s.take(x, run_from(s, at, size), int(i));
  }
  s.give(s.reshape(x, left));
  return true;
}

std::span<const Converter> dynamic_converters() {
  static constexpr Converter kRows[] = {{BuiltinOperator::DYNAMIC_UPDATE_SLICE, &convert_update}};
  return kRows;
}

}  // namespace nacre::tools::tflite
