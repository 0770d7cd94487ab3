#include "bench/one_layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/calibration/calibrate.h"
#include "tools/compile/compile.h"
#include "tools/files/input_file.h"
#include "tools/graph/graph.h"
#include "tools/model/program_cost.h"
#include "tools/policies/policy_request.h"

namespace nacre::bench {
namespace {

using namespace nacre::tools;

constexpr int kSamples = 2;  // samples for calibration

std::vector<float> uniform(int64_t count, float magnitude, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = magnitude * (float(random() >> 8) * 0x1p-23f - 1);
  return values;
}

int64_t elements(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

bool is_constant(const std::string& slot) { return slot == "w" || slot == "bias" || slot == "scale"; }

void set_attributes(const Shape& shape, Node& node) {
  const OpRule& rule = *find_rule(node.op);
  for (const Attribute& attribute : rule.attributes) {
    const auto given = shape.attributes.find(attribute.name);
    if (given == shape.attributes.end()) continue;
    if (attribute.coding == Coding::kReal) set_real(node, attribute.name, float(given->second));
    else set_integer(node, attribute.name, int(given->second));
  }
}

Op op_named(const std::string& name) {
  const OpRule* rule = find_rule(name.c_str());
  if (rule == nullptr) throw Error(kBadInput, name, "is no op");
  return rule->op;
}

Graph graph_of(const Shape& shape) {
  Graph graph;
  graph.source = shape.op;
  Node node = make_step(op_named(shape.op), Node(), "layer", {}, {});
  uint32_t seed = 1;
  for (const auto& [slot, dims] : shape.inputs) {
    if (is_constant(slot)) {
      const auto fan =
          float(slot == "w" ? elements(dims) / (shape.op == "depthwise_conv2d" ? dims.back() : dims[0]) : 1);
      node.inputs.push_back(graph.constant(slot, dims, uniform(elements(dims), 1 / std::sqrt(fan), ++seed)));
      continue;
    }
    Value x;
    x.name = slot;
    x.dims = dims;
    x.batched = dims[0] == 1;
    node.inputs.push_back(graph.add(std::move(x)));
    graph.inputs.push_back({slot, node.inputs.back(), ""});
  }
  set_attributes(shape, node);
  Value y;
  y.name = "y";
  y.batched = shape.inputs[0].second[0] == 1;
  node.outputs = {graph.add(std::move(y))};
  node.layer = graph.add_layer({.name = "layer", .source_op = shape.op, .policy = {}});
  infer_shapes(graph, node);
  graph.outputs.push_back({"y", node.outputs[0], ""});
  graph.nodes.push_back(std::move(node));
  check(graph);
  return graph;
}

// Calibrates on kSamples of each input, stacked on its axis 0.
Calibration calibrated(const Graph& graph) {
  std::vector<NpyArray> arrays;
  uint32_t seed = 100;
  for (const Binding& binding : graph.inputs) {
    const Value& input = graph.values[size_t(binding.value)];
    NpyArray array{ElementType::kFloat32, input.dims, {}, binding.name};
    if (input.batched) array.dims[0] = kSamples;
    else array.dims.insert(array.dims.begin(), kSamples);
    array.data = bytes_of(uniform(elements(array.dims), 1, ++seed));
    arrays.push_back(std::move(array));
  }
  return calibrate(graph, make_samples(graph, std::move(arrays)),
                   {.fitted = [](const Node& node) { return node.layer != kNone; }});
}

}  // namespace

std::string Shape::text() const {
  std::string text;
  for (const auto& [slot, dims] : inputs)
    if (slot != "bias" && slot != "scale") text += fmt::format("{}{}", text.empty() ? "" : "_", fmt::join(dims, "x"));
  const auto stride = attributes.find("stride_h");
  if (is_product() && stride != attributes.end() && stride->second > 1)
    text += fmt::format("_s{}", int(stride->second));
  return text;
}

bool Shape::is_product() const { return op == "dense" || op == "conv2d" || op == "depthwise_conv2d"; }

std::vector<Shape> read_shapes(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path);
  const Json list = Json::parse(bytes);
  if (!list.is_array()) throw Error(kBadInput, path, "is no list in JSON");
  std::vector<Shape> shapes;
  for (const Json& row : list) {
    Shape shape = {.op = row["op"].text(), .networks = "", .inputs = {}, .attributes = {}};
    for (const auto& [name, count] : row["networks"].items())
      shape.networks += (shape.networks.empty() ? "" : ",") + name;
    for (const char* slot : {"x", "a", "b", "w", "scale", "bias"})
      if (row["inputs"].contains(slot))
        shape.inputs.emplace_back(slot, row["inputs"][slot].get<std::vector<int64_t>>());
    for (const auto& [name, value] : row["attributes"].items()) shape.attributes[name] = value.get<double>();
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Shape dense_shape(int64_t rows, int64_t in, int64_t out) {
  return {.op = "dense",
          .networks = "",
          .inputs = {{"x", {1, rows, in}}, {"w", {out, in}}, {"bias", {out}}},
          .attributes = {}};
}

OneLayer::OneLayer(const Shape& shape, const std::string& policy, Rounding rounding) {
  const Graph graph = graph_of(shape);
  for (const Value& value : graph.values) {
    if (value.constant() && value.name == "w") weights_ = reals(value);
    if (value.constant() && value.name == "bias") bias_ = reals(value);
  }
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy, .set = {}, .file = {}, .only = {}, .except = {}});
  const Calibration calibration = calibrated(graph);
  options.calibration = &calibration;
  options.rounding = rounding;
  // With 16 bits the kernel between two layers is timed, whose result has 16 bits too. So the cast after it must stay
  // a step of its own.
  options.fuse = policy.find("_from_") != std::string::npos;
  model_ = std::make_unique<LoadedModel>(compile(graph, options).bytes, shape.op, "");
  const ProgramView view = model_->model().program(0);
  const Op op = op_named(shape.op);
  while (step_ < view.step_count && model_->model().steps()[view.first_step + step_].op != op) ++step_;
  if (step_ == view.step_count) throw Error(kFailed, shape.op, "has no step of its own under " + policy);
  uint32_t seed = 100;
  for (const Binding& binding : graph.inputs) {
    const std::vector<uint8_t> bytes = bytes_of(uniform(graph.values[size_t(binding.value)].elements(), 1, ++seed));
    input_.insert(input_.end(), bytes.begin(), bytes.end());
  }
}

tools::StepWork OneLayer::work() const {
  const Model& model = model_->model();
  return tools::step_work(model, model.steps()[model.program(0).first_step + step_]);
}

std::unique_ptr<BoundProgram> OneLayer::bind(const Port* port) const {
  auto bound = std::make_unique<BoundProgram>(*model_, 0, port);
  bound->run(input_);
  return bound;
}

double OneLayer::difference(BoundProgram& bound) const {
  if (expected_.empty()) expected_ = BoundProgram(*model_, 0).run(input_);
  const std::vector<uint8_t> outputs = bound.run(input_);
  if (outputs == expected_) return 0;
  double largest = 0, apart = 0;
  for (size_t i = 0; i + sizeof(float) <= outputs.size(); i += sizeof(float)) {
    float a, b;
    std::memcpy(&a, expected_.data() + i, sizeof a);
    std::memcpy(&b, outputs.data() + i, sizeof b);
    largest = std::max(largest, double(std::abs(a)));
    apart = std::isfinite(b) ? std::max(apart, std::abs(double(a) - double(b))) : INFINITY;
  }
  return apart / largest;
}

double tolerance_of(ElementType compute) {
  switch (compute) {
    case ElementType::kInt8: return 0;
    case ElementType::kFloat16: return 0x1p-8;
    case ElementType::kBfloat16: return 0x1p-5;
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2: return 0x1p-5;
    default: return 1e-4;
  }
}

}  // namespace nacre::bench
