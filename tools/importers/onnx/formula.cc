// Expands a formula into nodes of the graph that replace the current node.
#include "tools/importers/onnx/formula.h"

#include <map>
#include <numeric>

#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

struct Setter {
  ::onnx::AttributeProto& attribute;

  void operator()(int64_t value) const {
    attribute.set_type(::onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(::onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::string& value) const {
    attribute.set_type(::onnx::AttributeProto::STRING);
    attribute.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute.set_type(::onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }
};

}  // namespace

Formula::Formula(Import& import, const Source& source, int opset) : import_(import), source_(source), body_(source) {
  body_.opset = opset;
}

Term Formula::input(int index) {
  if (!source_.given(index)) return "";
  const OperandPtr& x = source_.operand(index);
  if (x->constant && x->constant->elements() == 0) source_.refuse(x->name + " is empty: it has no elements");
  return body_.take(x);
}

Term Formula::constant(Value value) {
  import_.spend(value.data->size());
  return taken(std::move(value));
}

Term Formula::taken(Value value) {
  value.fixed = true;  // a formula's numbers are no parameters of the network
  return body_.take(constant_operand(std::move(value)));
}

Term Formula::numbers(const Ints& dims, const std::vector<float>& values) {
  return constant(make_constant(body_.fresh(source_.name + "/constant"), ElementType::kFloat32, dims, values));
}

Term Formula::computed(const Ints& dims, const std::function<float(int64_t)>& at) {
  const int64_t elements = checked_elements(source_.place, dims);
  import_.spend(uint64_t(elements) * sizeof(float));
  std::vector<float> values(size_t(elements), 0);
  for (int64_t i = 0; i < elements; ++i) values[size_t(i)] = at(i);
  return taken(make_constant(body_.fresh(source_.name + "/constant"), ElementType::kFloat32, dims, values));
}

Term Formula::filled(const Ints& dims, float value) {
  return computed(dims, [&](int64_t) { return value; });
}

Term Formula::counted(const Ints& dims) {
  return computed(dims, [](int64_t i) { return float(i); });
}

Term Formula::whole(ElementType type, const Ints& dims, const Ints& values) {
  return constant(make_constant(body_.fresh(source_.name + "/constant"), type, dims, values));
}

std::vector<Term> Formula::several(const char* op, const std::vector<Term>& inputs, int outputs,
                                   const Attributes& attributes) {
  std::vector<Term> made;
  for (int i = 0; i < outputs; ++i) made.push_back(body_.fresh(source_.name + "/" + op));
  ::onnx::NodeProto& node = body_.node(op, inputs, made[0]);
  for (int i = 1; i < outputs; ++i) node.add_output(made[size_t(i)]);
  for (const Attribute& attribute : attributes) {
    ::onnx::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attribute.key);
    std::visit(Setter{proto}, attribute.value);
  }
  return made;
}

std::vector<Term> Formula::several_like_node(const char* op, const std::vector<Term>& inputs, int outputs) {
  std::vector<Term> made;
  for (int i = 0; i < outputs; ++i) made.push_back(body_.fresh(source_.name + "/" + op));
  ::onnx::NodeProto& node = body_.node_like(source_.proto, op, inputs, made[0]);
  for (int i = 1; i < outputs; ++i) node.add_output(made[size_t(i)]);
  return made;
}

Term Formula::operator()(const char* op, const std::vector<Term>& inputs, const Attributes& attributes) {
  return several(op, inputs, 1, attributes)[0];
}

std::vector<Term> Formula::graph(const ::onnx::GraphProto& graph, const std::vector<Term>& inputs) {
  std::map<std::string, Term> terms;
  if (graph.input_size() != int(inputs.size())) source_.malformed("its graph has another number of inputs");
  for (int i = 0; i < graph.input_size(); ++i) terms[graph.input(i).name()] = inputs[size_t(i)];
  for (const ::onnx::TensorProto& tensor : graph.initializer()) {
    Value value = read_tensor(tensor, "");
    import_.spend(value.data->size());
    value.name = body_.fresh(source_.name + "/" + tensor.name());
    value.fixed = true;
    terms[tensor.name()] = body_.take(import_.operand_of(std::move(value)));
  }
  const auto term_of = [&](const std::string& name) {
    if (const auto found = terms.find(name); found != terms.end()) return found->second;
    const OperandPtr outer = import_.find(name);
    if (outer == nullptr || !outer->known()) source_.refuse("its graph reads " + name + ", which is not known");
    return terms[name] = body_.take(outer);
  };
  constexpr uint64_t kBytesOfNode = 4096;  // each copied node takes this much of the budget for constants
  for (const ::onnx::NodeProto& given : graph.node()) {
    import_.spend(kBytesOfNode);
    ::onnx::NodeProto& node = body_.add(given);
    for (const ::onnx::AttributeProto& attribute : given.attribute())
      if (attribute.has_g()) source_.refuse("its graph has a graph of its own in it");
    for (std::string& input : *node.mutable_input())
      if (!input.empty()) input = term_of(input);
    for (std::string& output : *node.mutable_output())
      if (!output.empty()) output = terms[output] = body_.fresh(source_.name + "/" + output);
  }
  std::vector<Term> outputs;
  for (const ::onnx::ValueInfoProto& output : graph.output()) outputs.push_back(term_of(output.name()));
  return outputs;
}

Term Formula::reduce(const char* op, const Term& x, const Ints& axes, bool keep) {
  if (axes.empty()) return (*this)("Identity", {x});
  return (*this)(op, {x, list(axes)}, {{"keepdims", int64_t(keep)}});
}

Term Formula::slice(const Term& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return (*this)("Slice", {x, list({begin}), list({end}), list({axis}), list({step})});
}

Term Formula::to_real(const Term& x) { return (*this)("Cast", {x}, {{"to", int64_t(::onnx::TensorProto::FLOAT)}}); }

void Formula::give(const Term& y) {
  const bool wanted = source_.wants(given_);
  if (!wanted) body_.give("");
  else body_.give_as(y, source_.proto.output(given_));
  ++given_;
}

void Formula::run() { import_.expand(source_, body_); }

std::vector<float> count_up(int64_t count) {
  std::vector<float> numbers(size_t(count), 0);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return numbers;
}

int64_t product_of(const std::vector<int64_t>& dims, size_t first, size_t last) {
  return std::accumulate(dims.begin() + int64_t(first), dims.begin() + int64_t(last), int64_t{1}, std::multiplies<>());
}

}  // namespace nacre::tools::onnx_import
