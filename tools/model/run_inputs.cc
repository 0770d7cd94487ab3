#include "tools/model/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "engine/model/tensor_info.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/files/convert_elements.h"
#include "tools/files/input_file.h"
#include "tools/files/media.h"
#include "tools/files/npy.h"
#include "tools/files/resize_picture.h"
#include "tools/model/golden.h"

namespace nacre::tools {
namespace {

// One input of the program: its tensor, its name, and how many rows a run takes.
struct Target {
  const LoadedModel& model;
  uint32_t id;
  std::string name;
  uint32_t batch;

  const TensorRecord& record() const { return model.model().tensors()[id]; }
  std::vector<int64_t> dims() const { return {record().dims, record().dims + record().rank}; }
  std::string text() const {
    return fmt::format("the input {} is {} {}", name, name_of(record().element), dims_text(dims()));
  }
};

int64_t elements_of(const TensorRecord& record) {
  int64_t product = 1;
  for (int i = 0; i < record.rank; ++i) product *= record.dims[i];
  return product;
}

struct Samples {
  ElementBytes data;
  uint64_t runs;
  uint32_t last_rows;
};

// Splits `rows` rows into runs and last_rows. Only a batched tensor can have fewer rows than compiled.
Samples split_rows(const Target& target, const std::string& file, uint64_t rows) {
  const auto rest = uint32_t(rows % target.batch);
  if (rows == 0) throw Error(kBadInput, file, "holds no sample");
  if (rest != 0 && (target.record().flags & kBatched) == 0)
    throw Error(kBadInput, file, fmt::format("holds {} rows", rows),
                fmt::format("this program takes {} at a time: give a multiple of that", target.batch));
  return {{}, (rows + target.batch - 1) / target.batch, rest};
}

Samples split_shape(const Target& target, const std::string& file, const std::vector<int64_t>& given) {
  const std::vector<int64_t> dims = target.dims();
  const auto tail = [](const std::vector<int64_t>& d) { return std::span(d).subspan(1); };
  const bool rows = has_rows(target.record(), target.batch);
  if (rows && given.size() == dims.size() && std::ranges::equal(tail(given), tail(dims)))
    return split_rows(target, file, uint64_t(given[0]));
  if (given == dims) return {{}, 1, 0};
  if (given.size() == dims.size() + 1 && std::ranges::equal(tail(given), dims)) {
    if (given[0] == 0) throw Error(kBadInput, file, "holds no sample");
    return {{}, uint64_t(given[0]), 0};
  }
  throw Error(kBadInput, file, fmt::format("holds {}, but {}", dims_text(given), target.text()),
              "give that shape, or several samples of it stacked on axis 0");
}

ElementBytes to_type(const Target& target, const std::string& file, NpyArray array, const InputOptions& options) {
  array.place = file;
  const ElementType wanted = target.record().element;
  const std::optional<Scales> scales = target.model.scales(target.id);
  const bool codes = scales && array.type == ElementType::kFloat32 && is_code_of_reals(wanted);
  if (options.quantize && codes) return quantized(array, wanted, scales->scale[0], scales->zero[0]);
  if (array.type == wanted) return std::move(array.data);
  const bool small = wanted == ElementType::kFloat16 || wanted == ElementType::kBfloat16;
  if (options.quantize && array.type == ElementType::kFloat32 && (small || wanted == ElementType::kFloat64))
    return rounded(array, wanted);
  if (options.cast) return cast(array, wanted);
  const std::string fact = fmt::format("holds {}, but {}", name_of(array.type), target.text());
  if (codes)
    throw Error(kBadInput, file, fmt::format("{}, {}", fact, quantizer_text(scales->scale[0], scales->zero[0])),
                "give codes, or have them made with " + option("quantize-inputs"));
  if (small && array.type == ElementType::kFloat32)
    throw Error(kBadInput, file, fact, "give that type, or have the numbers rounded with " + option("quantize-inputs"));
  throw Error(kBadInput, file, fact, "give that type, or, where no number changes by it, " + option("cast-inputs"));
}

// Returns the extension by the file's name; for standard input by its first bytes.
std::string extension_of(const std::string& file) {
  if (file != kStandardStream) return std::filesystem::path(file).extension().string();
  std::vector<uint8_t> head(6);
  head.resize(InputFile(file).read(0, head));
  return std::string(head.begin(), head.end()) == "\x93NUMPY" ? ".npy" : ".bin";
}

Samples samples_of(const Target& target, const std::string& place, NpyArray array, const InputOptions& options) {
  Samples samples = split_shape(target, place, array.dims);
  samples.data = to_type(target, place, std::move(array), options);
  return samples;
}

// ---- Pictures and sounds ----

// Returns the numbers of a list in the model's metadata, or none if the metadata has no such list.
std::vector<float> listed_numbers(const Target& target, const std::string& what) {
  const char* at = target.model.model().metadata(fmt::format("input.{}.{}", target.name, what).c_str());
  std::vector<float> numbers;
  while (at != nullptr && *at != 0) {
    char* end = nullptr;
    numbers.push_back(std::strtof(at, &end));
    if (end == at) return {};
    at = *end == ',' ? end + 1 : end;
  }
  return numbers;
}

// Makes the network's input from raw numbers x: (x - mean) / std, per channel or for all, then its codes. Channels
// change fastest.
ElementBytes normalised(const Target& target, const std::string& file, std::span<const float> raw, size_t channels,
                        bool required) {
  const std::vector<float> mean = listed_numbers(target, "mean"), std = listed_numbers(target, "std");
  const auto fits = [&](const std::vector<float>& list) { return list.size() == 1 || list.size() == channels; };
  const bool known = fits(mean) && fits(std);
  if (!known && required)
    throw Error(kUsage, file, fmt::format("{}, and the model does not say which numbers pixels become", target.text()),
                fmt::format("convert the network with {normalize} {}=MEAN,STD, or give a .npy", target.name,
                            fmt::arg("normalize", option("normalize"))));
  std::vector<float> reals(raw.begin(), raw.end());
  for (size_t i = 0; known && i < reals.size(); ++i)
    reals[i] = (reals[i] - mean[mean.size() == 1 ? 0 : i % channels]) / std[std.size() == 1 ? 0 : i % channels];
  NpyArray array = {ElementType::kFloat32, {int64_t(reals.size())}, {}};
  array.data.resize(reals.size() * sizeof(float));
  std::memcpy(array.data.data(), reals.data(), array.data.size());
  return to_type(target, file, std::move(array), {.files = {}, .quantize = true, .seed = {}});
}

struct PictureShape {
  int64_t height, width, channels;
  bool channels_first;
};
PictureShape picture_shape(const Target& target, const std::string& file) {
  std::vector<int64_t> dims = target.dims();
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  TensorInfo info;
  const bool told = target.model.model().input(target.name.c_str(), &info).ok();
  const std::string axes = told ? info.axes : "";
  if (dims.size() == 3) {
    const bool last = axes.ends_with('C') || (axes.empty() && (dims[2] == 1 || dims[2] == 3));
    const PictureShape shape =
        last ? PictureShape{dims[0], dims[1], dims[2], false} : PictureShape{dims[1], dims[2], dims[0], true};
    if (shape.channels == 1 || shape.channels == 3) return shape;
  }
  throw Error(kUsage, file, fmt::format("is a picture, and {}", target.text()),
              "give a picture to an input of 1 or 3 channels, one sample a run");
}

Samples read_picture_samples(const Target& target, const std::string& file, bool resize) {
  const PictureShape shape = picture_shape(target, file);
  const NpyArray picture = read_picture(file, int(shape.channels));
  const bool other_size = picture.dims[0] != shape.height || picture.dims[1] != shape.width;
  if (other_size && !resize)
    throw Error(kBadInput, file,
                fmt::format("has {} x {} pixels, and the input {} takes {} x {}", picture.dims[1], picture.dims[0],
                            target.name, shape.width, shape.height),
                "scale it to that first, or with " + option("resize"));
  const std::vector<float> raw = other_size ? resize_picture(picture, shape.height, shape.width)
                                            : std::vector<float>(picture.data.begin(), picture.data.end());
  const auto c = size_t(shape.channels), pixels = raw.size() / c;
  Samples samples = {{}, 1, 0};
  if (target.record().element != ElementType::kUint8) {
    samples.data = normalised(target, file, raw, c, true);
  } else {
    samples.data.resize(raw.size());
    std::ranges::transform(raw, samples.data.begin(), [](float x) { return uint8_t(std::nearbyint(x)); });
  }
  if (!shape.channels_first || c == 1) return samples;
  const size_t bytes = samples.data.size() / raw.size();
  const std::span<const uint8_t> together = samples.data;
  std::vector<uint8_t> planes(together.size());
  for (size_t i = 0; i < pixels; ++i)
    for (size_t k = 0; k < c; ++k)
      std::memcpy(&planes[(k * pixels + i) * bytes], &together[(i * c + k) * bytes], bytes);
  samples.data = std::move(planes);
  return samples;
}

// Gives the 16-bit samples as they are to an int16 input; else as numbers in [-1, 1), normalised if the model says how.
Samples read_sound_samples(const Target& target, const std::string& file) {
  const Sound sound = read_sound(file);
  const int64_t wanted = elements_of(target.record());
  if (int64_t(sound.pcm.size()) != wanted)
    throw Error(kBadInput, file,
                fmt::format("has {} samples at {} Hz, and the input {} takes {}", sound.pcm.size(), sound.rate,
                            target.name, wanted),
                "cut or fill it to that length first");
  Samples samples = {{}, 1, 0};
  if (target.record().element == ElementType::kInt16) {
    samples.data.resize(sound.pcm.size() * sizeof(int16_t));
    std::memcpy(samples.data.data(), sound.pcm.data(), samples.data.size());
    return samples;
  }
  std::vector<float> raw(sound.pcm.size());
  std::ranges::transform(sound.pcm, raw.begin(), [](int16_t x) { return float(x) / 32768; });
  samples.data = normalised(target, file, raw, 1, false);
  return samples;
}

Samples read_samples(const Target& target, const std::string& file, const InputOptions& options) {
  if (is_picture(file)) return read_picture_samples(target, file, options.resize);
  if (is_sound(file)) return read_sound_samples(target, file);
  const std::string extension = extension_of(file);
  const TensorRecord& record = target.record();
  if (extension == ".npy") {
    NpyArray array =
        read_npy(file, [&](const std::string&, const NpyArray& header) { split_shape(target, file, header.dims); });
    return samples_of(target, file, std::move(array), options);
  }
  if (extension != ".bin")
    throw Error(
        kUsage, file, "is neither .npy, .npz nor .bin, and neither picture nor sound",
        "give an array as .npy, arrays by the inputs' names as .npz, the bytes alone as .bin, .png, .jpg or .wav");
  std::vector<uint8_t> bytes = read_file(file);
  const bool rows = has_rows(record, target.batch);
  const uint64_t unit = rows ? record.bytes / target.batch : record.bytes;
  if (bytes.empty() || bytes.size() % unit != 0)
    throw Error(
        kBadInput, file,
        fmt::format("holds {} bytes, but {}: {} bytes", grouped(bytes.size()), target.text(), grouped(record.bytes)),
        "give the elements alone, little-endian, of one sample or of several");
  Samples samples = rows ? split_rows(target, file, bytes.size() / unit) : Samples{{}, bytes.size() / unit, 0};
  samples.data = std::move(bytes);
  return samples;
}

std::string list_inputs(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Returns the index of the input that NAME=FILE is for, and stores FILE in `file`.
size_t find_input(const std::vector<std::string>& names, const std::string& argument, std::string* file) {
  const size_t equals = argument.find('=');
  *file = equals == std::string::npos ? argument : argument.substr(equals + 1);
  const std::string name = argument.substr(0, equals);
  const auto found = std::ranges::find(names, name);
  if (equals != std::string::npos && found != names.end()) return size_t(found - names.begin());
  if (equals == std::string::npos && names.size() == 1) return 0;
  if (equals == std::string::npos)
    throw Error(kUsage, option("input", argument), "the model has several inputs",
                "write NAME=FILE; inputs: " + list_inputs(names));
  throw Error(kUsage, option("input", argument), fmt::format("the model has no input {}", name),
              "inputs: " + list_inputs(names));
}

// The data that a user gave for an input: a file, or the array of a .npz that has the input's name.
struct Given {
  std::string file;
  std::optional<NpyArray> array;

  bool none() const { return file.empty(); }
};

void give(std::vector<Given>& given, size_t input, const std::string& argument, const std::string& name, Given it) {
  if (!given[input].none()) throw Error(kUsage, option("input", argument), fmt::format("{} is given twice", name));
  given[input] = std::move(it);
}

// Gives the arrays of FILE.npz to the inputs of the same names.
void give_archive(std::vector<Given>& given, const std::vector<std::string>& names, const std::string& file) {
  for (auto& [name, array] : read_npz(file)) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      throw Error(kUsage, file, fmt::format("holds {}, which is no input of the model", in_quotes(name)),
                  "inputs: " + list_inputs(names));
    give(given, size_t(found - names.begin()), file, name, {file + ": " + name, std::move(array)});
  }
}

std::vector<Given> given_inputs(const std::vector<std::string>& names, const InputOptions& options) {
  std::vector<Given> given(names.size());
  for (const std::string& argument : options.files) {
    if (argument.ends_with(".npz") && argument.find('=') == std::string::npos) {
      give_archive(given, names, argument);
      continue;
    }
    std::string file;
    const size_t input = find_input(names, argument, &file);
    if (file.empty()) throw Error(kUsage, option("input", argument), "no file is named", "write NAME=FILE");
    give(given, input, argument, names[input], {file, std::nullopt});
  }
  return given;
}

}  // namespace

std::span<const uint8_t> RunInputs::sample(uint32_t input, uint64_t run, uint64_t bytes) const {
  const std::span<const uint8_t> all = data[input];
  data[input].passed(size_t(bytes));
  return all.subspan(size_t(run * bytes), size_t(std::min<uint64_t>(bytes, all.size() - run * bytes)));
}

bool has_rows(const TensorRecord& record, uint32_t batch) {
  return record.rank > 0 && ((record.flags & kBatched) != 0 || (batch == 1 && record.dims[0] == 1));
}

RunInputs read_inputs(const LoadedModel& model, uint32_t program, const InputOptions& options) {
  const ProgramView view = model.model().program(program);
  const std::vector<std::string> names = model.program_names(program).inputs;
  std::vector<Given> given = given_inputs(names, options);
  if (options.seed && std::ranges::none_of(given, &Given::none))
    throw Error(kUsage, option("seed"), "is for inputs without a file, and every input has one", "leave it out");
  if (options.resize && std::ranges::none_of(given, [](const Given& g) { return is_picture(g.file); }))
    throw Error(kUsage, option("resize"), "is about pictures, and none is given", "leave it out");
  RunInputs inputs = {.data = {}, .runs = 1, .batch = view.batch, .last_rows = 0};
  const std::vector<uint8_t> seeded =
      options.seed ? seeded_inputs(model, program, *options.seed) : std::vector<uint8_t>();
  std::string first;  // the file that set the number of samples
  for (size_t i = 0, at = 0; i < names.size(); ++i) {
    const Target target = {model, view.inputs[i], names[i], view.batch};
    const auto bytes = size_t(target.record().bytes);
    if (given[i].none() && !options.seed)
      throw Error(kUsage, model.path(), fmt::format("nothing is given for an input: {}", target.text()),
                  fmt::format("add {input} {}=FILE.npy, or {seed_n} for random numbers", names[i],
                              fmt::arg("input", option("input")), fmt::arg("seed_n", option("seed", "N"))));
    Samples samples = {{}, 1, 0};
    if (given[i].none()) {
      samples.data.append(std::span(seeded).subspan(at, bytes));
    } else {
      samples = given[i].array ? samples_of(target, given[i].file, std::move(*given[i].array), options)
                               : read_samples(target, given[i].file, options);
    }
    at += bytes;
    if (i > 0 && (samples.runs != inputs.runs || samples.last_rows != inputs.last_rows))
      throw Error(kBadInput, given[i].none() ? option("seed") : given[i].file,
                  fmt::format("holds another number of samples than {}", first), "give as many for every input");
    first = given[i].none() ? option("seed") : given[i].file;
    inputs.runs = samples.runs;
    inputs.last_rows = samples.last_rows;
    inputs.data.push_back(std::move(samples.data));
  }
  return inputs;
}

RunInputs stack_inputs(const LoadedModel& model, uint32_t program, const std::vector<NpyArray>& arrays, bool quantize) {
  const ProgramView view = model.model().program(program);
  const std::vector<std::string> names = model.program_names(program).inputs;
  RunInputs inputs = {.data = {}, .runs = 1, .batch = view.batch, .last_rows = 0};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Target target = {model, view.inputs[i], names[i], view.batch};
    const Samples samples = split_shape(target, arrays[i].place, arrays[i].dims);
    if (i > 0 && (samples.runs != inputs.runs || samples.last_rows != inputs.last_rows))
      throw Error(kBadInput, arrays[i].place, fmt::format("holds another number of samples than {}", arrays[0].place),
                  "give as many for every input");
    inputs.runs = samples.runs;
    inputs.last_rows = samples.last_rows;
    inputs.data.push_back(to_type(target, arrays[i].place, arrays[i], {.files = {}, .quantize = quantize, .seed = {}}));
  }
  return inputs;
}

}  // namespace nacre::tools
