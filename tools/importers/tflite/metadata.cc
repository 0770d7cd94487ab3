// Reads the metadata of a TFLite file: how inputs are normalized, and the names of classes, which are in a zip archive
// after the model. Parts that cannot be read are left out, because the network can be converted without them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "tflite_metadata_generated.h"
#include "tools/files/zip_archive.h"
#include "tools/importers/tflite/importer.h"

namespace nacre::tools::tflite {
namespace {

constexpr uint64_t kMostLabels = uint64_t{1} << 20;

const ModelMetadata* find_metadata(const Model& model) {
  if (model.metadata() == nullptr || model.buffers() == nullptr) return nullptr;
  for (const Metadata* each : *model.metadata()) {
    if (each->name() == nullptr || each->name()->str() != "TFLITE_METADATA") continue;
    if (each->buffer() >= model.buffers()->size()) return nullptr;
    const auto* data = model.buffers()->Get(each->buffer())->data();
    if (data == nullptr || data->size() < 8 || std::memcmp(data->data() + 4, "M001", 4) != 0) return nullptr;
    flatbuffers::Verifier verifier(data->data(), data->size());
    return verifier.VerifyBuffer<ModelMetadata>(nullptr) ? GetModelMetadata(data->data()) : nullptr;
  }
  return nullptr;
}

std::string numbers(const flatbuffers::Vector<float>& list) {
  return fmt::format("{}", fmt::join(std::vector<float>(list.begin(), list.end()), ","));
}

bool usable(const flatbuffers::Vector<float>* list, bool divides) {
  if (list == nullptr || list->size() == 0 || list->size() > 4096) return false;
  for (const float x : *list)
    if (!std::isfinite(x) || (divides && x == 0)) return false;
  return true;
}

const NormalizationOptions* normalization(const TensorMetadata& tensor) {
  if (tensor.process_units() == nullptr) return nullptr;
  for (const ProcessUnit* unit : *tensor.process_units()) {
    if (unit->options_type() != ProcessUnitOptions::NormalizationOptions) continue;
    const auto* options = unit->options_as_NormalizationOptions();
    if (options != nullptr && usable(options->mean(), false) && usable(options->std(), true)) return options;
  }
  return nullptr;
}

// Returns the lines of a file, separated by \n alone and without an empty line at the end.
std::string lines_of(const std::vector<uint8_t>& file) {
  std::string text;
  for (const uint8_t c : file)
    if (c != '\r') text += char(c);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns a member of the archive after the model, empty if there is none. The archive's offsets count from the begin
// of the file or of the archive.
std::vector<uint8_t> member_behind(std::span<const uint8_t> file, const std::string& name, const std::string& place) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t begin = text.find("PK\x03\x04");
  if (begin == text.npos) return {};
  for (const size_t from : {size_t(0), begin}) try {
      const std::vector<uint8_t> bytes = ZipArchive(file.subspan(from), place, "").member(name, kMostLabels);
      if (!bytes.empty()) return bytes;
    } catch (const Error&) {
      continue;
    }
  return {};
}

// Returns the labels of a tensor; "" if it has no file of labels, or none that can be read.
std::string labels_of(const TensorMetadata& tensor, std::span<const uint8_t> file, const std::string& place) {
  if (tensor.associated_files() == nullptr) return "";
  for (const AssociatedFile* each : *tensor.associated_files()) {
    const bool labels = each->type() == AssociatedFileType::TENSOR_AXIS_LABELS ||
                        each->type() == AssociatedFileType::TENSOR_VALUE_LABELS;
    if (!labels || each->name() == nullptr) continue;
    return lines_of(member_behind(file, each->name()->str(), place));
  }
  return "";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_metadata(const Model& model, std::span<const uint8_t> file,
                                                               const std::string& place, const Graph& graph) {
  std::vector<std::pair<std::string, std::string>> made;
  const ModelMetadata* const metadata = find_metadata(model);
  if (metadata == nullptr || metadata->subgraph_metadata() == nullptr || metadata->subgraph_metadata()->size() == 0)
    return made;
  const SubGraphMetadata& main = *metadata->subgraph_metadata()->Get(0);
  if (const auto* inputs = main.input_tensor_metadata(); inputs != nullptr && inputs->size() == graph.inputs.size())
    for (uint32_t i = 0; i < inputs->size(); ++i)
      if (const NormalizationOptions* n = normalization(*inputs->Get(i))) {
        made.emplace_back("input." + graph.inputs[i].name + ".mean", numbers(*n->mean()));
        made.emplace_back("input." + graph.inputs[i].name + ".std", numbers(*n->std()));
      }
  bool first = true;
  if (const auto* outputs = main.output_tensor_metadata())
    for (uint32_t i = 0; i < outputs->size() && i < graph.outputs.size(); ++i) {
      const std::string labels = labels_of(*outputs->Get(i), file, place);
      if (labels.empty()) continue;
      made.emplace_back(first ? "labels" : "labels." + graph.outputs[i].name, labels);
      first = false;
    }
  return made;
}

}  // namespace nacre::tools::tflite
