#include "tools/differentiate/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/parameters.h"
#include "tools/graph/layouts.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

// Returns whether a node can have an adapter. `stored` is stored_values() of the graph.
bool takes_adapter(const Node& node, const std::vector<ValueId>& stored) {
  const bool takes = node.op == Op::kDense || (node.op == Op::kConv2d && get_integer(node, "groups") == 1);
  return takes && node.layer != kNone && stored[size_t(node.inputs[kW])] != kNone;
}

// Knuth's MMIX generator. Its upper 24 bits give a number in [-1, 1).
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return float(state_ >> 40) / float(1 << 23) - 1;
  }

 private:
  uint64_t state_;
};

class AddAdapters {
 public:
  AddAdapters(Graph& graph, const AdapterOptions& options, uint64_t seed)
      : graph_(graph), options_(options), random_(seed) {}

  void run(const std::vector<std::string>& layers) {
    const std::vector<ValueId> stored = stored_values(graph_);
    std::vector<Node> nodes;
    for (Node node : std::vector<Node>(graph_.nodes)) {
      const bool named = node.layer != kNone && std::ranges::count(layers, graph_.layers[size_t(node.layer)].name) > 0;
      if (named && takes_adapter(node, stored)) adapt(nodes, std::move(node));
      else nodes.push_back(std::move(node));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }

  ValueId weights(const std::string& name, std::vector<int64_t> dims, bool random) {
    for (size_t id = 0; id < graph_.values.size(); ++id)
      if (graph_.values[id].name == name) return ValueId(id);  // two layers share the weights
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    std::vector<float> data(size_t(elements), 0);
    const float bound = 1 / std::sqrt(float(elements / dims[0]));
    for (float& v : data)
      if (random) v = bound * random_.next();
    return graph_.constant(name, std::move(dims), data);
  }

  ValueId step(std::vector<Node>& nodes, Node node, const std::string& name, std::vector<ValueId> inputs) {
    Value y;
    y.name = name;
    y.batched = value(inputs[0]).batched;
    node.name = name;
    node.inputs = std::move(inputs);
    node.outputs = {graph_.add(std::move(y))};
    infer_shapes(graph_, node);
    nodes.push_back(node);
    return node.outputs[0];
  }

  int adapter_layer(int of) {
    if (const auto found = layers_.find(of); found != layers_.end()) return found->second;
    Layer layer = graph_.layers[size_t(of)];
    layer.name += kAdapterLayer;
    layer.policy.quantization = Quantization::kNone;
    return layers_[of] = graph_.add_layer(std::move(layer));
  }

  void adapt(std::vector<Node>& nodes, Node node) {
    const ValueId x = node.inputs[kX], y = node.outputs[0];
    const std::string name = value(node.inputs[kW]).name, prefix = value(y).name + kAdapterLayer;
    std::vector<int64_t> a_dims = value(node.inputs[kW]).dims, b_dims(a_dims.size(), 1);
    b_dims[0] = a_dims[0];
    b_dims.back() = options_.rank;
    a_dims[0] = options_.rank;

    Node down;
    down.op = node.op;
    down.layer = adapter_layer(node.layer);
    Node up = down, scale = down, sum = down;
    down.words = node.words;
    for (const char* word : {"clamp", "low", "high", "x_zero", "y_zero"}) set_integer(down, word, 0);
    scale.op = Op::kMul;
    sum.op = Op::kAdd;
    if (get_integer(node, "clamp") != 0) {
      set_integer(sum, "clamp", 1);
      for (const char* bound : {"low", "high"}) set_real(sum, bound, get_real(node, bound));
      for (const char* word : {"clamp", "low", "high"}) set_integer(node, word, 0);
      clamped_ = true;
    }

    // The frozen layer's output keeps the quantizer of y, unless its codes would cut off numbers before the
    // activation.
    Value base = value(y);
    base.name += kFrozen;
    if (base.quantizer && (clamped_ || (!base.quantizer->zero.empty() && base.quantizer->zero[0] <= -128)))
      base.quantizer.reset();
    clamped_ = false;
    node.outputs[0] = graph_.add(std::move(base));
    nodes.push_back(node);

    const ValueId bias = kNone;
    const ValueId h = step(nodes, down, prefix + "/a", {x, weights(name + kAdapterA, std::move(a_dims), true), bias});
    const ValueId factor =
        graph_.constant(prefix + kAdapterFactor, {1}, std::vector<float>{options_.alpha / float(options_.rank)});
    const ValueId scaled = step(nodes, scale, prefix + "/scaled", {h, factor});
    const ValueId delta =
        step(nodes, up, prefix + "/b", {scaled, weights(name + kAdapterB, std::move(b_dims), false), bias});
    sum.name = prefix;
    sum.inputs = {node.outputs[0], delta};
    sum.outputs = {y};
    nodes.push_back(std::move(sum));
  }

  Graph& graph_;
  const AdapterOptions& options_;
  Uniform random_;
  std::map<int, int> layers_;
  bool clamped_ = false;
};

// Returns the numbers of a tensor of this region as float32. A state tensor must be named `name`; a tensor of another
// region must have `name` in its name. nullopt if there is no such tensor.
std::optional<std::vector<float>> numbers_of(const LoadedModel& model, std::span<const std::byte> state, Region region,
                                             const std::string& name) {
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    const std::string of = model.tensor_name(id);
    if (r.region != region || (region == Region::kState ? of != name : of.find(name) == of.npos)) continue;
    Value v;
    v.dims.assign(r.dims, r.dims + r.rank);
    v.type = v.stored = r.element;
    const std::byte* data = region == Region::kState ? state.data() + r.offset : model.model().weights(id);
    v.data = std::make_shared<const std::vector<uint8_t>>(row_major_bytes(r, data));
    return reals(v);
  }
  return std::nullopt;
}

// Returns value `id` as a constant. Transposes and reshapes make it of a constant of the graph.
Value constant_form(Graph graph, ValueId id) {
  Value& root = graph.values[size_t(stored_values(graph)[size_t(id)])];
  set_reals(root, reals(root));
  store_frozen_forms(graph);
  return graph.values[size_t(id)];
}

struct Adapter {
  std::vector<float> a, b;
  double factor;
};

// Merges an adapter: W += factor B A with W [outputs, terms],  A [rank, terms],  B [outputs, rank].
void merge(Value& w, const Adapter& adapter, const LoadedModel& model) {
  const auto outputs = size_t(w.dims[0]), rank = adapter.b.size() / outputs,
             terms = adapter.a.size() / std::max<size_t>(rank, 1);
  std::vector<float> sum = reals(w);
  if (sum.size() != outputs * terms || adapter.b.size() != outputs * rank)
    throw Error(kBadInput, model.path(),
                fmt::format("its adapter of {} has another shape than the network's weights", w.name),
                "name the network that the training model was made of");
  for (size_t o = 0; o < outputs; ++o)
    for (size_t i = 0; i < terms; ++i) {
      double delta = 0;
      for (size_t r = 0; r < rank; ++r) delta += double(adapter.b[o * rank + r]) * double(adapter.a[r * terms + i]);
      sum[o * terms + i] = float(double(sum[o * terms + i]) + adapter.factor * delta);
    }
  set_reals(w, sum);
}

// Returns the names of the source's layers that have an adapter in the training model.
std::set<std::string> adapted_layers(const LoadedModel& model) {
  std::set<std::string> layers;
  for (uint32_t layer = 0; layer < model.layer_count(); ++layer) {
    const std::string name = model.layer(layer).name;
    if (name.ends_with(kAdapterLayer))
      layers.insert(name.substr(0, name.size() - std::string_view(kAdapterLayer).size()));
  }
  return layers;
}

// Returns weights `id` as a constant that only adapted layers read. Other layers that share it keep the old numbers.
ValueId own_weights(Graph& graph, const Graph& source, ValueId id, const std::set<std::string>& adapted,
                    const std::vector<ValueId>& stored) {
  bool shared = !source.values[size_t(id)].constant();
  for (const Node& node : source.nodes)
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      if (node.inputs[slot] != id) continue;
      const bool reads_adapted =
          slot == kW && takes_adapter(node, stored) && adapted.contains(source.layers[size_t(node.layer)].name);
      shared = shared || !reads_adapted;
    }
  if (!shared) return id;
  Value copy = constant_form(source, id);
  copy.name = source.values[size_t(id)].name + "/adapted";
  return graph.add(std::move(copy));
}

}  // namespace

TrainedParameters add_adapters(Graph& graph, const AdapterOptions& adapters, const TrainedParameters& train,
                               uint64_t seed) {
  if (!(std::isfinite(adapters.alpha) && adapters.alpha > 0))
    throw Error(kUsage, option("lora-alpha"), fmt::format("{} is no positive number", adapters.alpha));
  std::vector<std::string> layers;
  const std::vector<ValueId> stored = stored_values(graph);
  bool frozen = false;
  const std::vector<bool> reaches = reaching(graph, train);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!reaches[i]) continue;
    if (!takes_adapter(node, stored) || !matches_any(graph.layers[size_t(node.layer)].name, train.layers)) continue;
    frozen = frozen || reads_frozen(graph, node, stored);
    if (reads_frozen(graph, node, stored)) continue;
    const std::string& name = graph.layers[size_t(node.layer)].name;
    if (std::ranges::find(layers, name) == layers.end()) layers.push_back(name);
  }
  if (train.last_layers > 0 && layers.size() > size_t(train.last_layers))
    layers.erase(layers.begin(), layers.end() - train.last_layers);
  if (layers.empty() && frozen)
    throw Error(kUsage, option("lora"), "no layer that was named takes an adapter: the file freezes them",
                "unfreeze them: " + option("unfreeze", "PATTERN") + ", or all");
  if (layers.empty())
    throw Error(kUsage, option("lora"), "no layer that was named takes an adapter: dense, or conv2d without groups",
                "nacre inspect NETWORK lists the layers");
  AddAdapters(graph, adapters, seed).run(layers);
  return {.layers = {std::string(".*") + kAdapterLayer},
          .last_layers = 0,
          .biases_only = false,
          .frozen_batch_norm = true,
          .channels = {},
          .output = train.output};
}

int merge_adapters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state) {
  std::map<std::string, ValueId> merged;  // by the name of the weights
  const std::vector<ValueId> stored = stored_values(simplified);
  // All adapters share one factor, which the file therefore holds once.
  const auto factor = numbers_of(model, state, Region::kWeights, std::string(kAdapterLayer) + kAdapterFactor);
  const std::set<std::string> adapted = adapted_layers(model);
  const Graph source = simplified;
  for (Node& node : simplified.nodes) {
    if (!takes_adapter(node, stored) || !adapted.contains(simplified.layers[size_t(node.layer)].name)) continue;
    const ValueId id = node.inputs[kW];
    const std::string name = source.values[size_t(id)].name;
    if (!merged.contains(name)) {
      const auto a = numbers_of(model, state, Region::kState, name + kAdapterA),
                 b = numbers_of(model, state, Region::kState, name + kAdapterB);
      if (!a || !b) continue;
      if (!factor)
        throw Error(kBadInput, model.path(), "has adapters, but not the factor they count with",
                    "convert the network again");
      const ValueId own = own_weights(simplified, source, id, adapted, stored);
      merge(simplified.values[size_t(own)], {*a, *b, double(factor->at(0))}, model);
      merged.emplace(name, own);
    }
    node.inputs[kW] = merged.at(name);
  }
  return int(merged.size());
}

}  // namespace nacre::tools
