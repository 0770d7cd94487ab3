// Reads rows and classes and transforms scores for the operators of ai.onnx.ml.
#include "tools/importers/ml/classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/base/error.h"
#include "tools/importers/ml/trees.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns the probit, sqrt(2) erf^-1(z) with z = 2 y - 1, by S. Winitzki's approximation as onnxruntime computes it:
//
//   erf^-1(z) = sign(z) sqrt(sqrt(v^2 - l / a) - v)
//   l = ln((1 - z) (1 + z)),   v = 2 / (pi a) + l / 2,   a = 0.147
Term probit(Formula& f, const Term& y) {
  constexpr float kA = 0.147f, kTwoByPiA = 2 / (3.14159f * kA), kRoot = 1.41421356f;
  const Term z = f("Sub", {f("Mul", {y, f.number(2)}), f.number(1)});
  const Term l = f("Log", {f("Mul", {f("Sub", {f.number(1), z}), f("Add", {z, f.number(1)})})});
  const Term v = f("Add", {f("Mul", {l, f.number(0.5f)}), f.number(kTwoByPiA)});
  const Term inner = f("Sub", {f("Mul", {v, v}), f("Mul", {l, f.number(1 / kA)})});
  const Term root = f("Sqrt", {f("Sub", {f("Sqrt", {inner}), v})});
  const Term sign = f("Where", {f("Less", {z, f.number(0)}), f.number(-kRoot), f.number(kRoot)});
  return f("Mul", {root, sign});
}

// Applies softmax to the scores s_k with |s_k| > 1e-7: y_k = e_k / sum e, e_k = exp(s_k - m), m the largest score. A
// smaller score is not part of the sum and gets y_k = s_k exp(-m) / sum e, which is 0 for s_k = 0.
Term softmax_zero(Formula& f, const Term& scores) {
  constexpr float kLeast = 0.0000001f;
  const Term peak = f.reduce("ReduceMax", scores, {1});
  const Term counts = f("Greater", {f("Abs", {scores}), f.number(kLeast)});
  const Term e = f("Exp", {f("Sub", {scores, peak})});
  const Term sum = f.reduce("ReduceSum", f("Where", {counts, e, f.number(0)}), {1});
  return f("Div", {f("Where", {counts, e, f("Mul", {scores, f("Exp", {f("Neg", {peak})})})}), sum});
}

std::string listed(const std::vector<std::string>& names) {
  std::string lines;
  for (const std::string& name : names) {
    for (const char c : name) lines += c == '\n' ? std::string("\\n") : std::string(1, c);
    lines += '\n';
  }
  return lines;
}

}  // namespace

OperandPtr read_names(const ::onnx::TensorProto& tensor) {
  const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  const std::vector<std::string> names(tensor.string_data().begin(), tensor.string_data().end());
  if (checked_elements(tensor.name(), dims) != int64_t(names.size()))
    throw Error(kBadInput, tensor.name(),
                "has " + std::to_string(names.size()) + " strings, its shape needs more or fewer");
  std::vector<int64_t> counted(names.size());
  std::iota(counted.begin(), counted.end(), 0);
  OperandPtr x = constant_operand(make_constant(tensor.name(), ElementType::kInt64, dims, counted));
  x->names = std::make_shared<const std::vector<std::string>>(names);
  return x;
}

void check_names(const Source& source) {
  const bool takes = source.proto.op_type() == "ArrayFeatureExtractor";
  for (const OperandPtr& x : source.inputs)
    if (x && x->names && !takes) source.refuse("works on strings, which no tensor holds", "give it integers instead");
}

OperandPtr made_operand(Import& import, ValueId id) {
  const Value& v = import.value(id);
  return std::make_shared<Operand>(Operand{.name = v.name, .type = v.type, .dims = v.dims, .plain = id, .uses = 1});
}

OperandPtr rows_of(Import& import, const Source& source, int index) {
  const OperandPtr& x = source.operand(index);
  if (x->rank() < 1 || x->rank() > 2) source.malformed("its input is no matrix");
  if (!at_run_time(x->type)) source.refuse(x->name + " has an element type that no value at run time has");
  ValueId rows = import.plain(x);
  if (x->type != ElementType::kFloat32 || x->kept != ElementType::kNone) {
    Node cast = import.step(Op::kCast);
    cast.inputs = {rows};
    rows = import.append(std::move(cast), x->name + "/float32");
  }
  if (x->rank() == 1) rows = import.reshaped(rows, {1, x->dims[0]}, x->name + "/row");
  return made_operand(import, rows);
}

Term real_input(Formula& f, const Source& source, int index) {
  const OperandPtr& x = source.operand(index);
  const bool real = x->type == ElementType::kFloat32 && x->kept == ElementType::kNone;
  return real ? f.input(index) : f.to_real(f.input(index));
}

std::vector<float> exact_floats(const Source& source, const std::vector<int64_t>& numbers) {
  constexpr int64_t kMost = 1 << 24;
  std::vector<float> floats;
  for (const int64_t number : numbers) {
    if (number < -kMost || number > kMost) source.refuse("has an integer beyond 2^24");
    floats.push_back(float(number));
  }
  return floats;
}

Classes read_classes(const Source& source, const char* labels, const char* names) {
  return {source.integers(labels), listed_texts(source, names)};
}

void list_names(Import& import, const Source& source, const std::vector<std::string>& names) {
  constexpr const char* kKey = "labels";
  if (names.empty()) return;
  auto& metadata = import.graph().metadata;
  const std::string lines = listed(names);
  const auto has = [&](const std::string& key) {
    return std::find_if(metadata.begin(), metadata.end(), [&](const auto& pair) { return pair.first == key; });
  };
  const auto found = has(kKey);
  import.log().add("its classes are columns in the order of the model file's key labels");
  if (found == metadata.end()) return void(metadata.emplace_back(kKey, lines));
  const std::string own = std::string(kKey) + "." + source.name;  // key of a later classifier with other names
  if (found->second != lines && has(own) == metadata.end()) metadata.emplace_back(own, lines);
}

Term label_at(Formula& f, const Source& source, const Classes& classes, const Term& index) {
  const std::vector<float> labels = exact_floats(source, classes.labels);
  if (!classes.names.empty() || labels == count_up(int64_t(labels.size()))) return index;
  const Term label = f("Gather", {f.numbers({int64_t(labels.size())}, labels), index}, {{"axis", int64_t{0}}});
  return f("Cast", {label}, {{"to", int64_t(::onnx::TensorProto::INT64)}});
}

Term label_of_largest(Formula& f, const Source& source, const Classes& classes, const Term& scores) {
  return label_at(f, source, classes, f("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}}));
}

Term label_above(Formula& f, const Source& source, const Classes& classes, const Term& score, float least) {
  const Term above = f("Squeeze", {f("Greater", {score, f.number(least)}), f.list({1})});
  return label_at(f, source, classes, f("Cast", {above}, {{"to", int64_t(::onnx::TensorProto::INT64)}}));
}

Term transformed(Formula& f, const Source& source, const Term& scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return f("Sigmoid", {scores});
  if (transform == "SOFTMAX") return f("Softmax", {scores}, {{"axis", int64_t{1}}});
  if (transform == "SOFTMAX_ZERO") return softmax_zero(f, scores);
  if (transform == "PROBIT") return probit(f, scores);
  source.malformed("post_transform " + transform + " is none");
}

}  // namespace nacre::tools::onnx_import
