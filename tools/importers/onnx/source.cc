// One node of an ONNX file. Its attributes and operands are checked when an importer asks for them.
#include "tools/base/error.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

std::string name_of_node(const ::onnx::NodeProto& proto) {
  if (!proto.name().empty()) return proto.name();
  for (const std::string& output : proto.output())
    if (!output.empty()) return output;
  return "unnamed";
}

}  // namespace

Source::Source(const ::onnx::NodeProto& node, int version, const Attributes* bound, const Uses* uses)
    : proto(node), opset(version), name(name_of_node(node)), place(name + " (" + node.op_type() + ")"),
      main(node.domain().empty() || node.domain() == "ai.onnx"), bound_(bound), uses_(uses) {}

bool Source::wants(int output) const {
  if (output >= proto.output_size() || proto.output(output).empty()) return false;
  if (uses_ == nullptr) return true;
  const auto found = uses_->find(proto.output(output));
  return found != uses_->end() && found->second > 0;
}

const ::onnx::GraphProto& Source::graph(const char* key) const {
  const ::onnx::AttributeProto* attribute = find(key);
  if (attribute == nullptr || !attribute->has_g()) malformed(std::string("has no ") + key);
  return attribute->g();
}

const ::onnx::AttributeProto* Source::find(const char* key) const {
  for (const ::onnx::AttributeProto& attribute : proto.attribute()) {
    if (attribute.name() != key) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    const auto found = bound_->find(attribute.ref_attr_name());
    if (found == bound_->end())
      refuse("attribute " + attribute.ref_attr_name() + " of the function around it is not given by the call");
    return found->second;
  }
  return nullptr;
}

int64_t Source::integer(const char* key, int64_t otherwise) const {
  const ::onnx::AttributeProto* attribute = find(key);
  return attribute != nullptr ? attribute->i() : otherwise;
}

float Source::real(const char* key, float otherwise) const {
  const ::onnx::AttributeProto* attribute = find(key);
  return attribute != nullptr ? attribute->f() : otherwise;
}

std::string Source::text(const char* key, const std::string& otherwise) const {
  const ::onnx::AttributeProto* attribute = find(key);
  return attribute != nullptr ? attribute->s() : otherwise;
}

std::vector<int64_t> Source::integers(const char* key, std::vector<int64_t> otherwise) const {
  const ::onnx::AttributeProto* attribute = find(key);
  if (attribute == nullptr) return otherwise;
  return {attribute->ints().begin(), attribute->ints().end()};
}

const OperandPtr& Source::operand(int input) const {
  if (!given(input)) malformed("input " + std::to_string(input) + " is missing");
  return inputs[size_t(input)];
}

const Value& Source::constant(int input, const char* what) const {
  const OperandPtr& x = operand(input);
  if (!x->constant)
    refuse(std::string(what) + ": computed at run time (" + x->name + ")",
           "export with fixed shapes and stored weights, or simplify the file first (onnxsim)");
  return *x->constant;
}

std::vector<int64_t> Source::constant_integers(int input, const char* what) const {
  const Value& x = constant(input, what);
  if (!is_integer(x.stored) || x.quantizer || x.dims.size() > 1)
    malformed(std::string(what) + " is no list of integers");
  return nacre::tools::integers(x);
}

float Source::constant_real(int input, const char* what) const {
  const Value& x = constant(input, what);
  if (x.elements() != 1) malformed(std::string(what) + " is not one number");
  return reals(x)[0];
}

std::optional<std::vector<int64_t>> Source::integers_or_input(const char* key, int input) const {
  if (has(key)) return integers(key);
  if (given(input)) return constant_integers(input, key);
  return std::nullopt;
}

int Source::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    malformed("axis " + std::to_string(axis) + " is outside the rank " + std::to_string(rank));
  return int(axis < 0 ? axis + rank : axis);
}

// Returns the type of the node's reals. ONNX gives all reals of an operator one type. If a scale is float32
// nevertheless, the data come before it.
ElementType Source::kept() const {
  for (const OperandPtr& x : inputs)
    if (x && x->kept != ElementType::kNone) return x->kept;
  return ElementType::kNone;
}

void Source::refuse(const std::string& reason, const std::string& remedy) const {
  throw Error(kUnsupported, place, reason, remedy);
}

void Source::malformed(const std::string& fact) const { throw Error(kBadInput, place, fact); }

}  // namespace nacre::tools::onnx_import
