// Imports Concat, Pad, Slice, Split and Gather, which move elements. All but Gather run in their operand's layout.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns one number per axis in the axis order of the graph's value: channels last if `last`, else the source's order.
std::vector<int64_t> in_layout(const std::vector<int64_t>& per_axis, bool last) {
  return last ? channels_last_dims(per_axis) : per_axis;
}

void give(Import& import, int index, bool last, ValueId y) {
  if (last) import.give_channels_last(index, y);
  else import.give_plain(index, y);
}

void concat(Import& import, const Source& source) {
  const OperandPtr& first = source.operand(0);
  const int rank = first->rank(), axis = source.axis(source.integer("axis", 1), rank);
  bool constant = true, last = false;
  for (int i = 0; i < int(source.inputs.size()); ++i) {
    const Operand& x = *source.operand(i);
    constant &= x.constant != nullptr;
    last |= x.prefers_channels_last();
    if (x.rank() != rank || x.type != first->type) source.malformed("its operands have several ranks or types");
  }
  if (source.inputs.size() == 1) return import.give(0, first);
  if (constant) {
    const bool exact = std::ranges::all_of(source.inputs, [](const OperandPtr& x) { return x->exact != nullptr; });
    std::vector<const Value*> values;
    uint64_t elements = 0;
    for (const OperandPtr& x : source.inputs) {
      elements += uint64_t(x->constant->elements());
      values.push_back(exact ? x->exact.get() : x->constant.get());
    }
    import.spend(elements * 8);
    return import.give_constant(0, concatenated(values, axis));
  }
  std::vector<ValueId> parts;
  for (const OperandPtr& x : source.inputs) {
    if (x->constant && x->constant->elements() == 0) continue;  // it adds no element
    parts.push_back(last ? import.channels_last(x) : import.plain(x));
  }
  give(import, 0, last,
       import.concatenation(std::move(parts), last ? channels_last_axis(axis, rank) : axis, import.output_name()));
}

ValueId slice_step(Import& import, ValueId x, const Part& part, const std::string& name) {
  const std::vector<int64_t>& dims = import.value(x).dims;
  bool whole = true;
  for (size_t i = 0; i < dims.size(); ++i) whole &= part.size[i] == dims[i] && part.step[i] == 1;
  if (whole) return x;
  Node node = import.step(Op::kSlice);
  for (size_t i = 0; i < dims.size(); ++i) {
    set_integer(node, "begin", int(part.begin[i]), int(i));
    set_integer(node, "size", int(part.size[i]), int(i));
    set_integer(node, "step", int(part.step[i]), int(i));
  }
  node.inputs = {x};
  return import.append(std::move(node), name, import.value(x).type);
}

Part whole(const std::vector<int64_t>& dims) {
  return {.begin = std::vector<int64_t>(dims.size(), 0), .size = dims, .step = std::vector<int64_t>(dims.size(), 1)};
}

void give_slice(Import& import, const Source& source, int index, const OperandPtr& x, const Part& part) {
  if (!source.wants(index)) return;
  if (x->constant) {
    import.spend(uint64_t(checked_elements(source.place, part.size)) * 8);
    return import.give_constant(index, sliced(x->numbers(), part));
  }
  if (std::ranges::count(part.size, 0) > 0)  // an empty part is no value, but Concat can take it
    return import.give_constant(index, make_constant("", x->type, part.size, std::vector<int64_t>()));
  const bool last = x->prefers_channels_last();
  Part ours = {in_layout(part.begin, last), in_layout(part.size, last), in_layout(part.step, last)};
  for (size_t i = 0; i < ours.size.size(); ++i)
    if (ours.size[i] == 1) ours.step[i] = 1;  // one element takes any step
  give(import, index, last,
       slice_step(import, last ? import.channels_last(x) : import.plain(x), ours, import.output_name(index)));
}

// Sets numpy's x[start:end:step] along one axis.
void set_range(const Source& source, Part& part, int axis, int64_t dim, int64_t start, int64_t end, int64_t step) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  if (step == 0) source.malformed("a step is 0");
  step = std::clamp(step, -kFar, kFar);
  const auto from_end = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i + dim, -1) : std::min(i, dim); };
  start = from_end(start);
  const bool before_all = end < -dim;
  end = from_end(end);
  if (step > 0) {
    start = std::max<int64_t>(start, 0);
    end = std::max<int64_t>(end, 0);
  } else {
    start = std::min(start, dim - 1);
    if (before_all) end = -1;
  }
  const int64_t span = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
  const auto at = size_t(axis);
  part.size[at] = span <= 0 ? 0 : (span - 1) / stride + 1;
  part.begin[at] = part.size[at] > 0 ? start : 0;
  part.step[at] = step;
}

// Imports Slice. Bounds are attributes until opset 9, inputs from opset 10 on.
void slice(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const bool attributes = source.has("starts");
  const auto list = [&](const char* key, int input) {
    return attributes ? source.integers(key) : source.constant_integers(input, key);
  };
  const std::vector<int64_t> starts = list("starts", 1), ends = list("ends", 2);
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = int64_t(i);
  if (attributes ? source.has("axes") : source.given(3)) axes = list("axes", 3);
  if (!attributes && source.given(4)) steps = list("steps", 4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    source.malformed("starts, ends, axes and steps have several lengths");
  Part part = whole(x->dims);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = source.axis(axes[i], x->rank());
    set_range(source, part, axis, x->dims[size_t(axis)], starts[i], ends[i], steps[i]);
  }
  give_slice(import, source, 0, x, part);
}

// Imports Split. Sizes are an attribute until opset 12, an input from opset 13 on. Without sizes the parts are equal,
// one for each output of the node, but the last ones may be smaller or empty. num_outputs is not read.
void split(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int axis = source.axis(source.integer("axis", 0), x->rank()), outputs = source.proto.output_size();
  const int64_t dim = x->dims[size_t(axis)];
  std::vector<int64_t> sizes = source.integers_or_input("split", 1).value_or(std::vector<int64_t>{});
  if (sizes.empty() && outputs > 0) {
    const int64_t each = (dim + outputs - 1) / outputs;  // the last parts may be smaller
    for (int64_t left = dim; int(sizes.size()) < outputs; left -= each)
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
  }
  if (dim == 0) source.refuse("its input is empty: it has no elements");
  int64_t total = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > dim) source.malformed("a part has a size outside its input");
    total += size;
  }
  if (int(sizes.size()) != outputs || total != dim) source.malformed("its parts do not add up to its input");
  Part part = whole(x->dims);
  int64_t begin = 0;
  for (int i = 0; i < outputs; ++i) {
    part.begin[size_t(axis)] = sizes[size_t(i)] > 0 ? begin : 0;
    part.size[size_t(axis)] = sizes[size_t(i)];
    give_slice(import, source, i, x, part);
    begin += sizes[size_t(i)];
  }
}

// Returns how many indices from `first` on have equal, nonzero distances.
size_t run_length(const std::vector<int64_t>& indices, size_t first) {
  size_t end = std::min(first + 2, indices.size());
  while (end < indices.size() && indices[end] - indices[end - 1] == indices[first + 1] - indices[first]) ++end;
  return indices[first] == indices[end - 1] ? 1 : end - first;  // a slice repeats nothing
}

// Gathers rows of x by stored indices. Each run of equally spaced indices is a slice; the slices are concatenated.
ValueId gather_rows(Import& import, const Source& source, const OperandPtr& x, const std::vector<int64_t>& indices,
                    int axis) {
  constexpr size_t kMaxRuns = 64;
  const auto at = size_t(axis);
  std::vector<ValueId> parts;
  for (size_t i = 0, length = 0; i < indices.size(); i += length) {
    length = run_length(indices, i);
    Part part = whole(x->dims);
    part.begin[at] = indices[i];
    part.size[at] = int64_t(length);
    part.step[at] = length > 1 ? indices[i + 1] - indices[i] : 1;
    parts.push_back(slice_step(import, import.plain(x), part, import.output_name() + "/part"));
    if (parts.size() > kMaxRuns) source.refuse("needs more than 64 slices of its input");
  }
  return parts.size() == 1 ? parts[0] : import.concatenation(parts, axis, import.output_name());
}

// Returns whether the gather uses x as an embedding's table, because it would need more than 16 slices.
bool needs_table(const OperandPtr& x, const std::vector<int64_t>& indices, int axis) {
  constexpr int kMostSlices = 16;
  int runs = 0;
  for (size_t i = 0; i < indices.size(); i += run_length(indices, i)) ++runs;
  return runs > kMostSlices && axis == 0 && x->type == ElementType::kFloat32;
}

ValueId gather_of_table(Import& import, const OperandPtr& x, const std::vector<int64_t>& indices) {
  const int64_t entries = x->dims[0];
  const int64_t width = std::accumulate(x->dims.begin() + 1, x->dims.end(), int64_t{1}, std::multiplies<>());
  const std::vector<int32_t> ids(indices.begin(), indices.end());
  Node node = import.step(Op::kEmbedding);
  node.inputs = {import.reshaped(import.plain(x), {entries, width}, x->name + "/table"),
                 import.graph().constant(import.output_name() + "/ids", {int64_t(ids.size())}, ids)};
  return import.append(std::move(node), import.output_name());
}

void gather(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  if (!source.operand(1)->constant) return gather_at_run_time(import, source);
  const Value& given = source.constant(1, "its indices");
  const int axis = source.axis(source.integer("axis", 0), x->rank());
  const int64_t dim = x->dims[size_t(axis)];
  std::vector<int64_t> indices = integers(given), dims = x->dims;
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, given.dims.begin(), given.dims.end());
  import.spend(uint64_t(checked_elements(source.place, dims)) * 8);
  if (x->constant) return import.give_constant(0, gathered(x->numbers(), indices, given.dims, axis));
  if (indices.empty()) source.refuse("gives a tensor without elements");
  for (int64_t& index : indices) {
    if (index < -dim || index >= dim) source.malformed("an index is outside its input");
    if (index < 0) index += dim;
  }
  const ValueId y = needs_table(x, indices, axis) ? gather_of_table(import, x, indices)
                                                  : gather_rows(import, source, x, indices, axis);
  import.give_plain(0, import.reshaped(y, dims, import.output_name() + "/shape"));
}

struct Pads {
  std::vector<int64_t> before, after;
};

Pads read_pads(const Source& source, int rank) {
  const std::vector<int64_t> list =
      source.has("pads") ? source.integers("pads") : source.constant_integers(1, "its pads");
  std::vector<int64_t> axes(size_t(rank), 0);
  for (int i = 0; i < rank; ++i) axes[size_t(i)] = i;
  if (source.given(3)) axes = source.constant_integers(3, "its axes");
  if (list.size() != 2 * axes.size()) source.malformed("its pads do not fit its axes");
  Pads pads{std::vector<int64_t>(size_t(rank), 0), std::vector<int64_t>(size_t(rank), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(source.axis(axes[i], rank));
    pads.before[axis] = list[i];
    pads.after[axis] = list[i + axes.size()];
  }
  return pads;
}

uint32_t fill_word(const Source& source, const OperandPtr& x) {
  if (x->type == ElementType::kFloat32)
    return std::bit_cast<uint32_t>(source.given(2) ? source.constant_real(2, "its value") : source.real("value", 0));
  if (!source.given(2)) return 0;
  const Value& value = source.constant(2, "its value");
  if (value.elements() != 1 || value.type != x->type)
    source.malformed("its value is not one number of its input's type");
  const int64_t number = integers(value)[0];
  if (number < INT32_MIN || number > INT32_MAX) source.refuse("its value does not fit into 32 bits");
  return uint32_t(number);
}

// Pads in mode wrap: elements beyond one end of an axis come from the other end. Axes are padded one after the other,
// so a corner comes from the opposite corner.
ValueId wrapped(Import& import, const Source& source, ValueId x, const std::vector<int64_t>& before,
                const std::vector<int64_t>& after) {
  for (size_t axis = 0; axis < before.size(); ++axis) {
    const std::vector<int64_t> dims = import.value(x).dims;
    if (before[axis] == 0 && after[axis] == 0) continue;
    if (std::max(before[axis], after[axis]) > dims[axis]) source.refuse("wraps around an axis more than once");
    const auto end = [&](int64_t begin, int64_t size) {
      Part part = whole(dims);
      part.begin[axis] = begin, part.size[axis] = size;
      return slice_step(import, x, part, import.output_name() + "/end");
    };
    Node concat = import.step(Op::kConcat);
    set_integer(concat, "axis", int(axis));
    if (before[axis] > 0) concat.inputs.push_back(end(dims[axis] - before[axis], before[axis]));
    concat.inputs.push_back(x);
    if (after[axis] > 0) concat.inputs.push_back(end(0, after[axis]));
    x = import.append(std::move(concat), import.output_name(), import.value(x).type);
  }
  return x;
}

// Imports Pad. A negative pad removes elements by a slice before the padding.
void pad(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const std::string mode = source.text("mode", "constant");
  constexpr const char* kModes[] = {"constant", "reflect", "edge", "wrap"};  // engine/ops/move.h has the first three
  const auto found = std::find(std::begin(kModes), std::end(kModes), mode);
  if (found == std::end(kModes)) source.refuse("mode " + mode + " is not supported");
  Pads pads = read_pads(source, x->rank());
  Part part = whole(x->dims);
  for (size_t i = 0; i < x->dims.size(); ++i) {
    for (const int64_t pad : {pads.before[i], pads.after[i]})
      if (pad < -x->dims[i] || pad > (1 << 28)) source.malformed("a pad is out of range");
    part.begin[i] = std::max<int64_t>(0, -pads.before[i]);
    part.size[i] = x->dims[i] - part.begin[i] - std::max<int64_t>(0, -pads.after[i]);
    if (part.size[i] < 1) source.refuse("takes away all elements");
    pads.before[i] = std::max<int64_t>(0, pads.before[i]);
    pads.after[i] = std::max<int64_t>(0, pads.after[i]);
  }
  const bool last = x->prefers_channels_last();
  const Part ours = {in_layout(part.begin, last), in_layout(part.size, last), in_layout(part.step, last)};
  const std::vector<int64_t> before = in_layout(pads.before, last), after = in_layout(pads.after, last);
  ValueId y =
      slice_step(import, last ? import.channels_last(x) : import.plain(x), ours, import.output_name() + "/slice");
  const auto none = [](const std::vector<int64_t>& p) {
    return std::all_of(p.begin(), p.end(), [](int64_t v) { return v == 0; });
  };
  if (mode == "wrap") {
    y = wrapped(import, source, y, before, after);
  } else if (!none(before) || !none(after)) {
    Node node = import.step(Op::kPad);
    for (size_t i = 0; i < before.size(); ++i) {
      set_integer(node, "before", int(before[i]), int(i));
      set_integer(node, "after", int(after[i]), int(i));
    }
    set_integer(node, "value", int(fill_word(source, x)));
    set_integer(node, "mode", int(found - std::begin(kModes)));
    node.inputs = {y};
    y = import.append(std::move(node), import.output_name(), x->type);
  }
  give(import, 0, last, y);
}

constexpr OperatorImporter kMoveImporters[] = {
    {"Concat", concat}, {"Slice", slice}, {"Split", split}, {"Gather", gather}, {"Pad", pad}};

}  // namespace

std::span<const OperatorImporter> move_importers() { return kMoveImporters; }

}  // namespace nacre::tools::onnx_import
