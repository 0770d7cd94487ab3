// Converts SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK and REVERSE_V2, which take runs of indices along axes. Also
// computes slices, packs and concatenations of stored lists of integers, such as a RESHAPE's target made from SHAPE.
#include <algorithm>

#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

// Makes y of x, cut along each axis. If the file takes axis 0 whole, it stays whole with another batch.
void emit_slice(Importer& importer, Operation& op, size_t input, std::vector<Cut> cuts, ValueId y) {
  const ValueId x = importer.input(op, input);
  const std::vector<int64_t> file = importer.file_dims(op, input);
  if (!cuts.empty() && cuts[0].begin == 0 && cuts[0].step == 1 && cuts[0].size == file[0])
    cuts[0].size = importer.value(x).dims[0];
  Node node{.op = Op::kSlice, .name = "", .words = {}, .inputs = {x}, .outputs = {y}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i].size < 1) importer.unsupported(op, "a slice without elements");
    set_integer(node, "begin", importer.integer(op, cuts[i].begin, "begin"), int(i));
    set_integer(node, "size", importer.integer(op, cuts[i].size, "size"), int(i));
    set_integer(node, "step", importer.integer(op, cuts[i].step, "step"), int(i));
  }
  importer.emit(op, std::move(node));
}

std::vector<Cut> whole(const std::vector<int64_t>& dims) {
  std::vector<Cut> cuts;
  for (const int64_t dim : dims) cuts.push_back({0, dim, 1});
  return cuts;
}

void convert_slice(Importer& importer, Operation& op) {
  if (slice_at_run_time(importer, op)) return;
  const std::vector<int64_t> dims = importer.file_dims(op, 0), begin = importer.integers(op, 1),
                             size = importer.integers(op, 2);
  if (begin.size() != dims.size() || size.size() != dims.size())
    importer.bad(op, "its begins or sizes are not one per axis");
  std::vector<Cut> cuts;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool fits =
        begin[i] >= 0 && begin[i] <= dims[i] && (size[i] == -1 || (size[i] >= 0 && size[i] <= dims[i] - begin[i]));
    if (!fits) importer.bad(op, "a slice outside of shape " + dims_text(dims));
    cuts.push_back({begin[i], size[i] == -1 ? dims[i] - begin[i] : size[i], 1});
  }
  emit_slice(importer, op, 0, std::move(cuts), importer.output(op));
}

// The cuts of a STRIDED_SLICE, and the shape `dims` after axes are added and dropped.
struct StridedSlice {
  std::vector<Cut> cuts;
  std::vector<int64_t> dims;
  bool reshapes = false;
};

class StridedSliceReader {
 public:
  StridedSliceReader(Importer& importer, const Operation& op)
      : importer_(importer), op_(op), options_(importer.options<StridedSliceOptions>(op)),
        begin_(importer.integers(op, 1)), end_(importer.integers(op, 2)), step_(importer.integers(op, 3)) {
    if (begin_.size() != end_.size() || begin_.size() != step_.size() || begin_.size() > 2 * size_t(kMaxRank))
      importer_.bad(op_, "its begins, ends and strides are not of one length");
  }

  StridedSlice read(const std::vector<int64_t>& dims) const {
    StridedSlice slice;
    size_t used = 0;  // number of axes of x that the entries before have used
    for (size_t i = 0; i < begin_.size(); ++i)
      used += !has(options_.ellipsis_mask(), i) && !has(options_.new_axis_mask(), i);
    if (used > dims.size()) importer_.bad(op_, "more entries than axes");
    size_t axis = 0;
    bool ellipsis = false;
    const auto take_whole = [&](size_t count) {
      for (; count > 0; --count, ++axis) add(slice, {0, dims[axis], 1});
    };
    for (size_t i = 0; i < begin_.size(); ++i) {
      if (has(options_.ellipsis_mask(), i)) {
        if (ellipsis) importer_.bad(op_, "two ellipses");
        ellipsis = true;
        take_whole(dims.size() - used);
      } else if (has(options_.new_axis_mask(), i)) {
        slice.dims.push_back(1);
        slice.reshapes = true;
      } else if (has(options_.shrink_axis_mask(), i)) {
        slice.cuts.push_back({index(begin_[i], dims[axis++]), 1, 1});
        slice.reshapes = true;
      } else {
        add(slice, cut(i, dims[axis++]));
      }
    }
    take_whole(dims.size() - axis);
    return slice;
  }

 private:
  static bool has(int32_t mask, size_t i) { return (uint32_t(mask) >> i & 1) != 0; }
  static void add(StridedSlice& slice, Cut cut) {
    slice.cuts.push_back(cut);
    slice.dims.push_back(cut.size);
  }

  int64_t index(int64_t begin, int64_t dim) const {
    const int64_t at = begin < 0 ? begin + dim : begin;
    if (at < 0 || at >= dim)
      importer_.bad(op_, "index " + std::to_string(begin) + " of an axis of " + std::to_string(dim));
    return at;
  }

  // Returns the cut of entry i along an axis of size `dim`. A negative begin or end counts from the axis's end.
  Cut cut(size_t i, int64_t dim) const {
    const int64_t step = step_[i];
    constexpr int64_t kFar = int64_t{1} << 32;
    if (step == 0 || std::abs(step) > kFar || std::abs(begin_[i]) > kFar || std::abs(end_[i]) > kFar)
      importer_.bad(op_, "a stride of 0, or a number over 2^32");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + dim : at, low, high); };
    const int64_t begin = has(options_.begin_mask(), i) ? (step > 0 ? low : high) : place(begin_[i]);
    const int64_t wanted = options_.offset() ? begin_[i] + end_[i] : end_[i];
    const int64_t end = has(options_.end_mask(), i) ? (step > 0 ? high : low) : place(wanted);
    const int64_t size = step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
    return {begin, std::max<int64_t>(size, 0), size > 1 ? step : 1};
  }

  Importer& importer_;
  const Operation& op_;
  const StridedSliceOptions& options_;
  std::vector<int64_t> begin_, end_, step_;
};

void convert_strided_slice(Importer& importer, Operation& op) {
  if (strided_slice_at_run_time(importer, op)) return;
  const std::vector<int64_t> dims = importer.file_dims(op, 0);
  StridedSlice slice = StridedSliceReader(importer, op).read(dims);
  const ValueId y = importer.output(op);
  if (!slice.reshapes) return emit_slice(importer, op, 0, std::move(slice.cuts), y);
  const bool keeps_batch =
      !slice.cuts.empty() && !slice.dims.empty() && slice.cuts[0].size == dims[0] && slice.dims[0] == dims[0];
  const ValueId sliced = importer.between(y, "/sliced");
  emit_slice(importer, op, 0, std::move(slice.cuts), sliced);
  if (keeps_batch) slice.dims[0] = importer.value(sliced).dims[0];
  importer.emit_reshape(op, sliced, slice.dims, y);
}

// Cuts an axis into runs of `sizes`, one per output.
void emit_split(Importer& importer, Operation& op, size_t input, int axis, const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> dims = importer.file_dims(op, input);
  if (sizes.size() != op.outputs.size()) importer.bad(op, "has another number of outputs than parts");
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > dims[size_t(axis)] - begin) importer.bad(op, "parts larger than the axis");
    std::vector<Cut> cuts = whole(dims);
    cuts[size_t(axis)] = {begin, sizes[i], 1};
    emit_slice(importer, op, input, std::move(cuts), importer.output(op, i));
    begin += sizes[i];
  }
}

int axis_of(Importer& importer, const Operation& op, size_t axis_input, size_t input) {
  const std::vector<int64_t> axis = importer.integers(op, axis_input);
  if (axis.size() != 1) importer.bad(op, "needs one axis");
  return importer.axis(op, axis[0], importer.file_dims(op, input).size());
}

void convert_split(Importer& importer, Operation& op) {
  const int axis = axis_of(importer, op, 0, 1);
  const int64_t dim = importer.file_dims(op, 1)[size_t(axis)], parts = int64_t(op.outputs.size());
  if (dim % parts != 0) importer.bad(op, std::to_string(parts) + " parts of an axis of " + std::to_string(dim));
  emit_split(importer, op, 1, axis, std::vector<int64_t>(size_t(parts), dim / parts));
}

void convert_split_v(Importer& importer, Operation& op) {
  const int axis = axis_of(importer, op, 2, 0);
  std::vector<int64_t> sizes = importer.integers(op, 1);
  int64_t rest = importer.file_dims(op, 0)[size_t(axis)];
  for (const int64_t size : sizes) rest -= std::clamp<int64_t>(size, 0, rest);
  std::replace(sizes.begin(), sizes.end(), int64_t{-1}, rest);
  emit_split(importer, op, 0, axis, sizes);
}

void convert_unpack(Importer& importer, Operation& op) {
  std::vector<int64_t> dims = importer.file_dims(op, 0);
  const int axis = importer.axis(op, importer.options<UnpackOptions>(op).axis(), dims.size());
  if (dims[size_t(axis)] != int64_t(op.outputs.size())) importer.bad(op, "has another number of outputs than parts");
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    std::vector<Cut> cuts = whole(dims);
    cuts[size_t(axis)] = {int64_t(i), 1, 1};
    const ValueId y = importer.output(op, i), part = importer.between(y, "/part");
    emit_slice(importer, op, 0, std::move(cuts), part);
    std::vector<int64_t> rest = importer.value(part).dims;
    rest.erase(rest.begin() + axis);
    importer.emit_reshape(op, part, rest, y);
  }
}

void convert_reverse(Importer& importer, Operation& op) {
  std::vector<Cut> cuts = whole(importer.file_dims(op, 0));
  for (const int64_t given : importer.integers(op, 1)) {
    Cut& cut = cuts[size_t(importer.axis(op, given, cuts.size()))];
    cut = {cut.size - 1, cut.size, cut.size > 1 ? -1 : 1};
  }
  const ValueId x = importer.input(op, 0), y = importer.output(op);
  const std::optional<Quantizer>&a = importer.value(x).quantizer, &b = importer.value(y).quantizer;
  if (!a || !b || (a->scale == b->scale && a->zero == b->zero)) return emit_slice(importer, op, 0, std::move(cuts), y);
  const ValueId turned = importer.between(x, "/turned");
  emit_slice(importer, op, 0, std::move(cuts), turned);
  emit_same_codes(importer, op, turned, y);
}

// Returns whether input i is a stored list of at most 1024 integers, or a stored integer.
bool is_known_list(Importer& importer, const Operation& op, size_t i) {
  if (!op.has_input(i)) return false;
  const Value& v = importer.value(importer.input(op, i));
  return v.constant() && !v.quantizer && v.dims.size() <= 1 && v.elements() <= 1024 &&
         (v.stored == ElementType::kInt32 || v.stored == ElementType::kInt64);
}

bool all_known(Importer& importer, const Operation& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!is_known_list(importer, op, i)) return false;
  return !op.inputs.empty();
}

}  // namespace

bool fold_shape_arithmetic(Importer& importer, Operation& op) {
  if (op.code == BuiltinOperator::STRIDED_SLICE && is_known_list(importer, op, 0)) {
    const std::vector<int64_t> list = importer.integers(op, 0);
    const StridedSlice slice = StridedSliceReader(importer, op).read({int64_t(list.size())});
    std::vector<int64_t> taken;
    for (int64_t i = 0; i < slice.cuts[0].size; ++i)
      taken.push_back(list[size_t(slice.cuts[0].begin + i * slice.cuts[0].step)]);
    importer.define_integers(op, taken, slice.dims);
    return true;
  }
  const bool joins = op.code == BuiltinOperator::PACK || op.code == BuiltinOperator::CONCATENATION;
  if (!joins || !all_known(importer, op)) return false;
  std::vector<int64_t> list;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::vector<int64_t> part = importer.integers(op, i);
    list.insert(list.end(), part.begin(), part.end());
  }
  if (op.code == BuiltinOperator::PACK && list.size() != op.inputs.size())
    importer.unsupported(op, "integers of more than one axis");
  importer.define_integers(op, list, {int64_t(list.size())});
  return true;
}

std::span<const Converter> slice_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::SLICE, &convert_slice},   {BuiltinOperator::STRIDED_SLICE, &convert_strided_slice},
      {BuiltinOperator::SPLIT, &convert_split},   {BuiltinOperator::SPLIT_V, &convert_split_v},
      {BuiltinOperator::UNPACK, &convert_unpack}, {BuiltinOperator::REVERSE_V2, &convert_reverse},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
