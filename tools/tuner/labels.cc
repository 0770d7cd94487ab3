#include "tools/tuner/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/array_numbers.h"

namespace nacre::tools {
namespace {

NpyArray of_values(const NpyArray& like, ElementType type, std::vector<int64_t> dims, const auto& values) {
  NpyArray array = {.type = type, .dims = std::move(dims), .data = {}, .place = like.place};
  array.data.resize(values.size() * sizeof values[0]);
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

// Returns whole numbers, read from text or from an array of any type.
std::vector<int64_t> whole_numbers(const NpyArray& array, bool decimal) {
  if (!decimal) return integers_of(array);
  std::vector<int64_t> result;
  for_each_number(array, [&](size_t i, double x) {
    if (x != std::trunc(x) || std::abs(x) > 0x1p53)
      throw Error(kBadInput, array.place,
                  fmt::format("the label at {} is {}, wanted the number of a class", index_text(array, i), x),
                  "number the classes from 0");
    result.push_back(int64_t(x));
  });
  return result;
}

std::vector<int64_t> with_rows(int64_t rows, const std::vector<int64_t>& dims) {
  std::vector<int64_t> all = {rows};
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

std::vector<int64_t> without_last(std::vector<int64_t> dims) {
  if (!dims.empty()) dims.pop_back();
  return dims;
}

std::string wanted_text(const LabelSpec& spec) {
  const std::string dims = spec.sample.dims.empty() ? "" : " " + dims_text(spec.sample.dims);
  if (spec.classes > 0)
    return fmt::format("the loss takes{} the number of a class, 0 to {}, per row", dims, spec.classes - 1);
  return fmt::format("the loss takes targets {} {} per row", name_of(spec.sample.type), dims_text(spec.sample.dims));
}

// Refuses labels [rows, height, width] for an output [rows, classes, height, width]: the classes must be the last
// axis.
void refuse_class_axis(const LabelSpec& spec, const NpyArray& array) {
  std::vector<int64_t> output = spec.sample.dims;
  output.push_back(spec.classes);
  if (spec.classes == 0 || output.size() < 2 ||
      array.dims != with_rows(array.dims[0], {output.begin() + 1, output.end()}))
    return;
  throw Error(
      kUnsupported, array.place,
      fmt::format("holds {}: the classes are then on axis 1 of the output {}, and the cross-entropy is over its "
                  "last axis",
                  dims_text(array.dims), dims_text(with_rows(array.dims[0], output))),
      "end the network with a transpose that puts the classes last: in PyTorch output.movedim(1, -1)");
}

[[noreturn]] void refuse_shape(const LabelSpec& spec, const NpyArray& array) {
  refuse_class_axis(spec, array);
  throw Error(kBadInput, array.place, fmt::format("holds {}, but {}", dims_text(array.dims), wanted_text(spec)),
              spec.classes > 0 ? "give one integer per row, or one-hot rows" : "give targets of that shape");
}

NpyArray fit_classes(const LabelSpec& spec, const NpyArray& array, bool decimal, std::vector<std::string>& notes) {
  const std::vector<int64_t> dims = with_rows(array.dims[0], spec.sample.dims);
  std::vector<int64_t> classes;
  if (array.dims == dims || (array.dims.back() == 1 && without_last(array.dims) == dims)) {
    classes = whole_numbers(array, decimal);
  } else if (array.dims.back() == spec.classes && without_last(array.dims) == dims) {
    classes = classes_of_one_hot(array, size_t(spec.classes));
    notes.push_back(fmt::format("{}: one-hot rows are taken as classes", array.place));
  } else {
    refuse_shape(spec, array);
  }
  const NpyArray result = of_values(array, ElementType::kInt64, dims, classes);
  for (size_t i = 0; i < classes.size(); ++i)
    if ((classes[i] < 0 || classes[i] >= spec.classes) && classes[i] != spec.ignored)
      throw Error(kBadInput, array.place,
                  fmt::format("the label at {} is {}, but {}", index_text(result, i), classes[i], wanted_text(spec)),
                  "number the classes from 0");
  if (std::ranges::all_of(classes, [&](int64_t c) { return c == spec.ignored; }))
    throw Error(kBadInput, array.place, fmt::format("every label is {}, which counts for nothing", classes[0]));
  return {.type = spec.sample.type, .dims = dims, .data = cast(result, spec.sample.type), .place = array.place};
}

bool is_integer(ElementType type) {
  return type != ElementType::kFloat16 && type != ElementType::kFloat32 && type != ElementType::kFloat64;
}

NpyArray fit_targets(const LabelSpec& spec, NpyArray array, const LabelType& type, std::vector<std::string>& notes) {
  const bool decimal = type.decimal;
  const std::vector<int64_t> dims = with_rows(array.dims[0], spec.sample.dims);
  const int64_t width = spec.sample.dims.empty() ? 1 : spec.sample.dims.back();
  const TypeOptions options = {.decimal = decimal, .cast = type.cast || is_integer(array.type)};
  const bool one_number = array.dims.size() + 1 == dims.size() && without_last(dims) == array.dims;
  if (array.dims == dims || (one_number && width == 1)) {
    array.dims = dims;
    return in_type_of(spec.sample, std::move(array), options);
  }
  if (!one_number || (!decimal && !is_integer(array.type))) refuse_shape(spec, array);
  const std::vector<int64_t> classes = whole_numbers(array, decimal);
  std::vector<float> rows(classes.size() * size_t(width));
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] < 0 || classes[i] >= width)
      throw Error(kBadInput, array.place,
                  fmt::format("the label at {} is {}, but {}", index_text(array, i), classes[i], wanted_text(spec)),
                  "number the classes from 0");
    rows[i * size_t(width) + size_t(classes[i])] = 1;
  }
  notes.push_back(fmt::format("{}: classes are taken as one-hot rows", array.place));
  return in_type_of(spec.sample, of_values(array, ElementType::kFloat32, dims, rows), {});
}

}  // namespace

void check_finite(const NpyArray& array) {
  if (is_integer(array.type)) return;
  for_each_number(array, [&](size_t i, double x) {
    if (!std::isfinite(x))
      throw Error(kBadInput, array.place, fmt::format("the number at {} is {}", index_text(array, i), x),
                  "leave such rows out, or put a number there");
  });
}

NpyArray fit_labels(const LabelSpec& spec, NpyArray array, const LabelType& type, std::vector<std::string>& notes) {
  if (array.dims.empty()) refuse_shape(spec, array);
  if (array.data.empty()) throw Error(kBadInput, array.place, "holds no label");
  put_rows_first(spec.sample, array, notes, true);
  check_finite(array);
  return spec.classes > 0 ? fit_classes(spec, array, type.decimal, notes)
                          : fit_targets(spec, std::move(array), type, notes);
}

}  // namespace nacre::tools
