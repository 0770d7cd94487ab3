#include "tools/tuner/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/evaluate/sample_data.h"
#include "tools/files/convert_elements.h"
#include "tools/files/input_file.h"
#include "tools/graph/row_places.h"
#include "tools/tuner/labels.h"

namespace nacre::tools {
namespace {

// Returns whether the file can be opened; true also for a removed file that the command holds (CommandInputs).
bool can_be_read(const std::string& path) {
  try {
    const InputFile file(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Names of label arrays to look for if no name was given, after the name of the training program's label input.
constexpr const char* kLabelNames[] = {"labels", "label", "y", "targets", "target", "classes", "class"};

struct Sources {
  ArrayFile data;
  NpyArray labels;
  bool labels_decimal = false;  // from CSV
  std::string labels_of_input;  // "": labels are no input of the network
};

std::string list(const NpzArrays& arrays) {
  std::string text;
  for (const auto& [name, array] : arrays) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Takes the array of this name out of the file.
bool take_array(ArrayFile& file, const std::string& name, NpyArray* array) {
  const auto found = std::ranges::find(file.arrays, name, &std::pair<std::string, NpyArray>::first);
  if (file.csv() || name.empty() || found == file.arrays.end()) return false;
  *array = std::move(found->second);
  file.arrays.erase(found);
  return true;
}

// Takes a column out of a CSV file's array, which keeps the others.
void take_column(ArrayFile& file, size_t column, NpyArray* taken) {
  NpyArray& all = file.arrays[0].second;
  const auto rows = size_t(all.dims[0]), width = size_t(all.dims[1]);
  if (width == 1) throw Error(kBadInput, all.place, "has one column: nothing beside the labels", "give the data too");
  const std::vector<double> x = all.values<double>();
  std::vector<double> label(rows), rest;
  rest.reserve(rows * (width - 1));
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < width; ++i)
      if (i == column) label[row] = x[row * width + i];
      else rest.push_back(x[row * width + i]);
  *taken = {.type = ElementType::kFloat64, .dims = {all.dims[0]}, .data = {}, .place = all.place};
  taken->data.resize(rows * sizeof(double));
  std::memcpy(taken->data.data(), label.data(), taken->data.size());
  if (!file.columns.empty()) taken->place += ": " + file.columns[column];
  all.dims[1] -= 1;
  all.data.resize(rest.size() * sizeof(double));
  std::memcpy(all.data.data(), rest.data(), all.data.size());
  if (!file.columns.empty()) file.columns.erase(file.columns.begin() + std::ptrdiff_t(column));
}

bool take_named(ArrayFile& file, const std::string& name, NpyArray* array) {
  if (!file.csv()) return take_array(file, name, array);
  const auto found = std::ranges::find(file.columns, name);
  if (found == file.columns.end()) return false;
  take_column(file, size_t(found - file.columns.begin()), array);
  return true;
}

// Reads a file with one array. `data`: the array that the labels are for. If the rows of `data` are along axis 0, a
// file with more labels than rows is refused before its labels are read.
NpyArray only_array(const std::string& path, const NpyArray& data, bool rows_first, bool* decimal) {
  const uint64_t rows = !rows_first ? UINT64_MAX : data.dims.empty() ? 1 : uint64_t(data.dims[0]);
  ArrayFile file = read_array_file(path, [&](const std::string&, const NpyArray& header) {
    if (rows == 0) throw Error(kBadInput, data.place, "holds no row");
    if (!header.dims.empty() && uint64_t(header.dims[0]) > rows)
      throw Error(kBadInput, header.place,
                  fmt::format("holds {}, {} holds {}", counted(uint64_t(header.dims[0]), "label"), data.place,
                              counted(rows, "row")),
                  "give one label for each row");
  });
  if (file.arrays.size() != 1)
    throw Error(kBadInput, path, fmt::format("holds {} arrays, wanted one of labels", file.arrays.size()),
                "save the labels alone");
  NpyArray array = std::move(file.arrays[0].second);
  *decimal = file.csv();
  if (file.csv() && array.dims[1] == 1) array.dims.pop_back();
  return array;
}

Sources read_sources(const std::vector<SampleSpec>& inputs, const LabelSpec& labels, const DataOptions& options) {
  Sources sources = {.data = read_array_file(options.data), .labels = {}, .labels_of_input = {}};
  ArrayFile& data = sources.data;
  sources.labels_decimal = data.csv();
  if (!options.labels.empty()) {
    if (std::ranges::find(inputs, options.labels, &SampleSpec::name) != inputs.end()) {
      sources.labels_of_input = options.labels;
      sources.labels_decimal = false;  // accepted only in the input's type
      return sources;
    }
    if (take_named(data, options.labels, &sources.labels)) return sources;
    std::error_code error;
    if (!std::filesystem::exists(options.labels, error) && !can_be_read(options.labels))
      throw Error(kUsage, option("labels", options.labels),
                  fmt::format("is no file, and nothing in {} has this name", options.data),
                  "name a file of labels, or an array or column of the data");
    sources.labels = only_array(options.labels, data.arrays.empty() ? NpyArray() : data.arrays[0].second,
                                labels.sample.whole.empty(), &sources.labels_decimal);
    return sources;
  }
  if (take_named(data, labels.sample.name, &sources.labels)) return sources;
  for (const char* name : kLabelNames)
    if (take_named(data, name, &sources.labels)) return sources;
  if (!data.csv())
    throw Error(kUsage, options.data, "holds no labels",
                "name them with " + option("labels") + ": a file, or one of its arrays" +
                    (data.arrays.size() > 1 ? ": " + list(data.arrays) : std::string()));
  take_column(data, size_t(data.arrays[0].second.dims[1]) - 1, &sources.labels);
  return sources;
}

std::string spec_text(const SampleSpec& spec) {
  return fmt::format("the input {} takes {} {} per row", spec.name, name_of(spec.type), dims_text(spec.dims));
}

bool fits(const SampleSpec& spec, const NpyArray& array) {
  return array.dims.size() == spec.dims.size() + 1 &&
         std::equal(spec.dims.begin(), spec.dims.end(), array.dims.begin() + 1);
}

// Returns the array of each input: the one of its name, or else the only one left that has its shape.
std::vector<NpyArray> match(const std::vector<SampleSpec>& inputs, ArrayFile data, const std::string& path,
                            std::vector<std::string>& notes) {
  std::vector<NpyArray> arrays(inputs.size());
  if (inputs.size() == 1 && data.arrays.size() == 1) return {std::move(data.arrays[0].second)};
  if (data.format != ArrayFile::Format::kNpz)
    throw Error(kBadInput, path, fmt::format("is one array, but the network has {} inputs", inputs.size()),
                "give a .npz with an array for each, named as the input");
  std::vector<bool> found(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) found[i] = take_array(data, inputs[i].name, &arrays[i]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (found[i]) continue;
    const auto of_shape = [&](const auto& named) { return fits(inputs[i], named.second); };
    if (std::ranges::count_if(data.arrays, of_shape) != 1)
      throw Error(
          kBadInput, path,
          fmt::format("holds no array {}, and not just one of its shape: {}", inputs[i].name, spec_text(inputs[i])),
          "arrays: " + list(data.arrays));
    const std::string name = std::ranges::find_if(data.arrays, of_shape)->first;
    notes.push_back(fmt::format("{} is taken for the input {}: it has its shape", name, inputs[i].name));
    take_array(data, name, &arrays[i]);
  }
  for (const auto& [name, array] : data.arrays) notes.push_back(fmt::format("{} is no input: not used", name));
  return arrays;
}

// Sets the dims to [rows, row...]. `any_shape`: the file's format cannot state the shape.
void fit_shape(const SampleSpec& spec, NpyArray& array, bool any_shape, std::vector<std::string>& notes) {
  if (!any_shape) put_rows_first(spec, array, notes);
  const bool same = fits(spec, array);
  const bool as_many =
      any_shape && !array.dims.empty() && array.dims[0] > 0 && array.elements() / array.dims[0] == spec.elements();
  if (!same && !as_many)
    throw Error(kBadInput, array.place, fmt::format("holds {}, but {}", dims_text(array.dims), spec_text(spec)),
                "stack rows of that shape on axis 0");
  if (array.dims[0] == 0) throw Error(kBadInput, array.place, "holds no row");
  array.dims.resize(1);
  array.dims.insert(array.dims.end(), spec.dims.begin(), spec.dims.end());
}

std::vector<uint8_t> float32_of(std::span<const uint8_t> data) {
  std::vector<uint8_t> result(data.size() / 2);
  for (size_t i = 0; i < data.size() / sizeof(double); ++i) {
    double x;
    std::memcpy(&x, &data[i * sizeof x], sizeof x);
    const auto y = float(x);
    std::memcpy(&result[i * sizeof y], &y, sizeof y);
  }
  return result;
}

NpyArray scaled(const NpyArray& array, double scale) {
  NpyArray product = {.type = ElementType::kFloat64, .dims = array.dims, .data = {}, .place = array.place};
  const size_t size = element_bits(array.type) / 8;
  product.data = in_parts(array.data, size, [&](std::span<const uint8_t> part, size_t first) {
    std::vector<uint8_t> bytes = cast_elements(part, array.type, ElementType::kFloat64, array.place, first);
    for (size_t at = 0; at < bytes.size(); at += sizeof(double)) {
      double x;
      std::memcpy(&x, &bytes[at], sizeof x);
      x *= scale;
      std::memcpy(&bytes[at], &x, sizeof x);
    }
    return bytes;
  });
  return product;
}

}  // namespace

int64_t SampleSpec::elements() const {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

void put_rows_first(const SampleSpec& spec, NpyArray& array, std::vector<std::string>& notes, bool more) {
  if (spec.whole.empty()) return;
  const std::optional<RowAxis> at = row_axis(spec.whole, spec.outer, spec.count);
  const size_t rank = spec.whole.size(), given = array.dims.size();
  const auto told = [&](const std::string& how) {
    notes.push_back(fmt::format("{}, {}: {}", array.place, dims_text(array.dims), how));
  };
  // For a network of one row, the array may stack whole tensors: [rows, dims of the tensor].
  if (spec.count == 1 && given == rank + 1 &&
      std::equal(spec.whole.begin(), spec.whole.end(), array.dims.begin() + 1)) {
    array.dims.resize(1);
    array.dims.insert(array.dims.end(), spec.dims.begin(), spec.dims.end());
    return;
  }
  if (!at || (given != rank && !(more && given == rank + 1))) return;
  const auto axis = size_t(at->axis);
  bool same = true;
  for (size_t i = 0; i < rank; ++i) same = same && (i == axis || array.dims[i] == spec.whole[i]);
  const int64_t of_row = at->before * at->after;
  if (!same || array.dims[axis] == 0 || array.dims[axis] % of_row != 0) return;
  if (spec.outer == 1 && at->after == 1) return;  // rows are already along axis 0
  const int64_t rows = array.dims[axis] / of_row;
  if (spec.outer > 1) {
    told(fmt::format("its rows are along axis {}, as in the network's {} of {}", axis, spec.name,
                     dims_text(spec.whole)));
    const size_t part = array.data.size() / size_t(spec.outer * rows);
    std::vector<uint8_t> bytes(array.data.size());
    const std::span<const uint8_t> from = array.data;
    for (size_t o = 0; o < size_t(spec.outer); ++o)
      for (size_t n = 0; n < size_t(rows); ++n)
        std::memcpy(&bytes[(n * size_t(spec.outer) + o) * part], &from[(o * size_t(rows) + n) * part], part);
    array.data = std::move(bytes);
  }
  std::vector<int64_t> dims = {rows};
  dims.insert(dims.end(), spec.dims.begin(), spec.dims.end());
  dims.insert(dims.end(), array.dims.begin() + ptrdiff_t(rank), array.dims.end());
  array.dims = std::move(dims);
}

NpyArray as_samples(const SampleSpec& spec, const NpyArray& rows, const std::vector<int64_t>& dims) {
  const size_t bytes = rows.data.size() / size_t(rows.dims[0]);
  int64_t elements = 1;
  for (const int64_t d : dims) elements *= d;
  const auto count = size_t(elements / spec.elements()), samples = size_t(rows.dims[0]) / count;
  NpyArray made = {.type = rows.type, .dims = dims, .data = {}, .place = rows.place};
  made.dims.insert(made.dims.begin(), int64_t(samples));
  std::vector<uint8_t> all(samples * count * bytes);
  const std::span<const uint8_t> from = rows.data;
  for (size_t i = 0; i < samples * count; ++i)
    put_row(std::as_writable_bytes(std::span(all)).subspan(i / count * count * bytes, count * bytes),
            from.subspan(i * bytes, bytes), spec.outer, i % count, count);
  made.data = std::move(all);
  return made;
}

NpyArray in_type_of(const SampleSpec& spec, NpyArray array, const TypeOptions& options) {
  const bool real = spec.type == ElementType::kFloat32 || spec.type == ElementType::kFloat64 ||
                    spec.type == ElementType::kFloat16 || spec.type == ElementType::kBfloat16;
  const bool coded = is_code_of_reals(spec.type) && spec.scales && spec.scales->scale.size() == 1;
  check_finite(array);
  if (options.scale) array = scaled(array, *options.scale);
  const bool decimal = options.decimal || options.scale;
  if (array.type == spec.type && !decimal) return array;
  const auto as = [&](ElementType type, ElementBytes data) {
    return NpyArray{.type = type, .dims = array.dims, .data = std::move(data), .place = array.place};
  };
  if (decimal && (real || coded)) {
    if (spec.type == ElementType::kFloat64) return array;
    array = as(ElementType::kFloat32, in_parts(array.data, sizeof(double),
                                               [](std::span<const uint8_t> part, size_t) { return float32_of(part); }));
    check_finite(array);
    if (spec.type == ElementType::kFloat32) return array;
  }
  if (array.type == ElementType::kFloat32 && coded)
    return as(spec.type, quantized(array, spec.type, spec.scales->scale[0], spec.scales->zero[0]));
  if (array.type == ElementType::kFloat32 && real) return as(spec.type, rounded(array, spec.type));
  if (options.cast || options.decimal) return as(spec.type, cast(array, spec.type));
  throw Error(kBadInput, array.place, fmt::format("holds {}, but {}", name_of(array.type), spec_text(spec)),
              array.type == ElementType::kFloat64
                  ? "save it with numpy's astype(numpy.float32); " + option("cast-samples") +
                        " takes it where no number changes by it"
                  : "give that type; " + option("cast-samples") + " takes the numbers as they are, " +
                        option("scale", "1/255") + " multiplies them");
}

Dataset read_dataset(const std::vector<SampleSpec>& inputs, const LabelSpec& labels, const DataOptions& options,
                     std::vector<std::string>& notes) {
  Sources sources = read_sources(inputs, labels, options);
  const bool csv = sources.data.csv(), any_shape = csv || sources.data.format == ArrayFile::Format::kIdx;
  Dataset set;
  set.inputs = match(inputs, std::move(sources.data), options.data, notes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    NpyArray& array = set.inputs[i];
    fit_shape(inputs[i], array, any_shape, notes);
    array = in_type_of(inputs[i], std::move(array), {.decimal = csv, .cast = options.cast, .scale = options.scale});
    if (array.dims[0] != set.inputs[0].dims[0])
      throw Error(kBadInput, array.place,
                  fmt::format("holds {}, {} holds {}", counted(uint64_t(array.dims[0]), "row"), set.inputs[0].place,
                              counted(uint64_t(set.inputs[0].dims[0]), "row")),
                  "give as many for every input");
  }
  set.rows = set.inputs.empty() ? 0 : set.inputs[0].dims[0];
  if (!sources.labels_of_input.empty()) {
    const auto input = size_t(std::ranges::find(inputs, sources.labels_of_input, &SampleSpec::name) - inputs.begin());
    sources.labels = set.inputs[input];
  }
  set.labels =
      fit_labels(labels, std::move(sources.labels), {.decimal = sources.labels_decimal, .cast = options.cast}, notes);
  if (set.labels.dims[0] != set.rows)
    throw Error(kBadInput, set.labels.place,
                fmt::format("holds {}, {} holds {}", counted(uint64_t(set.labels.dims[0]), "label"),
                            set.inputs[0].place, counted(uint64_t(set.rows), "row")),
                "give one label for each row");
  return set;
}

double parse_scale(const std::string& text, const std::string& place) {
  const size_t slash = text.find('/');
  const auto number = [&](const std::string& part) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() ? value : std::nan("");
  };
  const double scale =
      number(text.substr(0, slash)) / (slash == std::string::npos ? 1 : number(text.substr(slash + 1)));
  if (!std::isnormal(float(scale)))
    throw Error(kUsage, place, fmt::format("'{}' is no number that can multiply", text),
                "give one such as 0.5 or 1/255");
  return scale;
}

}  // namespace nacre::tools
