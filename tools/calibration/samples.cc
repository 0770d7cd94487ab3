#include "tools/calibration/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/option_id.h"
#include "tools/files/convert_elements.h"
#include "tools/files/input_file.h"
#include "tools/graph/code_ends.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

const Value& value_of(const Graph& graph, size_t input) { return graph.values[size_t(graph.inputs[input].value)]; }

std::string input_names(const Graph& graph) {
  std::string text;
  for (const Binding& b : graph.inputs) text += (text.empty() ? "" : ", ") + b.name;
  return text;
}

std::string input_text(const Graph& graph, size_t input) {
  const Value& v = value_of(graph, input);
  return fmt::format("the input {} takes {} {}", graph.inputs[input].name, name_of(v.type),
                     dims_text(sample_dims(graph, v)));
}

// Decodes an array of codes of the source's quantizer into float32 numbers.
NpyArray decoded(NpyArray array, const Quantizer& quantizer) {
  const size_t size = element_bits(array.type) / 8;
  array.data = in_parts(array.data, size, [&](std::span<const uint8_t> part, size_t) {
    Value codes;
    codes.name = array.place;
    codes.dims = {int64_t(part.size() / size)};
    codes.quantizer = quantizer;
    codes.stored = array.type;
    codes.data = std::make_shared<const std::vector<uint8_t>>(part.begin(), part.end());
    const std::vector<float> x = reals(codes);
    std::vector<uint8_t> bytes(x.size() * sizeof(float));
    std::memcpy(bytes.data(), x.data(), bytes.size());
    return bytes;
  });
  array.type = ElementType::kFloat32;
  return array;
}

NpyArray typed(const Graph& graph, size_t input, NpyArray array, const SampleOptions& options) {
  const Value& v = value_of(graph, input);
  if (array.type == v.type) return array;
  const bool coded = v.quantizer && v.quantizer->scale.size() == 1;
  if (coded && array.type == v.quantizer->codes) return decoded(std::move(array), *v.quantizer);
  if (options.cast) {
    array.data = cast(array, v.type);
    array.type = v.type;
    return array;
  }
  const std::string codes = coded ? fmt::format(", or the {} codes of its quantizer", name_of(v.quantizer->codes)) : "";
  throw Error(kBadInput, array.place,
              fmt::format("holds {}, but {}{}", name_of(array.type), input_text(graph, input), codes),
              "give the numbers that the network takes, in that type; " + option("cast-samples") + " (of search " +
                  option("cast-inputs") + ") changes a type where no number changes");
}

// Gives the array the dims [count, sample...], or throws if its shape does not fit.
void stack(const Graph& graph, size_t input, NpyArray& array) {
  std::vector<int64_t> one = sample_dims(graph, value_of(graph, input));
  std::vector<int64_t> stacked = one;
  const int64_t first = array.dims.empty() ? 1 : array.dims[0];
  stacked.insert(stacked.begin(), first);
  if (array.dims == one) {
    one.insert(one.begin(), 1);
    array.dims = one;
    return;
  }
  // A network of batch 1 also accepts [n, 1, ...]: n whole inputs, stacked.
  std::vector<int64_t> whole = stacked;
  whole.insert(whole.begin() + 1, 1);
  const bool rows = value_of(graph, input).dims.size() == one.size() + 1;
  if (array.dims == whole && rows && graph.batch == 1) array.dims = stacked;
  if (array.dims != stacked)
    throw Error(kBadInput, array.place,
                fmt::format("holds {}, but {}", dims_text(array.dims), input_text(graph, input)),
                "give one sample of that shape, or several stacked on axis 0");
  if (first == 0) throw Error(kBadInput, array.place, "holds no sample");
}

// Throws if the shape in an array's header does not fit, before the array is read.
void check_shape(const Graph& graph, size_t input, NpyArray header) { stack(graph, input, header); }

std::string element_text(const NpyArray& array, size_t i) {
  const auto size = size_t(array.elements() / array.dims[0]);
  return fmt::format("element {} of sample {}", i % size, i / size + 1);
}

// Throws if a number lies more than one scale beyond the ends of the input's codes: the network never saw such one.
void check_quantizer(const Graph& graph, size_t input, const NpyArray& array, std::span<const float> x, size_t first) {
  const Value& v = value_of(graph, input);
  if (!v.quantizer || v.quantizer->scale.size() != 1) return;
  const Quantizer& q = *v.quantizer;
  const CodeEnds range = code_ends(q.codes);
  const double scale = q.scale[0], zero = q.zero.empty() ? 0 : double(q.zero[0]);
  const double low = scale * (range.low - zero), high = scale * (range.high - zero);
  for (size_t i = 0; i < x.size(); ++i)
    if (double(x[i]) < low - scale || double(x[i]) > high + scale)
      throw Error(kBadInput, array.place,
                  fmt::format("{} is {}, but the network codes its input {} for [{:.6g}, {:.6g}]",
                              element_text(array, first + i), x[i], graph.inputs[input].name, low, high),
                  "scale the samples as the network's own data were");
}

// Returns true if the numbers differ among themselves, or are not float32. Throws if one is not finite or beyond codes.
bool check_numbers(const Graph& graph, size_t input, const NpyArray& array) {
  if (array.type != ElementType::kFloat32) return true;
  bool differ = false;
  std::optional<float> one;
  each_part(array.data, sizeof(float), [&](std::span<const uint8_t> part, size_t first) {
    std::vector<float> x(part.size() / sizeof(float));
    std::memcpy(x.data(), part.data(), part.size());
    for (size_t i = 0; i < x.size(); ++i)
      if (!std::isfinite(x[i]))
        throw Error(kBadInput, array.place, fmt::format("{} is {}", element_text(array, first + i), x[i]));
    check_quantizer(graph, input, array, x, first);
    if (!one) one = x[0];
    differ = differ || std::ranges::any_of(x, [&](float f) { return f != *one; });
  });
  return differ;
}

NpyCheck check_of(const Graph& graph, size_t input) {
  return [&graph, input](const std::string&, const NpyArray& header) { check_shape(graph, input, header); };
}

std::vector<NpyArray> arrays_of_npz(const Graph& graph, const std::string& path) {
  NpzArrays members = read_npz(path, [&](const std::string& name, const NpyArray& header) {
    const auto found = std::ranges::find(graph.inputs, name, &Binding::name);
    if (found != graph.inputs.end()) check_shape(graph, size_t(found - graph.inputs.begin()), header);
    else if (graph.inputs.size() == 1 && name == "arr_0") check_shape(graph, 0, header);
  });
  if (graph.inputs.size() == 1 && members.size() == 1 && members[0].first == "arr_0")
    members[0].first = graph.inputs[0].name;
  std::vector<NpyArray> arrays(graph.inputs.size());
  for (auto& [name, array] : members) {
    const auto found = std::ranges::find(graph.inputs, name, &Binding::name);
    if (found == graph.inputs.end())
      throw Error(kBadInput, path, fmt::format("holds an array {}, but the network has no such input", name),
                  "inputs: " + input_names(graph));
    arrays[size_t(found - graph.inputs.begin())] = std::move(array);
  }
  for (size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].type == ElementType::kNone)
      throw Error(kBadInput, path, fmt::format("holds no array for the input {}", graph.inputs[i].name),
                  "save it with numpy.savez(FILE, **{NAME: array, ...})");
  return arrays;
}

// Reads files of samples of the only input and joins them in order.
NpyArray joined(const Graph& graph, const std::vector<std::string>& files, const SampleOptions& options) {
  NpyArray all;
  for (const std::string& file : files) {
    NpyArray array = typed(graph, 0, read_npy(file, check_of(graph, 0)), options);
    stack(graph, 0, array);
    check_numbers(graph, 0, array);  // check here, where an error can name the file
    if (all.dims.empty()) {
      all = std::move(array);
      continue;
    }
    all.dims[0] += array.dims[0];
    each_part(array.data, 1, [&](std::span<const uint8_t> part, size_t) { all.data.append(part); });
    if (all.data.size() > kMostNpyBytes) throw Error(kUnsupported, file, "makes more than 4 GiB of samples");
  }
  all.place = fs::path(files.front()).parent_path().string();
  return all;
}

std::vector<NpyArray> arrays_of_folder(const Graph& graph, const std::string& path,
                                       const std::vector<std::string>& files, const SampleOptions& options) {
  std::vector<NpyArray> arrays(graph.inputs.size());
  size_t found = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string file = (fs::path(path) / (file_name_of(graph.inputs[i].name) + ".npy")).string();
    if (std::ranges::find(files, file) == files.end()) continue;
    arrays[i] = read_npy(file, check_of(graph, i));
    ++found;
  }
  if (arrays.size() == 1 && found == 0) return {joined(graph, files, options)};
  if (found < arrays.size() || found < files.size()) {
    std::string names;
    for (const Binding& b : graph.inputs) names += (names.empty() ? "" : ", ") + file_name_of(b.name) + ".npy";
    throw Error(kBadInput, path,
                fmt::format("holds {} .npy files, {} of them for inputs of the network", files.size(), found),
                "it must hold exactly " + names);
  }
  return arrays;
}

bool is_zip(const std::string& path) { return fs::path(path).extension() == ".npz"; }

}  // namespace

std::vector<int64_t> sample_dims(const Graph& graph, const Value& input) {
  const bool rows = !input.dims.empty() && (input.batched || (graph.batch == 1 && input.dims[0] == 1));
  return {input.dims.begin() + (rows ? 1 : 0), input.dims.end()};
}

Samples make_samples(const Graph& graph, std::vector<NpyArray> arrays, const SampleOptions& options) {
  Samples samples;
  bool differ = false;
  for (size_t i = 0; i < arrays.size(); ++i) {
    NpyArray array = typed(graph, i, std::move(arrays[i]), options);
    stack(graph, i, array);
    differ = check_numbers(graph, i, array) || differ;
    if (i > 0 && array.dims[0] != samples.count)
      throw Error(kBadInput, array.place,
                  fmt::format("holds {}, {} holds {}", counted(uint64_t(array.dims[0]), "sample"),
                              samples.inputs[0].place, counted(uint64_t(samples.count), "sample")),
                  "give as many for every input");
    samples.count = array.dims[0];
    samples.inputs.push_back(std::move(array));
  }
  if (!differ && !options.may_be_equal)
    throw Error(kBadInput, samples.inputs.empty() ? graph.source : samples.inputs[0].place,
                "every number is the same: no range can be found from that", "give data as the network will see");
  return samples;
}

Samples read_samples(const Graph& graph, const std::string& path, const SampleOptions& options) {
  std::error_code error;
  if (const std::vector<std::string> files = npy_files(path); !files.empty())
    return make_samples(graph, arrays_of_folder(graph, path, files, options), options);
  if (fs::is_directory(path, error)) throw Error(kBadInput, path, "holds no .npy file");
  if (is_zip(path)) return make_samples(graph, arrays_of_npz(graph, path), options);
  if (graph.inputs.size() != 1)
    throw Error(kBadInput, path,
                fmt::format("is one array, but the network has {} inputs: {}", graph.inputs.size(), input_names(graph)),
                "give a .npz or a folder with an array for each");
  return make_samples(graph, {read_npy(path, check_of(graph, 0))}, options);
}

}  // namespace nacre::tools
