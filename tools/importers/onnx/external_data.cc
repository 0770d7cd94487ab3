// Makes an ONNX file that holds all its tensors itself, from one whose tensors lie in other files.
#include <climits>
#include <filesystem>

#include <onnx/onnx_pb.h>

#include "tools/base/error.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/shared/stored_numbers.h"

namespace nacre::tools {
namespace onnx_import {
namespace {

class TakeInside {
 public:
  explicit TakeInside(const std::string& directory) : directory_(directory) {}

  bool run(::onnx::ModelProto& model) {
    graph(*model.mutable_graph());
    for (::onnx::FunctionProto& function : *model.mutable_functions())
      for (::onnx::NodeProto& each : *function.mutable_node()) node(each);
    return found_;
  }

 private:
  void graph(::onnx::GraphProto& graph) {
    for (::onnx::TensorProto& each : *graph.mutable_initializer()) tensor(each);
    for (::onnx::NodeProto& each : *graph.mutable_node()) node(each);
  }

  void node(::onnx::NodeProto& node) {
    for (::onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) tensor(*attribute.mutable_t());
      for (::onnx::TensorProto& each : *attribute.mutable_tensors()) tensor(each);
      if (attribute.has_g()) graph(*attribute.mutable_g());
      for (::onnx::GraphProto& each : *attribute.mutable_graphs()) graph(each);
    }
  }

  void tensor(::onnx::TensorProto& tensor) {
    if (tensor.data_location() != ::onnx::TensorProto::EXTERNAL) return;
    const std::vector<uint8_t> data = external_data(tensor, directory_);
    tensor.set_raw_data(data.data(), data.size());
    tensor.clear_external_data();
    tensor.clear_data_location();
    found_ = true;
  }

  const std::string directory_;
  bool found_ = false;
};

}  // namespace
}  // namespace onnx_import

std::vector<uint8_t> with_data_inside(std::span<const uint8_t> onnx, const std::string& name) {
  ::onnx::ModelProto model;
  const std::vector<uint8_t> as_it_is(onnx.begin(), onnx.end());
  if (onnx.size() > size_t(INT_MAX) || !model.ParsePartialFromArray(onnx.data(), int(onnx.size()))) return as_it_is;
  const std::string directory = std::filesystem::path(name).parent_path().string();
  if (!onnx_import::TakeInside(directory.empty() ? "." : directory).run(model)) return as_it_is;
  if (model.ByteSizeLong() > size_t(INT_MAX))
    throw Error(kUnsupported, name, "is larger than 2 GiB with the data beside it, which one file cannot hold");
  std::vector<uint8_t> bytes(model.ByteSizeLong());
  model.SerializePartialToArray(bytes.data(), int(bytes.size()));
  return bytes;
}

}  // namespace nacre::tools
