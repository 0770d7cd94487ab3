// Writes an operator as a formula of other operators, which replace the current ONNX node.
//
//   Formula f(import, source);
//   const Term x = f.input(0);
//   f.give(f("Mul", {x, f("Sigmoid", {x})}));      // the outputs of the node, in order
//   f.run();
//
// The operators are those of opset 20: axes, shapes and splits are operands, made by list(). A formula that includes
// a graph of the file (graph()) is made with kOpsetOfFile. It should use only operators that all opsets define alike.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {

class Formula {
 public:
  using Term = std::string;  // names a value; empty for an omitted operand
  using Ints = std::vector<int64_t>;
  struct Attribute {
    const char* key;
    std::variant<int64_t, float, std::string, Ints> value;
  };
  using Attributes = std::vector<Attribute>;

  static constexpr int kOpset = 20, kOpsetOfFile = 0;
  Formula(Import& import, const Source& source, int opset = kOpset);

  Term input(int index);  // an operand of the node; "" if it is omitted; refuses a constant without elements
  Term value(const OperandPtr& x) { return body_.take(x); }
  Term number(float value) { return numbers({}, {value}); }
  Term numbers(const Ints& dims, const std::vector<float>& values);
  // Makes a constant whose size the file decides. Calls at(i) for each element i in order, after import.spend() has
  // granted the memory.
  Term computed(const Ints& dims, const std::function<float(int64_t)>& at);
  Term filled(const Ints& dims, float value);
  Term counted(const Ints& dims);  // 0, 1, 2, ..
  Term whole(ElementType type, const Ints& dims, const Ints& values);
  Term zero_of(ElementType type) { return type == ElementType::kFloat32 ? number(0) : whole(type, {}, {0}); }
  Term bools(const Ints& dims, const Ints& values) { return whole(ElementType::kBool, dims, values); }
  Term list(const Ints& values) { return whole(ElementType::kInt64, {int64_t(values.size())}, values); }

  Term operator()(const char* op, const std::vector<Term>& inputs, const Attributes& attributes = {});
  std::vector<Term> several(const char* op, const std::vector<Term>& inputs, int outputs,
                            const Attributes& attributes = {});
  // Adds an operator that has the attributes of the source node.
  std::vector<Term> several_like_node(const char* op, const std::vector<Term>& inputs, int outputs);

  // Adds the nodes of `graph`, an attribute, and returns its outputs for `inputs`. It may read values from outside.
  std::vector<Term> graph(const ::onnx::GraphProto& graph, const std::vector<Term>& inputs);

  // Operators that formulas often use.
  Term reshape(const Term& x, const Ints& dims) { return (*this)("Reshape", {x, list(dims)}); }
  Term transpose(const Term& x, const Ints& perm) { return (*this)("Transpose", {x}, {{"perm", perm}}); }
  Term reduce(const char* op, const Term& x, const Ints& axes, bool keep = true);
  Term slice(const Term& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  Term to_real(const Term& x);  // bools and integers as float32

  void give(const Term& y);  // gives y as the next output
  void run();

 private:
  Term constant(Value value);  // asks for the constant's memory
  Term taken(Value value);

  Import& import_;
  const Source& source_;
  Body body_;
  int given_ = 0;
};

using Term = Formula::Term;

std::vector<float> count_up(int64_t count);  // 0, 1, .., count - 1
int64_t product_of(const std::vector<int64_t>& dims, size_t first, size_t last);

}  // namespace nacre::tools::onnx_import
