#include "tests/differentiate/networks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/graph/batch.h"
#include "tools/importers/importer.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Parameter {
  std::string name;
  std::vector<int64_t> dims;
  int exponent;
  float offset = 0;
};

Parameter weight(const char* name, std::vector<int64_t> dims, int exponent) {
  return {name, std::move(dims), exponent};
}
Parameter bias(const char* name, int64_t size) { return {name, {size}, -3}; }
Parameter scale(const char* name, int64_t size) { return {name, {size}, -3, 1}; }

struct Definition {
  std::vector<int64_t> input;  // with the batch
  const char* nodes;           // of the text form; values are declared by complete()
  std::vector<Parameter> parameters;
};

// ---- The networks

Definition mlp() {
  return {{16, 16},
          R"(%fc1 = dense(%x, %fc1.w, %fc1.b)
             %relu1 = clamp(%fc1) clamp=1 high=inf
             %fc2 = dense(%relu1, %fc2.w, %fc2.b)
             %tanh2 = tanh(%fc2)
             %fc3 = dense(%tanh2, %fc3.w, %fc3.b))",
          {weight("fc1.w", {32, 16}, -1), bias("fc1.b", 32), weight("fc2.w", {24, 32}, -1), bias("fc2.b", 24),
           weight("fc3.w", {4, 24}, -1), bias("fc3.b", 4)}};
}

Definition cnn() {
  return {{8, 12, 12, 2},
          R"(%conv1 = conv2d(%x, %conv1.w, none) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %bn1 = batch_norm(%conv1, %bn1.scale, %bn1.bias, %bn1.mean, %bn1.variance) epsilon=0.001
             %relu1 = clamp(%bn1) clamp=1 high=inf
             %pool = max_pool(%relu1) stride_h=2 stride_w=2 kernel_h=2 kernel_w=2
   %depthwise = depthwise_conv2d(%pool, %depthwise.w, %depthwise.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %relu2 = clamp(%depthwise) clamp=1 high=inf
             %conv2 = conv2d(%relu2, %conv2.w, none) stride_h=2 stride_w=2 pad_bottom=1 pad_right=1
             %bn2 = batch_norm(%conv2, %bn2.scale, %bn2.bias, %bn2.mean, %bn2.variance) epsilon=0.001
             %relu3 = clamp(%bn2) clamp=1 high=inf
             %mean = mean(%relu3) axes=6
             %fc = dense(%mean, %fc.w, %fc.b))",
          {weight("conv1.w", {8, 3, 3, 2}, -1), scale("bn1.scale", 8), bias("bn1.bias", 8),
           weight("depthwise.w", {3, 3, 8}, -1), bias("depthwise.b", 8), weight("conv2.w", {16, 3, 3, 8}, -2),
           scale("bn2.scale", 16), bias("bn2.bias", 16), weight("fc.w", {5, 16}, -1), bias("fc.b", 5)}};
}

// The nodes of pretrainedResnet.tflite without clamps and the final softmax. The file has its weights.
Definition resnet8() {
  return {{2, 32, 32, 3},
          R"(%conv0 = conv2d(%x, %conv0.w, %conv0.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %relu0 = clamp(%conv0) clamp=1 high=inf
             %conv1 = conv2d(%relu0, %conv1.w, %conv1.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %relu1 = clamp(%conv1) clamp=1 high=inf
             %conv2 = conv2d(%relu1, %conv2.w, %conv2.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %add2 = add(%relu0, %conv2)
             %relu2 = clamp(%add2) clamp=1 high=inf
             %conv3 = conv2d(%relu2, %conv3.w, %conv3.b) stride_h=2 stride_w=2 pad_bottom=1 pad_right=1
             %relu3 = clamp(%conv3) clamp=1 high=inf
             %conv4 = conv2d(%relu3, %conv4.w, %conv4.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %conv5 = conv2d(%relu2, %conv5.w, %conv5.b) stride_h=2 stride_w=2
             %add5 = add(%conv5, %conv4)
             %relu5 = clamp(%add5) clamp=1 high=inf
             %conv6 = conv2d(%relu5, %conv6.w, %conv6.b) stride_h=2 stride_w=2 pad_bottom=1 pad_right=1
             %relu6 = clamp(%conv6) clamp=1 high=inf
             %conv7 = conv2d(%relu6, %conv7.w, %conv7.b) pad_top=1 pad_left=1 pad_bottom=1 pad_right=1
             %conv8 = conv2d(%relu5, %conv8.w, %conv8.b) stride_h=2 stride_w=2
             %add8 = add(%conv8, %conv7)
             %relu8 = clamp(%add8) clamp=1 high=inf
             %pool = average_pool(%relu8) stride_h=8 stride_w=8 kernel_h=8 kernel_w=8
             %flat = reshape(%pool) rank=2 dims=[2, 64]
             %fc = dense(%flat, %fc.w, %fc.b))",
          {}};
}

Definition transformer() {
  return {{8, 6, 16},
          R"(%ln1 = layer_norm(%x, %ln1.scale, %ln1.bias) epsilon=1e-05
             %query = dense(%ln1, %query.w, %query.b)
             %query.heads = reshape(%query) rank=4 dims=[8, 6, 4, 4]
             %query.split = transpose(%query.heads) perm=[0, 2, 1, 3]
             %key = dense(%ln1, %key.w, none)
             %key.heads = reshape(%key) rank=4 dims=[8, 6, 4, 4]
             %key.split = transpose(%key.heads) perm=[0, 2, 1, 3]
             %value = dense(%ln1, %value.w, %value.b)
             %value.heads = reshape(%value) rank=4 dims=[8, 6, 4, 4]
             %value.split = transpose(%value.heads) perm=[0, 2, 1, 3]
             %products = batched_matmul(%query.split, %key.split) transpose_b=1
             %scores = mul(%products, %half)
             %weights = softmax(%scores) axis=3 beta=1
             %mixed = batched_matmul(%weights, %value.split)
             %merged = transpose(%mixed) perm=[0, 2, 1, 3]
             %joined = reshape(%merged) rank=3 dims=[8, 6, 16]
             %out = dense(%joined, %out.w, %out.b)
             %sum1 = add(%x, %out)
             %ln2 = layer_norm(%sum1, %ln2.scale, %ln2.bias) epsilon=1e-05
             %fc1 = dense(%ln2, %fc1.w, %fc1.b)
             %gelu = gelu(%fc1)
             %fc2 = dense(%gelu, %fc2.w, %fc2.b)
             %sum2 = add(%sum1, %fc2)
             %mean = mean(%sum2) axes=2
             %head = dense(%mean, %head.w, %head.b))",
          {scale("ln1.scale", 16), bias("ln1.bias", 16), weight("query.w", {16, 16}, -2), bias("query.b", 16),
           weight("key.w", {16, 16}, -2), weight("value.w", {16, 16}, -2), bias("value.b", 16),
           weight("out.w", {16, 16}, -2), bias("out.b", 16), scale("ln2.scale", 16), bias("ln2.bias", 16),
           weight("fc1.w", {32, 16}, -2), bias("fc1.b", 32), weight("fc2.w", {16, 32}, -2), bias("fc2.b", 16),
           weight("head.w", {4, 16}, -1), bias("head.b", 4)}};
}

Definition lstm() {
  return {{8, 7, 6},
          R"(%projected = dense(%x, %lstm.w, %lstm.b)
             %lstm = lstm(%projected, %lstm.r, none, none, none)
             %last = slice(%lstm) begin=[0, 6, 0] size=[8, 1, 12]
             %flat = reshape(%last) rank=2 dims=[8, 12]
             %fc = dense(%flat, %fc.w, %fc.b))",
          {weight("lstm.w", {48, 6}, -1), bias("lstm.b", 48), weight("lstm.r", {48, 12}, -2),
           weight("fc.w", {4, 12}, -1), bias("fc.b", 4)}};
}

// ---- From text to graph

// Returns the text with a declared value for every node's output and every constant. Dims of outputs are inferred
// later.
std::string complete(const Definition& definition, const std::vector<Parameter>& constants) {
  const auto list = [](const std::vector<int64_t>& dims) {
    std::string out;
    for (const int64_t d : dims) out += (out.empty() ? "" : ", ") + std::to_string(d);
    return "[" + out + "]";
  };
  std::string values = "value %x float32 " + list(definition.input) + " batched\n", nodes, line, last;
  for (const Parameter& p : constants) values += "value %" + p.name + " float32 " + list(p.dims) + "\n";
  std::istringstream text(definition.nodes);
  while (std::getline(text, line)) {
    line.erase(0, line.find('%'));
    last = line.substr(0, line.find(' '));
    values += "value " + last + " float32 [1]\n";
    nodes += line + "\n";
  }
  return "graph \"peer\" batch=" + std::to_string(definition.input[0]) + "\n" + values +
         "input \"x\" %x\noutput \"y\" " + last + "\n" + nodes;
}

float uniform(SplitMix64& stream) { return float(stream.next() >> 48) / 32768 - 1; }

std::vector<float> numbers(const PeerNetwork& network, size_t i, const Parameter& p) {
  SplitMix64 stream(1000 * uint64_t(network.index) + i);
  int64_t elements = 1;
  for (const int64_t d : p.dims) elements *= d;
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& v : values) v = p.offset + std::ldexp(uniform(stream), p.exponent);
  return values;
}

void fill(Graph& graph, const std::string& name, const std::vector<float>& numbers) {
  for (Value& v : graph.values) {
    if (v.name != name) continue;
    std::vector<uint8_t> bytes(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    v.stored = ElementType::kFloat32;
    v.region = Region::kWeights;
  }
}

struct Loaded {
  Parameter shape;
  std::vector<float> numbers;
};

// Reads weights and biases of the conv2d and dense nodes, in the order of the file.
std::vector<Loaded> resnet_parameters(const std::filesystem::path& models) {
  static constexpr const char* kNames[] = {"conv0.w", "conv0.b", "conv1.w", "conv1.b", "conv2.w", "conv2.b", "conv3.w",
                                           "conv3.b", "conv4.w", "conv4.b", "conv5.w", "conv5.b", "conv6.w", "conv6.b",
                                           "conv7.w", "conv7.b", "conv8.w", "conv8.b", "fc.w",    "fc.b"};
  const std::string path = (models / "pretrainedResnet.tflite").string();
  const Graph graph = import_network(path);
  std::vector<Loaded> loaded;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kConv2d && node.op != Op::kDense) continue;
    for (const size_t slot : {1, 2}) {
      if (loaded.size() == std::size(kNames)) throw Error(kBadInput, path, "has more than ten layers with weights");
      const Value& v = graph.values[size_t(node.inputs.at(slot))];
      loaded.push_back({{kNames[loaded.size()], v.dims, 0}, reals(v)});
    }
  }
  if (loaded.size() != std::size(kNames)) throw Error(kBadInput, path, "has fewer than ten layers with weights");
  return loaded;
}

// Returns constants that are not parameters: running statistics of batch norms, and the factor of attention.
std::vector<Loaded> further_constants(const std::string& name) {
  if (name == "transformer") return {{{"half", {1}, 0}, {0.5f}}};  // 1 / sqrt(4), 4 the width of a head
  if (name != "cnn") return {};
  std::vector<Loaded> constants;
  for (const auto& [norm, channels] : {std::pair("bn1", 8), std::pair("bn2", 16)})
    for (const auto& [suffix, number] : {std::pair(".mean", 0.0f), std::pair(".variance", 1.0f)})
      constants.push_back({{std::string(norm) + suffix, {channels}, 0}, std::vector<float>(size_t(channels), number)});
  return constants;
}

struct Training {
  const char* name;
  Definition (*definition)();
  bool squared_error, adam;
  int rate_exponent, classes;
  bool pixels = false;
};
constexpr Training kTraining[] = {{"mlp", &mlp, true, false, -5, 4},
                                  {"cnn", &cnn, false, true, -8, 5},
                                  {"resnet8", &resnet8, false, false, -24, 10, true},
                                  {"transformer", &transformer, false, true, -9, 4},
                                  {"lstm", &lstm, false, false, -4, 4}};

}  // namespace

PeerNetwork peer_network(const std::string& name, const std::filesystem::path& models) {
  const Training* row = std::ranges::find(kTraining, name, &Training::name);
  if (row == std::end(kTraining)) throw Error(kFailed, name, "no such network");
  const Definition definition = row->definition();
  PeerNetwork network = {.name = name,
                         .index = int(row - kTraining) + 1,
                         .graph = {},
                         .parameters = {},
                         .squared_error = row->squared_error,
                         .adam = row->adam,
                         .learning_rate = std::ldexp(1.0f, row->rate_exponent),
                         .batch = int(definition.input[0]),
                         .batches = 4,
                         .classes = row->classes,
                         .pixels = row->pixels};

  std::vector<Loaded> constants = row->pixels ? resnet_parameters(models) : std::vector<Loaded>();
  for (size_t i = 0; i < definition.parameters.size(); ++i)
    constants.push_back({definition.parameters[i], numbers(network, i, definition.parameters[i])});
  for (const Loaded& c : constants) network.parameters.push_back(c.shape.name);
  for (Loaded& c : further_constants(name)) constants.push_back(std::move(c));

  std::vector<Parameter> declared;
  for (const Loaded& c : constants) declared.push_back(c.shape);
  Graph& graph = network.graph = parse(complete(definition, declared));
  for (const Loaded& c : constants) fill(graph, c.shape.name, c.numbers);
  for (Node& node : graph.nodes) {
    node.name = graph.values[size_t(node.outputs[0])].name;
    node.layer = graph.add_layer({.name = node.name, .source_op = find_rule(node.op)->name, .policy = {}});
  }
  infer_shapes(graph);
  mark_batched(graph, true);
  check(graph);
  return network;
}

PeerBatch peer_batch(const PeerNetwork& network, int step) {
  const uint64_t seed = 1000 * uint64_t(network.index) + 500 + 2 * uint64_t(step % network.batches);
  SplitMix64 inputs(seed), targets(seed + 1);
  PeerBatch batch;
  batch.x.resize(size_t(network.graph.values[size_t(network.graph.inputs.at(0).value)].elements()));
  for (float& v : batch.x) v = network.pixels ? float(inputs.next() >> 56) : uniform(inputs);
  if (network.squared_error) {
    batch.targets.resize(size_t(network.batch * network.classes));
    for (float& v : batch.targets) v = uniform(targets);
  } else {
    batch.labels.resize(size_t(network.batch));
    for (int32_t& label : batch.labels) label = int32_t((targets.next() >> 33) % uint64_t(network.classes));
  }
  return batch;
}

std::vector<size_t> peer_places(const PeerNetwork& network, size_t i, size_t elements) {
  constexpr size_t kMost = 64;
  std::vector<size_t> places(std::min(elements, kMost));
  SplitMix64 stream(1000 * uint64_t(network.index) + 900 + i);
  for (size_t j = 0; j < places.size(); ++j) places[j] = elements <= kMost ? j : size_t(stream.next() % elements);
  return places;
}

}  // namespace nacre::test
