// Builds a Body: several operators that stand for one operator of the file.
#include "tools/importers/onnx/import.h"

#include <algorithm>

namespace nacre::tools::onnx_import {

Body::Body(const Source& source) : name(source.name), source_op(source.proto.op_type()) {}

std::string Body::fresh(const std::string& wanted) {
  const int count = names_[wanted]++;
  return count == 0 ? wanted : wanted + "#" + std::to_string(count);
}

std::string Body::take(const OperandPtr& x) {
  const auto found = std::find(operands_.begin(), operands_.end(), x);
  if (found != operands_.end()) return function_.input(int(found - operands_.begin()));
  operands_.push_back(x);
  *function_.add_input() = fresh("#" + std::to_string(operands_.size()));  // not x's name: a node may write that
  return function_.input(function_.input_size() - 1);
}

::onnx::NodeProto& Body::node(const char* op, const std::vector<std::string>& inputs, const std::string& output) {
  ::onnx::NodeProto& made = *function_.add_node();
  made.set_name(name);
  made.set_op_type(op);
  for (const std::string& input : inputs) made.add_input(input);
  made.add_output(output);
  return made;
}

::onnx::NodeProto& Body::add(const ::onnx::NodeProto& given) { return *function_.add_node() = given; }

::onnx::NodeProto& Body::node_like(const ::onnx::NodeProto& from, const char* op,
                                   const std::vector<std::string>& inputs, const std::string& output,
                                   const std::vector<std::string>& without) {
  ::onnx::NodeProto& made = node(op, inputs, output);
  for (const ::onnx::AttributeProto& attribute : from.attribute())
    if (std::find(without.begin(), without.end(), attribute.name()) == without.end()) *made.add_attribute() = attribute;
  return made;
}

void Body::give(const std::string& value) { *function_.add_output() = value; }

void Body::give_as(const std::string& value, const std::string& wanted) {
  const auto& given = function_.output();
  const auto writer = std::find_if(function_.node().begin(), function_.node().end(), [&](const ::onnx::NodeProto& n) {
    return std::find(n.output().begin(), n.output().end(), value) != n.output().end();
  });
  const std::string result = fresh(wanted);
  if (writer == function_.node().end() || std::find(given.begin(), given.end(), value) != given.end()) {
    node("Identity", {value}, result);
    return give(result);
  }
  for (::onnx::NodeProto& made : *function_.mutable_node())
    for (auto* names : {made.mutable_input(), made.mutable_output()})
      std::replace(names->begin(), names->end(), value, result);
  give(result);
}

void set_attribute(::onnx::NodeProto& node, const char* key, int64_t value) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set_attribute(::onnx::NodeProto& node, const char* key, const std::vector<int64_t>& values) {
  ::onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(key);
  attribute.set_type(::onnx::AttributeProto::INTS);
  attribute.mutable_ints()->Assign(values.begin(), values.end());
}

OperandPtr constant_operand(Value value) {
  const auto constant = std::make_shared<const Value>(std::move(value));
  return std::make_shared<Operand>(
      Operand{.name = constant->name, .type = constant->type, .dims = constant->dims, .constant = constant});
}

}  // namespace nacre::tools::onnx_import
