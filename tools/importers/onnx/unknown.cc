// Goes on after an operator that is not supported, so that the nodes after it are checked too. Each output of the
// refused node becomes a value that no node writes, with the shape that the file declares (value_info). If the file
// declares none, the only output of an unknown operator gets the type and shape of its first input. This is right for
// an elementwise function. Any other output stays unknown, and its readers are only checked for a known operator. The
// importer throws its refusals in the end and no graph.
#include <algorithm>

#include "tools/importers/onnx/declared.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

OperandPtr stand_in_of(Graph& graph, const std::string& name, ElementType type, const std::vector<int64_t>& dims) {
  auto x = std::make_shared<Operand>();
  const bool other_real = is_other_real(type);
  const bool fits = std::ranges::all_of(dims, [](int64_t dim) { return dim >= 1; });
  if (!fits || dims.size() > size_t(kMaxRank) || !(at_run_time(type) || other_real)) return x;
  int64_t elements = 1;
  for (const int64_t dim : dims)
    if (dim > INT32_MAX || (elements *= dim) > INT32_MAX) return x;
  x->name = name;
  x->type = other_real ? ElementType::kFloat32 : type;
  if (other_real) x->kept = type;
  x->dims = dims;
  x->uses = 2;  // with two uses no later node is merged into the node that writes x, which does not exist
  Value v;
  v.name = name;
  v.type = x->type;
  v.dims = dims;
  x->plain = graph.add(std::move(v));
  return x;
}

}  // namespace

// Returns the size of an axis in the graph: its number, or the size that the user or the batch gives its symbol.
// Returns 0 if it is unknown.
int64_t DeclaredValues::size_of(const ::onnx::TensorShapeProto::Dimension& dim) const {
  if (dim.has_dim_value()) return std::max<int64_t>(dim.dim_value(), 0);
  if (const auto batch = symbols_.find(dim.dim_param()); batch != symbols_.end()) return batch->second;
  for (const OpenShape& input : shapes_)
    for (size_t i = 0; input.axes && i < input.axes->size(); ++i) {
      const OpenShape::Axis& axis = (*input.axes)[i];
      if (axis.size >= 0 && !axis.symbol.empty() && axis.symbol == dim.dim_param()) return axis.size;
    }
  return 0;
}

// Makes a value that stands in for the declared one. With `guess`, an unknown first size is taken to be the batch,
// other unknown sizes 64, and unknown types float32. Without it, an unknown size or type gives an operand without a
// value.
OperandPtr DeclaredValues::stand_in(const ::onnx::ValueInfoProto& declared, bool guess) {
  const auto& tensor = declared.type().tensor_type();
  if (!declared.type().has_tensor_type() || !tensor.has_shape()) return std::make_shared<Operand>();
  std::vector<int64_t> dims;
  for (const auto& dim : tensor.shape().dim()) {
    const int64_t size = size_of(dim);
    dims.push_back(size > 0 || !guess ? size : dims.empty() ? graph_.batch : kOpenSize);
  }
  const ElementType type = element_type(tensor.elem_type());
  const bool known = at_run_time(type) || is_other_real(type);
  return stand_in_of(graph_, declared.name(), known || !guess ? type : ElementType::kFloat32, dims);
}

void DeclaredValues::leave_unknown(Scope& scope, const ::onnx::NodeProto& node, bool known) {
  OperandPtr like;
  if (!known && node.output_size() == 1 && node.input_size() > 0)
    if (const auto x = scope.operands.find(node.input(0)); x != scope.operands.end()) like = x->second;
  for (const std::string& output : node.output()) {
    if (output.empty() || scope.operands.contains(output)) continue;
    const auto declared = scope.depth == 0 ? declared_.find(output) : declared_.end();
    OperandPtr made = declared != declared_.end() ? stand_in(*declared->second, false) : std::make_shared<Operand>();
    if (!made->known() && like && like->known()) made = stand_in_of(graph_, output, like->type, like->dims);
    scope.operands.emplace(output, std::move(made));
  }
}

}  // namespace nacre::tools::onnx_import
