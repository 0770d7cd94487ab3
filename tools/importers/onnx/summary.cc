// Summarizes an ONNX file (shared/network_summary.h).
#include "tools/importers/onnx/file.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/shared/network_summary.h"

namespace nacre::tools {
namespace {

std::string type_of(const ::onnx::TypeProto& type) {
  if (type.has_tensor_type()) return onnx_import::type_name(type.tensor_type().elem_type());
  if (type.has_sequence_type()) return "a sequence";
  return type.has_map_type() ? "a map" : type.has_optional_type() ? "an optional" : "";
}

std::string shape_of(const ::onnx::TypeProto& type) {
  if (!type.tensor_type().has_shape()) return "";
  std::string text;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    const std::string open = dim.dim_param().empty() ? "?" : dim.dim_param();
    const bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
    text += (text.empty() ? "" : ", ") + (fixed ? std::to_string(dim.dim_value()) : open);
  }
  return "[" + text + "]";
}

NetworkTensor tensor_of(const ::onnx::ValueInfoProto& value) {
  return {value.name(), type_of(value.type()), shape_of(value.type())};
}

void count_tensor(NetworkSummary& summary, const ::onnx::TensorProto& tensor) {
  summary.count(declared_elements({tensor.dims().data(), size_t(tensor.dims_size())}));
}

void count_graph(NetworkSummary& summary, const ::onnx::GraphProto& graph);

void count_nodes(NetworkSummary& summary, const onnx_import::Nodes& nodes) {
  for (const ::onnx::NodeProto& node : nodes) {
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    ++summary.operators[own ? node.op_type() : node.domain() + "." + node.op_type()];
    for (const ::onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) count_tensor(summary, attribute.t());
      if (attribute.has_g()) count_graph(summary, attribute.g());
    }
  }
}

void count_graph(NetworkSummary& summary, const ::onnx::GraphProto& graph) {
  for (const ::onnx::TensorProto& tensor : graph.initializer()) count_tensor(summary, tensor);
  count_nodes(summary, graph.node());
}

}  // namespace

NetworkSummary summarize_onnx(std::span<const uint8_t> bytes, const std::string& path) {
  ::onnx::ModelProto model;
  onnx_import::parse_model(bytes, path, model);
  NetworkSummary summary;
  summary.format = "ONNX";
  summary.producer = model.producer_name() + (model.producer_version().empty() ? "" : " " + model.producer_version());
  for (const auto& opset : model.opset_import()) {
    const bool own = opset.domain().empty() || opset.domain() == "ai.onnx";
    summary.version += (summary.version.empty() ? "" : ", ") + (own ? std::string("opset") : opset.domain()) + " " +
                       std::to_string(opset.version());
  }
  std::set<std::string> stored;  // IR < 4 lists the weights among the inputs
  for (const ::onnx::TensorProto& tensor : model.graph().initializer()) stored.insert(tensor.name());
  for (const auto& input : model.graph().input())
    if (!stored.contains(input.name())) summary.inputs.push_back(tensor_of(input));
  for (const auto& output : model.graph().output()) summary.outputs.push_back(tensor_of(output));
  count_graph(summary, model.graph());
  for (const ::onnx::FunctionProto& function : model.functions()) count_nodes(summary, function.node());
  return summary;
}

}  // namespace nacre::tools
