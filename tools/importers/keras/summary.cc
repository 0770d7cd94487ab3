// Makes the summary of a network (shared/network_summary.h) from a Keras file.
#include "tools/importers/keras/files.h"
#include "tools/importers/keras/importer.h"
#include "tools/importers/shared/network_summary.h"

namespace nacre::tools {
namespace keras {
namespace {

Stored stored(std::span<const uint8_t> bytes, const std::string& path) {
  switch (sniff(bytes)) {
    case Format::kZip: return stored_archive(bytes, path, {});
    case Format::kHdf5: return stored_hdf5(bytes, path, {});
    default: return stored_json(bytes, path, {});
  }
}

std::string text_at(const Json& json, const char* key) {
  const Json value = json.is_object() ? json.value(key, Json()) : Json();
  return value.is_string() ? value.text() : "";
}

std::string shape_text(const Json& config) {
  if (!config.is_object()) return "";
  const Json shape = config.value("batch_shape", config.value("batch_input_shape", Json()));
  if (!shape.is_array()) return "";
  std::string text;
  for (const Json& size : shape.elements()) text += (text.empty() ? "" : ", ") + (size.is_null() ? "?" : size.dump());
  return "[" + text + "]";
}

// Counts layers by their class, including those of models inside, and lists the outer model's inputs and outputs.
void count_layers(NetworkSummary& summary, const Json& model, int depth) {
  if (depth > kMostNested || !model.is_object()) return;
  const Json config = model.value("config", Json());
  const Json layers = config.is_array() ? config : config.is_object() ? config.value("layers", Json()) : Json();
  if (!layers.is_array()) return;
  for (const Json& layer : layers.elements()) {
    const std::string class_name = text_at(layer, "class_name");
    const Json of_layer = layer.is_object() ? layer.value("config", Json()) : Json();
    if (is_model(class_name, of_layer)) {
      count_layers(summary, layer, depth + 1);
      continue;
    }
    const std::string shape = shape_text(of_layer), type = text_at(of_layer, "dtype");
    if (depth == 0 && (class_name == "InputLayer" || (!shape.empty() && summary.inputs.empty())))
      summary.inputs.push_back({text_at(of_layer, "name"), type.empty() ? "float32" : type, shape});
    if (class_name != "InputLayer") ++summary.operators[class_name];
  }
  if (depth > 0 || !config.is_object()) return;
  for (const Reference& output : references(config.value("output_layers", Json())))
    summary.outputs.push_back({output.layer, "", ""});
}

}  // namespace
}  // namespace keras

NetworkSummary summarize_keras(std::span<const uint8_t> bytes, const std::string& path) {
  const keras::Stored stored = keras::stored(bytes, path);
  NetworkSummary summary;
  summary.format = "Keras";
  summary.producer = stored.version.empty() ? "" : "keras " + stored.version;
  for (const auto& [name, dataset] : stored.file.datasets) summary.count(declared_elements(dataset.dims));
  keras::count_layers(summary, keras::parse_config(stored.config, path), 0);
  return summary;
}

}  // namespace nacre::tools
