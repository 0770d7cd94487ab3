#include "tools/importers/importer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/model/model.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/base/print.h"
#include "tools/files/input_file.h"
#include "tools/importers/keras/files.h"
#include "tools/importers/shared/float32_norms.h"
#include "tools/importers/shared/ignored_settings.h"
#include "tools/importers/shared/varint.h"
#include "tools/model/model_limits.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kMostNetworkBytes = uint64_t{1} << 31;  // the largest FlatBuffer and protocol buffer

bool has(std::span<const uint8_t> bytes, size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() && std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
}

// Returns whether the bytes look like an ONNX ModelProto. Protocol buffers have no magic number. A ModelProto is a
// run of fields that ends with the file, and one of them is its graph (field 7, length-delimited). The function
// accepts field numbers up to 64.
bool is_onnx(std::span<const uint8_t> bytes) {
  bool graph = false;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t tag = 0, value = 0;
    if (!read_varint(bytes, at, tag) || tag >> 3 == 0 || tag >> 3 > 64) return false;
    switch (tag & 7) {
      case 0:
        if (!read_varint(bytes, at, value)) return false;
        break;
      case 2:
        if (!read_varint(bytes, at, value) || value > bytes.size() - at) return false;
        at += size_t(value);
        graph |= tag >> 3 == 7;
        break;
      default: return false;  // ModelProto has no fixed-width field
    }
  }
  return graph;
}

// Returns whether the bytes look like a ModelProto that was cut off. They begin with its ir_version (field 1, a small
// number), and a later field runs past the end of the bytes.
bool is_cut_onnx(std::span<const uint8_t> bytes) {
  size_t at = 0;
  uint64_t tag = 0, value = 0;
  if (!read_varint(bytes, at, tag) || tag != 8 || !read_varint(bytes, at, value) || value > 1000) return false;
  for (bool fields = false; at < bytes.size(); fields = true) {
    if (!read_varint(bytes, at, tag)) return fields;
    if (tag >> 3 == 0 || tag >> 3 > 64 || ((tag & 7) != 0 && (tag & 7) != 2)) return false;
    if (!read_varint(bytes, at, value)) return fields;
    if ((tag & 7) == 0) continue;
    if (value > bytes.size() - at) return true;
    at += size_t(value);
  }
  return false;
}

// Returns whether the bytes begin a JSON object with a key. Blanks and line ends may stand before the brace and before
// the key. No ModelProto begins with {, because 0x7B is none of its tags.
bool begins_object(std::span<const uint8_t> bytes) {
  size_t at = 0;
  const auto blanks = [&] {
    while (at < bytes.size() && std::strchr(" \t\r\n", bytes[at]) != nullptr && bytes[at] != 0) ++at;
  };
  blanks();
  if (at >= bytes.size() || bytes[at++] != '{') return false;
  blanks();
  return at < bytes.size() && bytes[at] == '"';
}

// Returns whether the head may begin a file of a known format (Format), model files and Git LFS pointers included.
// For ONNX the tag of the first field suffices, because the next field may lie beyond the head.
bool begins_network(std::span<const uint8_t> head) {
  if (sniff(head) != Format::kUnknown) return true;
  size_t at = 0;
  uint64_t tag = 0;
  return read_varint(head, at, tag) && tag >> 3 != 0 && tag >> 3 <= 64 && ((tag & 7) == 0 || (tag & 7) == 2);
}

}  // namespace

Format sniff(std::span<const uint8_t> bytes) {
  if (has(bytes, 0, {kMagic, sizeof kMagic})) return Format::kModel;
  if (has(bytes, 4, "TFL3")) return Format::kTflite;
  if (has(bytes, 0, "\x89HDF\r\n\x1a\n")) return Format::kHdf5;
  if (has(bytes, 0, "PK\x03\x04")) return Format::kZip;
  if (has(bytes, 0, "version https://git-lfs")) return Format::kLfsPointer;
  if (begins_object(bytes)) return Format::kJson;
  return is_onnx(bytes) ? Format::kOnnx : Format::kUnknown;
}

std::vector<std::string> files_of_network(const std::string& path) {
  std::vector<std::string> files = {path};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return files;
  const std::vector<uint8_t> bytes = read_network(path);
  const Format format = sniff(bytes);
  if (format == Format::kJson || format == Format::kHdf5) {
    const std::string beside = keras_companion(path, format == Format::kJson);
    if (!beside.empty()) files.push_back(beside);
  }
  if (format != Format::kOnnx) return files;
  for (const std::string& file : external_files(bytes, path)) files.push_back(file);
  return files;
}

namespace {

Graph import_bytes(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& options) {
  switch (sniff(bytes)) {
    case Format::kTflite: return import_tflite(bytes, path, options);
    case Format::kOnnx: return import_onnx(bytes, path, options);
    case Format::kHdf5: return import_keras_hdf5(bytes, path, options);
    case Format::kZip: return import_keras_archive(bytes, path, options);
    case Format::kJson: return import_keras_json(bytes, path, options);
    case Format::kLfsPointer:
    case Format::kModel:
    case Format::kUnknown: break;
  }
  refuse_format(bytes, path);
}

SourceLanguage language_of(Format format) {
  if (format == Format::kTflite) return SourceLanguage::kTflite;
  return format == Format::kOnnx ? SourceLanguage::kOnnx : SourceLanguage::kKeras;
}

std::string one_line(const std::string& name) {
  std::string text = printable(name);
  std::replace(text.begin(), text.end(), '\n', '?');
  return text;
}

// Replaces control codes in the names of values, layers, nodes, inputs and outputs. A file's names may hold any bytes.
// The name that people read in a model must be the one that options, patterns and other models find.
void make_names_printable(Graph& graph) {
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const std::string found = graph.values[id].name, wanted = one_line(found);
    for (int i = 2; wanted != found && graph.values[id].name == found; ++i)
      graph.rename(ValueId(id), i == 2 ? wanted : wanted + "_" + std::to_string(i - 1));
  }
  std::unordered_set<std::string> layers;
  for (const Layer& layer : graph.layers) layers.insert(layer.name);
  for (Layer& layer : graph.layers) {
    const std::string wanted = one_line(layer.name);
    layer.source_op = one_line(layer.source_op);
    if (wanted == layer.name) continue;
    for (int i = 1; !layers.insert(layer.name = i == 1 ? wanted : wanted + "_" + std::to_string(i)).second;) ++i;
  }
  for (Node& node : graph.nodes) node.name = one_line(node.name);
  for (std::vector<Binding>* bindings : {&graph.inputs, &graph.outputs})
    for (Binding& b : *bindings) b.name = one_line(b.name);
}

}  // namespace

void refuse_format(std::span<const uint8_t> bytes, const std::string& path) {
  const Format format = sniff(bytes);
  if (format == Format::kLfsPointer)
    throw Error(kBadInput, path, "is a Git LFS pointer, not the network itself", "fetch it with: git lfs pull");
  if (format == Format::kModel)
    throw Error(kBadInput, path, "is a model file already, for the machine that it was converted for",
                "give the network that it was made from: ONNX, TFLite or Keras");
  if (is_cut_onnx(bytes))
    throw Error(kBadInput, path, "begins as an ONNX file and ends in the middle of a field: it was cut off or damaged",
                "copy or download it again");
  throw Error(kBadInput, path, bytes.empty() ? "is empty" : "is neither a TFLite nor an ONNX nor a Keras file",
              "formats are told by content: a TFLite file has TFL3 at byte 4");
}

bool is_network(const std::string& path) {
  std::vector<uint8_t> head(kHeadBytes);
  head.resize(InputFile(path).read(0, std::span(head)));
  return sniff(head) != Format::kModel && begins_network(head);
}

std::vector<uint8_t> read_network(const std::string& path) {
  return read_file(path, kMostNetworkBytes, begins_network);
}

Graph import_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& options) {
  std::set<std::string> met;
  ImportOptions recording = options;
  recording.met = &met;
  Graph graph = import_bytes(bytes, path, recording);
  if (!options.settled) require_all_met(options, met, path);
  const std::pair<std::string, std::string> keras = {"format", "keras"};
  if (!options.unfreeze.empty() && std::ranges::find(graph.metadata, keras) == graph.metadata.end())
    throw Error(kUsage, option("unfreeze"), "is about layers that a file freezes, which only Keras files say",
                "leave it out: " + option("train-layers") + " says what trains");
  find_float32_norms(graph, language_of(sniff(bytes)));
  make_names_printable(graph);
  require_names(graph);
  return graph;
}

Graph import_network(const std::string& path, const ImportOptions& options) {
  return import_network(read_network(path), path, options);
}

}  // namespace nacre::tools
