#include "tools/evaluate/sample_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/files/convert_elements.h"

namespace nacre::tools {
namespace {

NpyArray with(const NpyArray& array, ElementType type, ElementBytes data) {
  return {.type = type, .dims = array.dims, .data = std::move(data), .place = array.place};
}

bool is_other_float(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16 || type == ElementType::kFloat64;
}

}  // namespace

NpzArrays read_arrays(const std::string& path) {
  if (path.ends_with(".npz")) return read_npz(path);
  if (path.ends_with(".npy") || path == kStandardStream) return {{"", read_npy(path)}};
  throw Error(kUsage, path, "is neither .npz nor .npy", "give one array per input as .npz, or the only one as .npy");
}

std::vector<NpyArray> arrays_for(const std::vector<std::string>& inputs, const NpzArrays& data,
                                 std::vector<std::string>& notes) {
  if (inputs.size() == 1 && data.size() == 1) return {data[0].second};
  std::vector<NpyArray> arrays;
  for (const std::string& name : inputs) {
    const auto found = std::ranges::find(data, name, &std::pair<std::string, NpyArray>::first);
    if (found == data.end())
      throw Error(kBadInput, data.empty() ? option("data") : data[0].second.place,
                  fmt::format("holds no array for the input {}", name),
                  "give a .npz with one array per input, named as the input");
    arrays.push_back(found->second);
  }
  for (const auto& [name, array] : data)
    if (std::ranges::find(inputs, name) == inputs.end()) notes.push_back(fmt::format("{} is no input: not used", name));
  return arrays;
}

NpyArray select_rows(const NpyArray& array, std::span<const int64_t> rows, const std::string& place) {
  const int64_t count = array.dims.empty() ? 0 : array.dims[0];
  const size_t row_bytes = count == 0 ? 0 : array.data.size() / size_t(count);
  NpyArray selected = {.type = array.type, .dims = array.dims, .data = {}, .place = array.place};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= count)
      throw Error(kBadInput, place, fmt::format("index {} is {}, but {} has {} rows", i, rows[i], array.place, count),
                  "give indices of rows, from 0");
    selected.data.append(std::span(array.data).subspan(size_t(rows[i]) * row_bytes, row_bytes));
    array.data.passed(row_bytes);
  }
  selected.dims[0] = int64_t(rows.size());
  return selected;
}

void require_integers(const NpyArray& array) {
  if (is_other_float(array.type) || array.type == ElementType::kFloat32) return;  // may hold whole numbers
  switch (array.type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kBool:
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kInt64: return;
    default:
      throw Error(kBadInput, array.place, fmt::format("holds {}, wanted integers", name_of(array.type)),
                  "save it as an array of integers");
  }
}

// Throws unless each float is a whole number of at most 2^53: nothing is rounded.
void require_whole(const NpyArray& array) {
  if (!is_other_float(array.type) && array.type != ElementType::kFloat32) return;
  const NpyArray reals = with(array, ElementType::kFloat64, cast(array, ElementType::kFloat64));
  const std::vector<double> x = reals.values<double>();
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != std::trunc(x[i]) || !(std::abs(x[i]) <= 0x1p53))
      throw Error(kBadInput, array.place, fmt::format("element {} is {}, wanted integers", i, x[i]),
                  "save it as an array of integers");
}

std::vector<int64_t> integers_of(const NpyArray& array) {
  require_integers(array);
  require_whole(array);
  const NpyArray wide = with(array, ElementType::kInt64, cast(array, ElementType::kInt64));
  return wide.values<int64_t>();
}

// Returns the rows at which a mask is true.
std::vector<int64_t> rows_of_mask(const std::vector<int64_t>& mask, const std::string& path) {
  std::vector<int64_t> rows;
  for (size_t row = 0; row < mask.size(); ++row)
    if (mask[row] != 0) rows.push_back(int64_t(row));
  if (rows.empty()) throw Error(kBadInput, path, "is a mask that is true for no row", "set the rows that are meant");
  return rows;
}

std::vector<int64_t> read_rows(const std::string& path, int64_t rows) {
  const NpyArray array = read_npy(path, [&](const std::string&, const NpyArray& header) {
    if (header.dims.size() == 1 && header.dims[0] == 0)
      throw Error(kBadInput, path, "holds no row numbers",
                  "give a .npy that holds the numbers of the rows that are meant");
    if (header.dims.size() != 1)
      throw Error(kBadInput, path, fmt::format("holds {}, wanted a list of row numbers", dims_text(header.dims)),
                  "give a .npy of integers with one axis");
    require_integers(header);
    const bool mask = header.type == ElementType::kBool && rows != INT64_MAX;
    if (mask && header.dims[0] != rows)
      throw Error(kBadInput, path,
                  fmt::format("is a mask of {}, and there are {}", counted(uint64_t(header.dims[0]), "row"),
                              counted(uint64_t(rows), "row")),
                  "give one bool for each row, or the numbers of the rows");
    if (header.dims[0] > rows)
      throw Error(kBadInput, path,
                  fmt::format("holds {} row numbers, and there are {} rows", grouped(uint64_t(header.dims[0])),
                              grouped(uint64_t(rows))),
                  "name each row once");
  });
  std::vector<int64_t> numbers = integers_of(array);
  return array.type == ElementType::kBool ? rows_of_mask(numbers, path) : numbers;
}

NpyArray fit_input(const LoadedModel& model, uint32_t tensor, const std::string& name, NpyArray array,
                   const InputFit& fit, std::vector<std::string>& notes) {
  const ElementType wanted = model.model().tensors()[tensor].element;
  const std::optional<Scales> scales = model.scales(tensor);
  if (array.type == wanted) return array;
  const auto note = [&](const std::string& what) {
    notes.push_back(fmt::format("input {}: {} for {}", name, what, model.path()));
  };
  const bool to_codes = is_code_of_reals(wanted) && scales;
  if (is_code_of_reals(array.type) && fit.codes && !to_codes) {
    note("codes are taken as " + quantizer_text(fit.codes->scale[0], fit.codes->zero[0]));
    array = with(array, ElementType::kFloat32, dequantized(array, fit.codes->scale[0], fit.codes->zero[0]));
  } else if (fit.cast && array.type != ElementType::kFloat32) {
    const ElementType way = to_codes || is_other_float(wanted) ? ElementType::kFloat32 : wanted;
    array = with(array, way, cast(array, way));
  }
  if (array.type == wanted) return array;
  if (array.type == ElementType::kFloat32 && to_codes) {
    note(fmt::format("quantized, code = round(x / {}) {:+},", scales->scale[0], scales->zero[0]));
    return with(array, wanted, quantized(array, wanted, scales->scale[0], scales->zero[0]));
  }
  if (array.type == ElementType::kFloat32 && is_other_float(wanted)) {
    note(fmt::format("rounded to {}", name_of(wanted)));
    return with(array, wanted, rounded(array, wanted));
  }
  throw Error(
      kBadInput, array.place,
      fmt::format("holds {}, but the input {} of {} is {}", name_of(array.type), name, model.path(), name_of(wanted)),
      "give float32, or that type, or, where no number changes by it, " + option("cast-inputs"));
}

}  // namespace nacre::tools
