#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "tests/claims/policy_sources.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/compile/training.h"
#include "tools/graph/batch.h"
#include "tools/policies/policy_error.h"

namespace nacre::test::policy_sources {
namespace {

using namespace nacre::tools;

bool converts(Op op) {
  return op == Op::kQuantize || op == Op::kDequantize || op == Op::kRequantize || op == Op::kCast ||
         op == Op::kDynamicQuantize || op == Op::kFakeFloat8 || op == Op::kFakeQuantize ||
         op == Op::kFakeFloat8Gradient;
}

// Returns the matmul of the layer, or its first step that is no conversion.
const Node& step_of(const Graph& graph, const std::string& layer) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes) {
    if (node.layer == kNone || graph.layers[size_t(node.layer)].name != layer || converts(node.op)) continue;
    if (find_rule(node.op)->numerics == Numerics::kMatmul) return node;
    if (found == nullptr) found = &node;
  }
  if (found == nullptr) throw std::runtime_error("no step of layer " + layer);
  return *found;
}

std::string value_name(const Graph& graph, ValueId id) { return graph.values[size_t(id)].name; }

std::map<std::string, uint32_t> ids_of(const LoadedModel& model) {
  std::map<std::string, uint32_t> ids;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) ids[model.tensor_name(id)] = id;
  return ids;
}

}  // namespace

void Checks::that(bool holds, const std::string& what) {
  ++made;
  if (holds) return;
  ++failed;
  failures.push_back(what);
}

std::string Checks::text(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

PolicyRequest request_of(const Wish& wish) {
  const TemporaryDirectory directory;
  PolicyArguments arguments = {
      .policy = wish.policy, .set = wish.set, .file = {}, .only = wish.only, .except = wish.except};
  if (!wish.file.empty()) {
    arguments.file = directory / "policies.json";
    std::ofstream(arguments.file) << wish.file;
  }
  return parse_policy_options(arguments);
}

namespace {

// Leaves a network as an importer does: every layer names its operator in the file.
Graph imported(Graph network) {
  for (const Node& node : network.nodes)
    if (node.layer != kNone && network.layers[size_t(node.layer)].source_op.empty())
      network.layers[size_t(node.layer)].source_op = find_rule(node.op)->name;
  return network;
}

}  // namespace

Made::Made(const Wish& wish, Graph network, const Calibration* calibration) {
  CompileOptions options;
  options.policies = request_of(wish);
  options.calibration = calibration;
  Compiled compiled = compile(imported(std::move(network)), options);
  graph_ = std::move(compiled.graph);
  model_ = std::make_unique<LoadedModel>(compiled.bytes, "model", "");
  ids_ = ids_of(*model_);
}

Policy Made::policy(const std::string& layer) const {
  for (uint32_t i = 0; i < model_->layer_count(); ++i)
    if (model_->layer(i).name == layer) return model_->layer(i).policy;
  throw std::runtime_error("no layer " + layer + " in the file");
}

const Node& Made::step(const std::string& layer) const { return step_of(graph_, layer); }

std::string Made::types(const std::string& layer) const {
  const Node& node = step(layer);
  std::string types = type(value_name(graph_, node.inputs[0]));
  if (find_rule(node.op)->numerics == Numerics::kMatmul) types += " " + type(weights(layer));
  return types + " " + type(value_name(graph_, node.outputs[0]));
}

const TensorRecord& Made::record(const std::string& tensor) const {
  const auto id = ids_.find(tensor);
  if (id == ids_.end()) throw std::runtime_error("no tensor " + tensor + " in the file");
  return model_->model().tensors()[id->second];
}

std::string Made::type(const std::string& tensor) const { return name_of(record(tensor).element); }
std::string Made::weights(const std::string& layer) const { return value_name(graph_, step(layer).inputs[1]); }

int Made::count(Op op) const {
  int steps = 0;
  for (const StepRecord& step : model_->model().steps()) steps += step.op == op ? 1 : 0;
  return steps;
}

std::vector<uint8_t> Made::constant(const std::string& tensor) const {
  const auto* data = reinterpret_cast<const uint8_t*>(model_->model().weights(ids_.at(tensor)));
  return {data, data + record(tensor).bytes};
}

std::vector<float> Made::run(const std::vector<float>& x) const {
  BoundProgram program(*model_, model_->infer_program());
  std::vector<uint8_t> bytes(x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  const std::vector<uint8_t> out = program.run(bytes);
  std::vector<float> y(out.size() / sizeof(float));
  std::memcpy(y.data(), out.data(), out.size());
  return y;
}

Said refusal_of(const Wish& wish, const Graph& network) {
  try {
    const Made made(wish, network);
    return {};
  } catch (const PolicyError& error) {
    return {error.label, error.what()};
  } catch (const Error& error) {
    return {"Error", error.what()};
  }
}

void refuses(Checks& checks, const Wish& wish, const std::string& label, const std::string& reason) {
  const Said said = refusal_of(wish);
  const std::string what = wish.policy + wish.file + (wish.set.empty() ? "" : wish.set[0]);
  checks.same(said.label, label, "refusal of " + what);
  checks.that(said.sentence.find(reason) != std::string::npos, what + " says: " + said.sentence);
}

namespace {

TrainingModel training_model(const Wish& wish, Training::Arguments arguments, const Graph& given) {
  Graph network = imported(given);
  if (arguments.loss.empty()) arguments.loss = "softmax_cross_entropy";
  CompileOptions compiling;
  compiling.policies = request_of(wish);
  resolve_policies(network, compiling.policies);
  const PolicyLossScale policies = loss_scale_of_policies(network, compiling.policies, arguments.loss_scale != "auto");
  return compile_training(network, parse_training(arguments, policies), compiling);
}

}  // namespace

Training::Training(const Wish& wish, Arguments arguments, Graph network)
    : made_(training_model(wish, std::move(arguments), network)), run_(made_.bytes) {
  const Value& x = network.values[size_t(network.inputs[0].value)];
  rows_ = int(x.dims[0]);
  width_ = int(x.elements()) / rows_;
}

Trainer::Report Training::step(float learning_rate, float odd) {
  LabelledRows rows = three_classes(1, rows_, width_);
  if (odd != 0) rows.x[0] = odd;
  run_.write(0, rows.x);
  run_.write(1, rows.labels);
  run_.accumulate();
  return run_.commit(learning_rate);
}

std::string Training::type(const std::string& tensor) const {
  for (uint32_t id = 0; id < run_.model().model().tensors().size(); ++id)
    if (run_.model().tensor_name(id) == tensor) return name_of(run_.model().model().tensors()[id].element);
  return "";
}

std::string Training::types(const std::string& layer) const {
  const Graph& graph = made_.gradients;
  const Node& node = step_of(graph, layer);
  const auto type = [&](ValueId id) { return std::string(name_of(graph.values[size_t(id)].type)); };
  return type(node.inputs[0]) + " " + type(node.inputs[1]) + " " + type(node.outputs[0]);
}

std::vector<std::string> Training::state(const std::string& part) const {
  std::vector<std::string> names;
  for (const std::string& name : run_.tensors(Region::kState))
    if (name.find(part) != std::string::npos) names.push_back(name);
  return names;
}

void Training::set_scale(float scale) {
  for (uint32_t id = 0; id < run_.model().model().tensors().size(); ++id) {
    const TensorRecord& r = run_.model().model().tensors()[id];
    if (r.region == Region::kState && run_.model().tensor_name(id) == "loss_scale")
      std::memcpy(run_.state().data() + r.offset, &scale, sizeof scale);
  }
}

std::vector<float> Training::infer() {
  const Program& infer = run_.trainer().infer();
  const std::vector<float> x = three_classes(1, rows_, width_).x;
  std::memcpy(infer.input(0).data(), x.data(), x.size() * sizeof(float));
  run_.require(infer.run());
  std::vector<float> y(infer.output(0).size() / sizeof(float));
  std::memcpy(y.data(), infer.output(0).data(), y.size() * sizeof(float));
  return y;
}

Training::Arguments scaled(const std::string& loss_scale, const std::string& rule) {
  Training::Arguments arguments;
  arguments.optimizer = "sgd";
  arguments.loss_scale = loss_scale;
  arguments.loss_scale_rule = rule;
  return arguments;
}

float scale_after(const std::string& steps, const std::string& loss_scale, const std::string& rule) {
  Training training({.policy = "float32"}, scaled(loss_scale, rule));
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char step : steps) training.step(0, step == 'I' ? infinity : step == 'N' ? nan : 0);
  return training.scale();
}

float grown(const std::string& rule, float from) {
  Training::Arguments arguments = scaled("dynamic", rule);
  arguments.loss = "squared_error";
  Training training({.policy = "float32"}, arguments, dense(2, 2, {1, 0, 0, 1}));
  training.set_scale(from);
  for (int i = 0; i < 2000; ++i) {
    training.run().write(0, std::vector<float>{1, 1});
    training.run().write(1, std::vector<float>{1 + 0x1p-12f, 1 + 0x1p-12f});
    training.run().accumulate();
    training.run().commit(0);
  }
  return training.scale();
}

Graph dense(int width, int outputs, const std::vector<float>& weights, const std::vector<float>& bias) {
  Graph graph;
  const auto value = [&](const char* name, int columns) {
    Value v;
    v.name = name;
    v.dims = {1, columns};
    return graph.add(std::move(v));
  };
  const ValueId x = value("x", width), y = value("y", outputs);
  Node node;
  node.op = Op::kDense;
  node.name = "fc";
  node.layer = graph.add_layer({.name = "fc", .source_op = "Dense", .policy = {}});
  node.inputs = {x, graph.constant("w", {outputs, width}, weights),
                 bias.empty() ? kNone : graph.constant("b", {outputs}, bias)};
  node.outputs = {y};
  graph.nodes.push_back(node);
  graph.inputs.push_back({"x", x, ""});
  graph.outputs.push_back({"y", y, ""});
  mark_batched(graph, true);
  check(graph);
  return graph;
}

}  // namespace nacre::test::policy_sources
