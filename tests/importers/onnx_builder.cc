#include "tests/importers/onnx_builder.h"

#include <numeric>

namespace nacre::tools {

using ::onnx::AttributeProto;
using ::onnx::TensorProto;

AttributeProto& OnnxNode::add(const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto& attribute = *proto_->add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

OnnxNode& OnnxNode::integer(const std::string& name, int64_t value) {
  add(name, AttributeProto::INT).set_i(value);
  return *this;
}

OnnxNode& OnnxNode::real(const std::string& name, float value) {
  add(name, AttributeProto::FLOAT).set_f(value);
  return *this;
}

OnnxNode& OnnxNode::text(const std::string& name, const std::string& value) {
  add(name, AttributeProto::STRING).set_s(value);
  return *this;
}

OnnxNode& OnnxNode::ints(const std::string& name, const std::vector<int64_t>& values) {
  AttributeProto& attribute = add(name, AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return *this;
}

OnnxNode& OnnxNode::floats(const std::string& name, const std::vector<float>& values) {
  AttributeProto& attribute = add(name, AttributeProto::FLOATS);
  for (const float value : values) attribute.add_floats(value);
  return *this;
}

OnnxNode& OnnxNode::texts(const std::string& name, const std::vector<std::string>& values) {
  AttributeProto& attribute = add(name, AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return *this;
}

OnnxNode& OnnxNode::tensor(const std::string& name, const TensorProto& value) {
  *add(name, AttributeProto::TENSOR).mutable_t() = value;
  return *this;
}

OnnxNode& OnnxNode::refer(const std::string& name, const std::string& of_function) {
  add(name, AttributeProto::INT).set_ref_attr_name(of_function);
  return *this;
}

OnnxNode& OnnxNode::domain(const std::string& name) {
  proto_->set_domain(name);
  return *this;
}

OnnxBuilder::OnnxBuilder(int opset) {
  model_.set_ir_version(8);
  model_.add_opset_import()->set_version(opset);
  model_.mutable_graph()->set_name("test");
}

void OnnxBuilder::input(const std::string& name, const std::vector<int64_t>& dims,
                        const std::vector<std::string>& symbols, int type) {
  ::onnx::ValueInfoProto& info = *model_.mutable_graph()->add_input();
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (size_t i = 0; i < dims.size(); ++i) {
    auto& dim = *shape.add_dim();
    if (i < symbols.size() && !symbols[i].empty()) dim.set_dim_param(symbols[i]);
    else dim.set_dim_value(dims[i]);
  }
}

void OnnxBuilder::output(const std::string& name) { model_.mutable_graph()->add_output()->set_name(name); }

TensorProto& OnnxBuilder::tensor(const std::string& name, const std::vector<int64_t>& dims, int type) {
  TensorProto& t = *model_.mutable_graph()->add_initializer();
  t.set_name(name);
  t.set_data_type(type);
  for (const int64_t dim : dims) t.add_dims(dim);
  return t;
}

void OnnxBuilder::floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& data) {
  TensorProto& t = tensor(name, dims, TensorProto::FLOAT);
  t.set_raw_data(data.data(), data.size() * sizeof(float));
}

void OnnxBuilder::filled(const std::string& name, const std::vector<int64_t>& dims, float value) {
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  floats(name, dims, std::vector<float>(size_t(count), value));
}

void OnnxBuilder::counted(const std::string& name, const std::vector<int64_t>& dims) {
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> data(static_cast<size_t>(count));
  std::iota(data.begin(), data.end(), 0.0f);
  floats(name, dims, data);
}

void OnnxBuilder::integers(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& data) {
  TensorProto& t = tensor(name, dims, TensorProto::INT64);
  for (const int64_t number : data) t.add_int64_data(number);
}

void OnnxBuilder::codes(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int>& data,
                        int type) {
  TensorProto& t = tensor(name, dims, type);
  for (const int code : data) t.add_int32_data(code);
}

OnnxNode OnnxBuilder::node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  ::onnx::NodeProto& proto = *model_.mutable_graph()->add_node();
  proto.set_op_type(op);
  proto.set_name(outputs.empty() ? op : outputs[0] + "_node");
  for (const std::string& input : inputs) proto.add_input(input);
  for (const std::string& output : outputs) proto.add_output(output);
  return OnnxNode(&proto);
}

std::vector<uint8_t> OnnxBuilder::finish() const {
  const std::string bytes = model_.SerializeAsString();
  return {bytes.begin(), bytes.end()};
}

}  // namespace nacre::tools
