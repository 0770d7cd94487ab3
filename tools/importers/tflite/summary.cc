// Makes the summary of a network (shared/network_summary.h) from a TensorFlow Lite file.
#include <algorithm>

#include "tools/importers/shared/network_summary.h"
#include "tools/importers/tflite/file.h"

namespace nacre::tools {
namespace tflite {
namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

// Returns a tensor's name, type and shape. An open size is -1 in shape_signature.
NetworkTensor tensor_of(const SubGraph& graph, int32_t id) {
  if (id < 0 || size_t(id) >= size_of(graph.tensors())) return {"tensor " + std::to_string(id), "", ""};
  const Tensor& tensor = *graph.tensors()->Get(flatbuffers::uoffset_t(id));
  std::string shape = "[";
  const bool open = size_of(tensor.shape_signature()) == size_of(tensor.shape());
  for (size_t i = 0; i < size_of(tensor.shape()); ++i) {
    const int32_t size = (open ? tensor.shape_signature() : tensor.shape())->Get(flatbuffers::uoffset_t(i));
    shape += (i > 0 ? ", " : "") + (size < 0 ? "?" : std::to_string(size));
  }
  const std::string type = lower_case(EnumNameTensorType(tensor.type()));
  return {tensor.name() != nullptr ? tensor.name()->str() : "tensor_" + std::to_string(id),
          type.empty() ? "type " + std::to_string(int(tensor.type())) : type, shape + "]"};
}

std::string name_of_code(const OperatorCode& code) {
  const BuiltinOperator builtin = std::max(code.builtin_code(), BuiltinOperator(code.deprecated_builtin_code()));
  const std::string known = EnumNameBuiltinOperator(builtin);
  if (builtin == BuiltinOperator::CUSTOM)
    return "CUSTOM " + (code.custom_code() != nullptr ? code.custom_code()->str() : std::string("without a name"));
  return known.empty() ? "operator code " + std::to_string(int(builtin)) : known;
}

void count_graph(NetworkSummary& summary, const Model& model, const SubGraph& graph) {
  for (size_t i = 0; i < size_of(graph.operators()); ++i) {
    const uint32_t code = graph.operators()->Get(flatbuffers::uoffset_t(i))->opcode_index();
    if (code < size_of(model.operator_codes())) ++summary.operators[name_of_code(*model.operator_codes()->Get(code))];
  }
  for (size_t i = 0; i < size_of(graph.tensors()); ++i) {
    const Tensor& tensor = *graph.tensors()->Get(flatbuffers::uoffset_t(i));
    if (tensor.buffer() >= size_of(model.buffers())) continue;
    const Buffer& buffer = *model.buffers()->Get(tensor.buffer());
    if (size_of(buffer.data()) == 0 && buffer.offset() <= 1) continue;
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < size_of(tensor.shape()); ++axis)
      dims.push_back(tensor.shape()->Get(flatbuffers::uoffset_t(axis)));
    summary.count(declared_elements(dims));
  }
}

}  // namespace
}  // namespace tflite

NetworkSummary summarize_tflite(std::span<const uint8_t> bytes, const std::string& path) {
  std::vector<uint8_t> aligned;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 16 != 0) aligned.assign(bytes.begin(), bytes.end()), bytes = aligned;
  const tflite::Model& model = tflite::verified_model(bytes, path);
  NetworkSummary summary;
  summary.format = "TensorFlow Lite";
  summary.version = "schema " + std::to_string(model.version());
  if (model.description() != nullptr) summary.producer = model.description()->str();
  for (size_t i = 0; i < tflite::size_of(model.subgraphs()); ++i)
    tflite::count_graph(summary, model, *model.subgraphs()->Get(flatbuffers::uoffset_t(i)));
  if (tflite::size_of(model.subgraphs()) == 0) return summary;
  const tflite::SubGraph& graph = *model.subgraphs()->Get(0);
  for (size_t i = 0; i < tflite::size_of(graph.inputs()); ++i)
    summary.inputs.push_back(tflite::tensor_of(graph, graph.inputs()->Get(flatbuffers::uoffset_t(i))));
  for (size_t i = 0; i < tflite::size_of(graph.outputs()); ++i)
    summary.outputs.push_back(tflite::tensor_of(graph, graph.outputs()->Get(flatbuffers::uoffset_t(i))));
  return summary;
}

}  // namespace nacre::tools
