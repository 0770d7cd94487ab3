// Builds small ONNX files in memory.
//
//   OnnxBuilder b;
//   b.input("x", {1, 3, 8, 8});
//   b.floats("w", {4, 3, 3, 3}, weights);
//   b.node("Conv", {"x", "w"}, {"y"}).ints("pads", {1, 1, 1, 1});
//   b.output("y");
//   const std::vector<uint8_t> file = b.finish();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace nacre::tools {

class OnnxNode {
 public:
  explicit OnnxNode(::onnx::NodeProto* proto) : proto_(proto) {}

  OnnxNode& integer(const std::string& name, int64_t value);
  OnnxNode& real(const std::string& name, float value);
  OnnxNode& text(const std::string& name, const std::string& value);
  OnnxNode& ints(const std::string& name, const std::vector<int64_t>& values);
  OnnxNode& floats(const std::string& name, const std::vector<float>& values);
  OnnxNode& texts(const std::string& name, const std::vector<std::string>& values);
  OnnxNode& tensor(const std::string& name, const ::onnx::TensorProto& value);
  OnnxNode& refer(const std::string& name, const std::string& of_function);  // sets ref_attr_name
  OnnxNode& domain(const std::string& name);

 private:
  ::onnx::AttributeProto& add(const std::string& name, ::onnx::AttributeProto::AttributeType type);

  ::onnx::NodeProto* proto_;
};

class OnnxBuilder {
 public:
  explicit OnnxBuilder(int opset = 17);

  // Adds an input. `symbols` may name its axes; an axis with the name "" has its size in `dims`.
  void input(const std::string& name, const std::vector<int64_t>& dims, const std::vector<std::string>& symbols = {},
             int type = ::onnx::TensorProto::FLOAT);
  void output(const std::string& name);
  void floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& data);
  void filled(const std::string& name, const std::vector<int64_t>& dims, float value);  // all the same
  void counted(const std::string& name, const std::vector<int64_t>& dims);              // 0, 1, 2, ...
  void integers(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int64_t>& data);
  void codes(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int>& data,
             int type = ::onnx::TensorProto::INT8);  // in int32_data
  OnnxNode node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

  ::onnx::ModelProto& model() { return model_; }
  const ::onnx::GraphProto& graph() const { return model_.graph(); }  // for a graph attribute
  std::vector<uint8_t> finish() const;

 private:
  ::onnx::TensorProto& tensor(const std::string& name, const std::vector<int64_t>& dims, int type);

  ::onnx::ModelProto model_;
};

}  // namespace nacre::tools
