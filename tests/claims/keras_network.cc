#include "tests/claims/keras_network.h"

#include <cmath>

#include "engine/numeric/small_float.h"
#include "tools/base/error.h"
#include "tools/base/names.h"

namespace nacre::tools {

Graph dense_network(const KerasLayer& layer, bool relu) {
  Graph graph;
  graph.source = "keras";
  const int id = graph.add_layer({.name = "dense", .source_op = "Dense", .policy = {}});
  const auto value = [&](const char* name, const std::vector<int64_t>& dims) {
    Value added;
    added.name = name;
    added.dims = dims;
    return graph.add(added);
  };
  const ValueId x = value("x", layer.x_dims);
  const ValueId w = graph.constant("w", {layer.out, layer.in}, transposed(layer.kernel, layer.in, layer.out));
  std::vector<ValueId> inputs = {x, w};
  if (!layer.bias.empty()) inputs.push_back(graph.constant("b", {layer.out}, layer.bias));
  ValueId y = value("h", {});
  const auto add_node = [&](Op op, const std::vector<ValueId>& operands, ValueId result) -> Node& {
    Node node;
    node.op = op;
    node.name = graph.values[size_t(result)].name;
    node.layer = id;
    node.inputs = operands;
    node.outputs = {result};
    return graph.nodes.emplace_back(node);
  };
  add_node(Op::kDense, inputs, y);
  if (relu) {
    const ValueId h = y;
    y = value("y", {});
    Node& clamp = add_node(Op::kClamp, {h}, y);
    set_integer(clamp, "clamp", 1);
    set_real(clamp, "high", INFINITY);
  }
  graph.inputs = {{.name = "x", .value = x, .layout = ""}};
  graph.outputs = {{.name = "y", .value = y, .layout = ""}};
  infer_shapes(graph);
  check(graph);
  return graph;
}

void apply(const CompileOptions& options, Graph& graph) {
  Job job = {.compiling = options};
  run_stages(graph, job, Stage::kResolvePolicies, Stage::kPackWeights);
}

std::vector<float> as_floats(ElementType type, const Bytes& bytes) {
  if (type == ElementType::kFloat32) return elements_of<float>(bytes);
  std::vector<float> values;
  for (const double v : as_reals(type, bytes)) values.push_back(float(v));
  return values;
}

std::vector<double> as_reals(ElementType type, const Bytes& bytes) {
  std::vector<double> values;
  switch (type) {
    case ElementType::kFloat32: {
      const std::vector<float> narrow = elements_of<float>(bytes);
      return {narrow.begin(), narrow.end()};
    }
    case ElementType::kFloat64: return elements_of<double>(bytes);
    case ElementType::kFloat16:
      for (const uint16_t code : elements_of<uint16_t>(bytes)) values.push_back(double(Float16::of_bits(code)));
      return values;
    case ElementType::kBfloat16:
      for (const uint16_t code : elements_of<uint16_t>(bytes)) values.push_back(double(Bfloat16::of_bits(code)));
      return values;
    default: throw Error(kFailed, "dense", std::string("gives ") + name_of(type));
  }
}

Bytes in_type(ElementType type, const std::vector<float>& values) {
  if (type == ElementType::kFloat32) return bytes_of(values);
  if (type == ElementType::kFloat64) return bytes_of(std::vector<double>(values.begin(), values.end()));
  if (type == ElementType::kFloat16) return bytes_of(std::vector<Float16>(values.begin(), values.end()));
  if (type == ElementType::kBfloat16) return bytes_of(std::vector<Bfloat16>(values.begin(), values.end()));
  throw Error(kFailed, "dense", std::string("takes ") + name_of(type));
}

}  // namespace nacre::tools
