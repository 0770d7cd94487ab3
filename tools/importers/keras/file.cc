// Implements import_keras_archive, _hdf5 and _json. The model comes from its configuration alone, and no Python runs.
#include "tools/base/option_id.h"
#include "tools/importers/keras/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tools/files/input_file.h"
#include "tools/graph/batch.h"
#include "tools/importers/keras/files.h"
#include "tools/importers/keras/settings.h"
#include "tools/importers/keras/training.h"
#include "tools/importers/shared/ignored_settings.h"
#include "tools/importers/shared/import_end.h"
#include "tools/importers/shared/open_shape.h"

namespace nacre::tools {
namespace keras {

Importer::Importer(const std::string& name, const ImportOptions& options, uint64_t file_bytes)
    : name_(name), options_(options) {
  graph_.source = name_;
  graph_.budget = Budget(file_bytes);
}

const Converter* find_converter(const std::string& class_name) {
  for (const auto& rows :
       {dense_converters(), window_converters(), transpose_converters(), pool_converters(), activation_converters(),
        norm_converters(), move_converters(), merge_converters(), recurrent_converters(), attention_converters(),
        volume_converters(), image_converters(), contrast_converters(), encode_converters(), signal_converters()})
    for (const Converter& row : rows)
      if (class_name == row.class_name) return &row;
  return nullptr;
}

int Importer::layer_of(const Call& call) {
  const auto [at, fresh] = layers_.try_emplace(call.path, 0);
  if (fresh) {
    Layer layer = {call.path, call.class_name, {}};
    layer.source_policy = source_policy(call.config);
    at->second = graph_.add_layer(std::move(layer));
  }
  return at->second;
}

namespace {

// Returns a size in the shape of an input as an integer. Throws if it is none.
int64_t size_of(const Json& size, const std::string& file, const std::string& input) {
  try {
    return size.get<int64_t>();
  } catch (const JsonError&) {
    throw Error(kBadInput, file, fmt::format("input {} has a size that is no integer: {}", input, size.dump()));
  }
}

ElementType type_of(const std::string& dtype) {
  return dtype == "int32" || dtype == "int16" ? ElementType::kInt32
         : dtype == "int64"                   ? ElementType::kInt64
         : dtype == "int8"                    ? ElementType::kInt8
         : dtype == "uint8"                   ? ElementType::kUint8
         : dtype == "bool"                    ? ElementType::kBool
                                              : ElementType::kFloat32;
}

}  // namespace

// Makes a stand-in for the output of a layer that is not supported, so that the layers after it are checked too. The
// file gives its shape at the layer that reads it; returns kNone if the file has none that is valid.
ValueId Importer::stand_in(const Json& shape, const Json& dtype) {
  Value v;
  v.name = "unknown";
  v.type = type_of(dtype.is_string() ? dtype.text() : "float32");
  if (!shape.is_array() || shape.empty() || shape.size() > size_t(kMaxRank)) return kNone;
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool batch = i == 0 && shape.at(i).is_null();
    if (!batch && !shape.at(i).is_number_integer()) return kNone;
    const int64_t size = batch ? graph_.batch : shape.at(i).get<int64_t>();
    if (size < 1 || size > kMostSize) return kNone;
    v.dims.push_back(size);
    elements = std::min(elements * size, int64_t{1} << 32);
  }
  return elements > INT32_MAX ? kNone : graph_.add(std::move(v));
}

void Importer::problem(const std::string& text) {
  const std::string prefix = name_ + ": ";
  const std::string line = text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  if (said_.insert(line).second) problems_.push_back(line.substr(0, line.find('\n')));
}

// Puts the sizes of --shape in place of those that the file leaves open. The first axis gives the batch.
void Importer::give_shapes(std::vector<std::pair<std::string, Json*>> inputs) {
  asked_batch_ = options_.batch;
  if (options_.shapes.empty()) return;
  std::vector<OpenShape> open;
  for (const auto& [name, shape] : inputs) {
    OpenShape& of = open.emplace_back();
    of.name = name;
    if (!shape->is_array()) continue;
    of.axes.emplace();
    for (const Json& size : *shape)
      of.axes->push_back({size.is_null() ? -1 : size_of(size, name_, name), of.axes->empty() ? "batch" : ""});
  }
  fix_open_axes(open, options_.shapes, name_);
  for (size_t k = 0; k < open.size(); ++k) {
    if (!open[k].axes) continue;
    Json sizes = Json::array();
    for (size_t i = 0; i < open[k].axes->size(); ++i) {
      const int64_t size = (*open[k].axes)[i].size;
      const bool batch = i == 0 && (!inputs[k].second->is_array() || inputs[k].second->at(i).is_null());
      sizes.push_back(batch || size < 0 ? Json() : Json(size));
      if (!batch || size < 0) continue;
      if (asked_batch_ > 0 && asked_batch_ != size && !options_.batch_if_open)
        throw Error(kUsage, name_, "is given two batches");
      if (size < 1 || size > kMostSize)
        throw Error(kUsage, name_, option("shape") + ": a batch of " + std::to_string(size));
      asked_batch_ = int(size);
    }
    *inputs[k].second = std::move(sizes);
  }
}

// Reads the batch from the first axis of an input. The axis is open in every input, or has one size in all.
void Importer::find_batch(const Json& shape, const std::string& input) {
  const bool open = shape.at(size_t(0)).is_null();
  const int64_t size = open ? 0 : size_of(shape.at(size_t(0)), name_, input);
  if (!open && (size < 1 || size > kMostSize)) throw Error(kBadInput, name_, "input " + input + " has no batch");
  if (graph_.inputs.empty()) open_batch_ = open, batch_ = size;
  if (open != open_batch_ || size != batch_)
    problem("inputs of different batches: save the model with one batch size for all");
  if (asked_batch_ > 0 && !open && asked_batch_ != size && !options_.batch_if_open)
    throw Error(kUsage, name_, "has a batch of " + std::to_string(size) + " fixed in it",
                "leave out " + option("batch"));
  graph_.batch = open ? std::max(asked_batch_, 1) : int(size);
}

namespace {

// Returns an input's shape as --shape takes it: [null, null, 8] -> "1xSIZEx8".
std::string as_given(const Json& shape) {
  std::string text;
  for (const Json& size : shape) {
    const std::string number = size.is_null() ? "SIZE" : std::to_string(size.get<int64_t>());
    text += text.empty() ? size.is_null() ? "1" : number : "x" + number;
  }
  return text;
}

}  // namespace

ValueId Importer::add_input(const Entry& entry, const Json& shape) {
  if (!shape.is_array() || shape.empty() || shape.size() > size_t(kMaxRank)) {
    problem("input " + entry.name + ": has no shape: build the model before it is saved");
    return kNone;
  }
  if (entry.class_name == "InputLayer")
    for (const std::string& line : refused_settings(*this, entry.class_name, entry.name, entry.config)) problem(line);
  find_batch(shape, entry.name);
  Value v;
  v.name = entry.name;
  Json type = entry.config.value("dtype", Json("float32"));
  const std::string text = type.is_string() ? type.text() : "float32";
  v.type = type_of(text);
  if (text == "string") problem("input " + entry.name + ": its type " + text + " is not supported");
  v.dims.push_back(graph_.batch);
  int64_t elements = graph_.batch;
  for (size_t i = 1; i < shape.size(); ++i) {
    int64_t size = shape.at(i).is_null() ? 0 : size_of(shape.at(i), name_, entry.name);
    if (shape.at(i).is_null()) {
      problem("input " + entry.name + ": axis " + std::to_string(i) + " has no fixed size: give it one, as " +
              option("shape", entry.name) + "=" + as_given(shape));
      size = 1;
    }
    if (size < 1 || size > kMostSize) throw Error(kBadInput, name_, "input " + entry.name + " has a size of no use");
    v.dims.push_back(size);
    elements = std::min(elements * size, int64_t{1} << 32);
  }
  if (elements > INT32_MAX) {
    problem("input " + entry.name + ": is too large");
    return kNone;
  }
  const ValueId id = graph_.add(std::move(v));
  graph_.inputs.push_back({entry.name, id, ""});
  return id;
}

namespace {

// Names each output after its layer. If a layer gives several outputs, or one twice, the first has the layer's name.
// The others get the next suffix _1, _2, .. that does not make the name of a layer.
void name_outputs(std::vector<Binding>& outputs) {
  std::map<std::string, int> numbers;
  std::set<std::string> taken, layers;
  for (const Binding& b : outputs) layers.insert(b.name);
  for (Binding& b : outputs) {
    std::string name = b.name;
    while ((name != b.name && layers.contains(name)) || !taken.insert(name).second)
      name = b.name + "_" + std::to_string(++numbers[b.name]);
    b.name = std::move(name);
  }
}

}  // namespace

// Refuses an output with a mask, from Embedding(mask_zero) or Masking: Keras counts no loss for the steps that it
// hides.
void Importer::judge_masks() {
  for (const Binding& output : graph_.outputs)
    if (masks_.contains(output.value) && !taken_.contains(output.value) && !goes_on_without(options_, "loss.mask"))
      problem(fmt::format("{}: its output carries a mask, by which Keras leaves steps out of the loss; {}", output.name,
                          how_to_ignore("loss.mask")));
}

Graph Importer::run(const Json& entry, const Weights& weights, const std::string& version) {
  version_ = version;
  require_patterns();
  all_frozen_ = file_freezes(entry.at("config"), false);
  try {
    if (saved_ != nullptr && saved_->wants_order()) {
      std::vector<std::string> trainable;
      list_trainable(entry, weights, false, trainable);
      saved_->set_order(trainable);
    }
    static_cast<void>(model(entry, weights, {}, ""));
  } catch (const JsonError& error) {
    throw Error(kBadInput, name_, std::string("its configuration: ") + error.what());
  }
  if (trains() && !options_.settled) judge_masks();
  if (options_.train) require_one_form();
  report_problems(name_, problems_);
  require_frozen();
  if (graph_.outputs.empty()) throw Error(kBadInput, name_, "has no output");
  name_outputs(graph_.outputs);
  for (Binding& b : graph_.outputs) {
    const auto read = [&](const Binding& input) { return input.value == b.value; };
    if (!std::any_of(graph_.inputs.begin(), graph_.inputs.end(), read)) continue;
    Value v;
    v.name = b.name;
    v.type = graph_.values[size_t(b.value)].type;
    Node node;
    node.op = Op::kCopy;
    node.name = b.name;
    node.layer = graph_.add_layer({b.name, "Identity", {}});
    node.inputs = {b.value};
    node.outputs = {b.value = graph_.add(std::move(v))};
    infer_shapes(graph_, node);
    graph_.nodes.push_back(std::move(node));
  }
  name_image_inputs(graph_);
  finish_training(entry);
  graph_.metadata.emplace_back("format", "keras");
  if (!version.empty() && version.size() < 64) graph_.metadata.emplace_back("keras_version", version);
  mark_batched(graph_, open_batch_);
  return std::move(graph_);
}

namespace {

std::string root_text(const Hdf5File& file, const std::string& key) {
  const auto root = file.texts.find("");
  if (root == file.texts.end()) return "";
  const auto found = root->second.find(key);
  return found == root->second.end() || found->second.size() != 1 ? "" : found->second[0];
}

// Returns the settings that the model was compiled with; an .h5 file has them in its attribute training_config.
Json training_of(const Json& entry, const Hdf5File& file, const std::string& name) {
  if (entry.contains("compile_config")) return entry.at("compile_config");
  const std::string text = root_text(file, "training_config");
  return text.empty() ? Json() : parse_config(text, name);
}

// Returns the groups of the file that are not read: those of the optimizer's state, unless the import is for training.
std::vector<std::string> skipped(const ImportOptions& options) {
  return options.train ? std::vector<std::string>() : kOptimizerGroups;
}

SavedTraining saved_training(const Json& entry, const Hdf5File& file, const std::string& name,
                             const ImportOptions& options) {
  try {
    return SavedTraining(training_of(entry, file, name), file, options);
  } catch (const JsonError& error) {
    throw Error(kBadInput, name, std::string("its training settings: ") + error.what());
  }
}

std::string version_of(const Json& entry) {
  const bool says = entry.is_object() && entry.contains("keras_version") && entry.at("keras_version").is_string();
  return says ? entry.at("keras_version").text() : "";
}

}  // namespace

Graph import_stored(const Stored& stored, const std::string& name, const ImportOptions& options) {
  const Json entry = parse_config(stored.config, name);
  if (!entry.is_object() || !entry.contains("class_name") || !entry.contains("config"))
    throw Error(kBadInput, name, "its configuration is none of a Keras model");
  Importer importer(name, options, stored.bytes);
  if (options.train) importer.resume(saved_training(entry, stored.file, name, options));
  return importer.run(entry, Weights(stored.file, name), stored.version);
}

Stored stored_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  const Archive archive = read_archive(bytes, name);
  Stored stored = {archive.config, "", read_hdf5(archive.weights, name + ": model.weights.h5", skipped(options)),
                   bytes.size()};
  if (!archive.metadata.empty()) stored.version = version_of(parse_config(archive.metadata, name + ": metadata.json"));
  return stored;
}

Stored stored_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  Stored stored = {"", "", read_hdf5(bytes, name, skipped(options)), bytes.size()};
  stored.config = root_text(stored.file, "model_config");
  stored.version = root_text(stored.file, "keras_version");
  if (!stored.config.empty()) return stored;
  const std::string beside = keras_companion(name, false);
  if (beside.empty())
    throw Error(kUnsupported, name, "holds weights alone, and no model",
                "put the model's configuration (model.to_json()) beside it, as NAME.json or config.json");
  const std::vector<uint8_t> text = read_file(beside, uint64_t{64} << 20);
  stored.config.assign(text.begin(), text.end());
  if (stored.version.empty()) stored.version = version_of(parse_config(stored.config, beside));
  return stored;
}

Stored stored_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  const std::string beside = keras_companion(name, true);
  if (beside.empty())
    throw Error(kUnsupported, name, "is a configuration without weights",
                "put them beside it, as NAME.weights.h5 or model.weights.h5");
  const std::vector<uint8_t> weights = read_file(beside);
  Stored stored = {std::string(bytes.begin(), bytes.end()), "", read_hdf5(weights, beside, skipped(options)),
                   weights.size()};
  stored.version = version_of(parse_config(stored.config, name));
  return stored;
}

}  // namespace keras

std::string keras_companion(const std::string& path, bool weights) {
  namespace fs = std::filesystem;
  const fs::path file(path), folder = file.parent_path();
  std::string stem = file.filename().string();
  stem.resize(stem.find('.') == stem.npos ? stem.size() : std::min(stem.rfind('.'), stem.size()));
  if (stem.ends_with(".weights")) stem.resize(stem.size() - 8);
  const std::vector<std::string> names =
      weights ? std::vector<std::string>{stem + ".weights.h5", stem + ".h5", "model.weights.h5"}
              : std::vector<std::string>{stem + ".json", stem + ".config.json", "config.json"};
  for (const std::string& name : names) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) return (folder / name).string();
  }
  return "";
}

Graph import_keras_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return keras::import_stored(keras::stored_archive(bytes, name, options), name, options);
}

Graph import_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return keras::import_stored(keras::stored_hdf5(bytes, name, options), name, options);
}

Graph import_keras_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  return keras::import_stored(keras::stored_json(bytes, name, options), name, options);
}

}  // namespace nacre::tools
