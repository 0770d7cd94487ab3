// Operators on more than kMaxRank axes, as operators on fewer: axes side by side that an operator treats alike are one.
//
// In the graph an operand of so many axes is one row of its elements, in their order (Import::row). Reshape makes it
// and reads it; here stand the operators between: what works element by element, Transpose, what reduces, and what
// works along one axis.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>

#include "tools/importers/onnx.h"
#include "tools/importers/onnx_tensor.h"
#include "tools/importers/onnx_wide.h"

namespace nacre::tools::onnx_import {
namespace {

using Sizes = std::vector<int64_t>;

constexpr std::string_view kByElement =  // between blanks
    " Abs Add And Cast CastLike Ceil Celu Clip Cos DequantizeLinear Div Elu Equal Erf Exp Expand Floor Gelu "
    "Greater GreaterOrEqual HardSigmoid HardSwish LeakyRelu Less LessOrEqual Log Max Min Mish Mod Mul Neg "
    "Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub "
    "Sum Swish Tanh ThresholdedRelu Where Xor ";

int64_t product(const Sizes& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// The shape that broadcast ones have together.
Sizes broadcast(const Source& source, const std::vector<Sizes>& shapes) {
  size_t rank = 0;
  for (const Sizes& shape : shapes) rank = std::max(rank, shape.size());
  Sizes all(rank, 1);
  for (const Sizes& shape : shapes)
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& dim = all[rank - shape.size() + i];
      if (dim != 1 && shape[i] != 1 && shape[i] != dim) source.malformed("its operands' shapes do not broadcast");
      dim = std::max(dim, shape[i]);
    }
  return all;
}

// Of the current node as a body: it reads its operands in other shapes.
class Narrow {
 public:
  Narrow(Import& import, const Source& source) : import_(import), source_(source), body_(source) {}

  void by_element();
  void transpose();
  void reduce();
  void along_axis();

 private:
  std::string numbers(const Sizes& of, const std::string& name) {
    return body_.take(constant_operand(make_constant(name, ElementType::kInt64, {int64_t(of.size())}, of)));
  }
  std::string reshape(const std::string& x, const Sizes& dims, const std::string& name) {
    const std::string y = body_.fresh(name);
    body_.node("Reshape", {x, numbers(dims, name + "/dims")}, y);
    return y;
  }
  std::string output() const { return import_.output_name() + "/narrow"; }
  ::onnx::NodeProto& like_source(const std::vector<std::string>& inputs, const std::vector<std::string>& without = {}) {
    return body_.node_like(source_.proto, source_.proto.op_type().c_str(), inputs, body_.fresh(output()), without);
  }
  // The node's result with the axes that it has in the file.
  void give(const ::onnx::NodeProto& made, const Sizes& dims) {
    body_.give(reshape(made.output(0), dims, import_.output_name()));
    import_.expand(source_, body_);
  }

  Import& import_;
  const Source& source_;
  Body body_;
};

void Narrow::by_element() {
  const bool expands = source_.proto.op_type() == "Expand";
  std::vector<Sizes> shapes;
  for (const OperandPtr& x : source_.inputs) shapes.push_back(x ? x->dims : Sizes{});
  if (expands) shapes[1] = source_.constant_integers(1, "its shape");
  const Sizes whole = broadcast(source_, shapes);
  std::vector<Sizes> joined = joined_axes(shapes);
  if (joined[0].size() > size_t(kMaxRank)) source_.refuse("broadcasts operands of more than 6 axes");
  std::vector<std::string> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const OperandPtr& x = source_.inputs[i];
    const bool as_it_is = !x || (x->rank() <= kMaxRank && product(x->dims) == 1);
    if (expands && i == 1) inputs.push_back(numbers(joined[1], output() + "/shape"));
    else if (as_it_is) inputs.push_back(x ? body_.take(x) : "");
    else inputs.push_back(reshape(body_.take(x), joined[i], x->name + "/joined"));
  }
  give(like_source(inputs), whole);
}

void Narrow::transpose() {
  const OperandPtr& x = source_.operand(0);
  Sizes perm(x->dims.size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = source_.integers("perm", perm);
  Sizes sorted = perm, dims;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i) || sorted.size() != x->dims.size())
      source_.malformed("its perm is no permutation of its input's axes");
  for (const int64_t axis : perm) dims.push_back(x->dims[size_t(axis)]);
  std::string now = body_.take(x);
  for (const TransposeStep& step : transpose_steps(x->dims, {perm.begin(), perm.end()})) {
    now = reshape(now, step.dims, output() + "/joined");
    ::onnx::NodeProto& node = body_.node("Transpose", {now}, body_.fresh(output()));
    set_attribute(node, "perm", {step.perm.begin(), step.perm.end()});
    now = node.output(0);
  }
  body_.give(reshape(now, dims, import_.output_name()));
  import_.expand(source_, body_);
}

// Runs of axes that go and of axes that stay.
void Narrow::reduce() {
  const OperandPtr& x = source_.operand(0);
  const std::optional<Sizes> axes = source_.integers_or_input("axes", 1);
  const bool all = !axes || axes->empty(), keeps = source_.integer("keepdims", 1) != 0;
  if (all && source_.integer("noop_with_empty_axes", 0) != 0) source_.refuse("reduces no axis of more than 6");
  std::vector<bool> goes(x->dims.size(), all);
  if (!all)
    for (const int64_t axis : *axes) goes[size_t(source_.axis(axis, x->rank()))] = true;
  Sizes joined, gone, left;
  for (size_t i = 0; i < x->dims.size(); ++i) {
    if (i == 0 || goes[i] != goes[i - 1]) {
      if (goes[i]) gone.push_back(int64_t(joined.size()));
      joined.push_back(1);
    }
    joined.back() *= x->dims[i];
    if (!goes[i] || keeps) left.push_back(goes[i] ? 1 : x->dims[i]);
  }
  if (joined.size() > size_t(kMaxRank)) source_.refuse("reduces every other one of more than 6 axes");
  std::vector<std::string> inputs = {reshape(body_.take(x), joined, x->name + "/joined")};
  const bool as_attribute = source_.has("axes") || source_.opset < (source_.proto.op_type() == "ReduceSum" ? 13 : 18);
  if (!as_attribute) inputs.push_back(numbers(gone, output() + "/axes"));
  ::onnx::NodeProto& node = like_source(inputs, {"axes", "keepdims"});
  if (as_attribute) set_attribute(node, "axes", gone);
  set_attribute(node, "keepdims", int64_t{0});
  give(node, left);
}

// [before, axis, behind]
void Narrow::along_axis() {
  const OperandPtr& first = source_.operand(0);
  const size_t axis = size_t(source_.axis(source_.integer("axis", -1), first->rank()));
  Sizes dims = first->dims;
  int64_t along = 0;
  std::vector<std::string> inputs;
  for (const OperandPtr& x : source_.inputs) {
    if (x->dims.size() != dims.size()) source_.malformed("its operands have several ranks or types");
    for (size_t i = 0; i < dims.size(); ++i)
      if (i != axis && x->dims[i] != dims[i]) source_.malformed("its operands' shapes differ");
    const Sizes before(dims.begin(), dims.begin() + ptrdiff_t(axis)),
        behind(dims.begin() + ptrdiff_t(axis) + 1, dims.end());
    along += x->dims[axis];
    inputs.push_back(reshape(body_.take(x), {product(before), x->dims[axis], product(behind)}, x->name + "/joined"));
  }
  dims[axis] = along;
  ::onnx::NodeProto& node = like_source(inputs, {"axis"});
  set_attribute(node, "axis", int64_t{1});
  give(node, dims);
}

bool is_wide(const OperandPtr& x) { return x && x->rank() > kMaxRank && !x->constant; }

}  // namespace

std::vector<std::vector<int64_t>> joined_axes(const std::vector<std::vector<int64_t>>& shapes) {
  size_t rank = 0;
  for (const Sizes& shape : shapes) rank = std::max(rank, shape.size());
  const auto dim = [&](const Sizes& shape, size_t axis) {
    return axis < rank - shape.size() ? 1 : shape[axis - (rank - shape.size())];
  };
  std::vector<Sizes> joined(shapes.size());
  std::vector<bool> last;
  for (size_t axis = 0; axis < rank; ++axis) {
    std::vector<bool> ones;
    for (const Sizes& shape : shapes) ones.push_back(dim(shape, axis) == 1);
    if (std::ranges::count(ones, false) == 0) continue;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (ones != last) joined[i].push_back(1);
      joined[i].back() *= dim(shapes[i], axis);
    }
    last = std::move(ones);
  }
  if (last.empty())
    for (Sizes& shape : joined) shape.push_back(1);
  return joined;
}

// Axes of one index are none, and those that stay side by side are one.
TransposeStep joined_transpose(const std::vector<int64_t>& dims, const std::vector<int>& perm) {
  std::vector<std::vector<int>> runs;
  for (const int axis : perm) {
    if (dims[size_t(axis)] == 1) continue;
    int next = runs.empty() ? 0 : runs.back().back() + 1;
    while (!runs.empty() && next < axis && dims[size_t(next)] == 1) ++next;
    if (runs.empty() || next != axis) runs.emplace_back();
    runs.back().push_back(axis);
  }
  std::vector<size_t> order(runs.size());  // of the runs in the source
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t run) { return runs[run].front(); });
  TransposeStep made = {std::vector<int64_t>(runs.size()), std::vector<int>(runs.size())};
  for (size_t i = 0; i < order.size(); ++i) {
    made.dims[i] = 1;
    for (const int axis : runs[order[i]]) made.dims[i] *= dims[size_t(axis)];
    made.perm[order[i]] = int(i);
  }
  return made;
}

std::vector<TransposeStep> transpose_steps(std::vector<int64_t> dims, std::vector<int> perm) {
  constexpr int kMoved = 2;  // axes of a step, between which there are 3 runs of others, behind those that are in place
  std::vector<TransposeStep> steps;
  for (;;) {
    TransposeStep whole = joined_transpose(dims, perm);
    if (std::ranges::is_sorted(whole.perm)) return steps;
    if (whole.perm.size() <= size_t(kMaxRank)) {
      steps.push_back(std::move(whole));
      return steps;
    }
    int in_place = 0;
    while (whole.perm[size_t(in_place)] == in_place) ++in_place;
    std::vector<int> part(whole.perm.begin(), whole.perm.begin() + in_place + kMoved);
    for (int axis = 0; axis < int(whole.perm.size()); ++axis)
      if (std::ranges::find(part, axis) == part.end()) part.push_back(axis);
    steps.push_back(joined_transpose(whole.dims, part));
    dims.clear(), perm.clear();
    for (const int axis : part) dims.push_back(whole.dims[size_t(axis)]);
    for (const int axis : whole.perm) perm.push_back(int(std::ranges::find(part, axis) - part.begin()));
  }
}

bool import_wide(Import& import, const Source& source) {
  if (!source.main || std::ranges::none_of(source.inputs, is_wide)) return false;
  const std::string& op = source.proto.op_type();
  Narrow narrow(import, source);
  if (kByElement.find(" " + op + " ") != std::string_view::npos) narrow.by_element();
  else if (op == "Transpose") narrow.transpose();
  else if (op.starts_with("Reduce")) narrow.reduce();
  else if (op == "Concat" || (source.opset >= 13 && op.ends_with("oftmax"))) narrow.along_axis();
  else return false;
  return true;
}

}  // namespace nacre::tools::onnx_import
