#include "tools/differentiate/trained_channels.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/parameters.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"
#include "tools/passes/simplify/simplify.h"
#include "tools/policies/pattern.h"

namespace nacre::tools {
namespace {

constexpr const char* kFrozenPart = "/frozen_channels";
constexpr const char* kTrainedPart = "/channels";

struct ChannelRange {
  int64_t first, end;
};

// Parts of a name such as "conv1.w/channels[8:16]/bfloat16": the constant, its channels, and the suffix that a pass
// added.
struct PartName {
  std::string whole;
  ChannelRange range;
  std::string made;
};
std::string part_name(const std::string& whole, const char* part, ChannelRange r) {
  return fmt::format("{}{}[{}:{}]", whole, part, r.first, r.end);
}
std::optional<PartName> parse_part(const std::string& name) {
  static const RE2 kPart(R"((.+)/(?:frozen_channels|channels)\[(\d+):(\d+)\](.*))");
  PartName part;
  if (!RE2::FullMatch(name, kPart, &part.whole, &part.range.first, &part.range.end, &part.made)) return std::nullopt;
  return part;
}

bool splits(const Graph& graph, const Node& node) {
  const bool op = node.op == Op::kDense || (node.op == Op::kConv2d && get_integer(node, "groups") == 1);
  return op && node.layer != kNone && graph.values[size_t(node.inputs[kW])].constant();
}

class SplitChannels {
 public:
  explicit SplitChannels(Graph& graph) : graph_(graph) {}

  void run(const TrainedParameters& train) {
    const std::vector<TrainedChannels>& channels = train.channels;
    std::vector<bool> used(channels.size(), false);
    const std::vector<ValueId> stored = stored_values(graph_);
    std::vector<std::string> frozen(channels.size());  // by pattern: a matching layer that the source freezes
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    all_ = &nodes;
    for (Node& node : nodes) {
      const std::string layer = node.layer == kNone ? "" : graph_.layers[size_t(node.layer)].name;
      const auto found = std::ranges::find_if(
          channels, [&](const TrainedChannels& c) { return node.layer != kNone && RE2::FullMatch(layer, c.pattern); });
      if (found == channels.end() || !is_matmul(node.op)) {
        graph_.nodes.push_back(node);
        continue;
      }
      if (reads_frozen(graph_, node, stored)) {
        frozen[size_t(found - channels.begin())] = layer;
        graph_.nodes.push_back(node);
        continue;
      }
      used[size_t(found - channels.begin())] = true;
      if (!matches_any(layer, train.layers))
        throw Error(kUsage, option("train-channels"),
                    fmt::format("'{}' names {}, which is not trained", found->pattern, layer),
                    "name it with " + option("train-layers") + " too");
      split(node, *found);
    }
    for (size_t i = 0; i < channels.size(); ++i)
      if (!used[i] && !frozen[i].empty())
        throw Error(kUsage, option("train-channels"),
                    fmt::format("'{}' names {}, which the file freezes", channels[i].pattern, frozen[i]),
                    "unfreeze it: " + option("unfreeze", in_quotes(channels[i].pattern)));
    for (size_t i = 0; i < channels.size(); ++i)
      if (!used[i])
        throw Error(kUsage, option("train-channels"),
                    fmt::format("'{}' matches no layer whose channels can be trained apart: dense, or conv2d",
                                channels[i].pattern),
                    "nacre inspect NETWORK lists the layers");
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }

  ChannelRange range_of(const Node& node, const TrainedChannels& c) const {
    const int64_t outputs = value(node.inputs[kW]).dims[0];
    if (c.share > 0) return {0, std::clamp(int64_t(std::ceil(c.share * double(outputs) - 1e-9)), int64_t{1}, outputs)};
    if (c.end > outputs)
      throw Error(kUsage, option("train-channels"),
                  fmt::format("{} has {} output channels: there is no {}:{}", graph_.layers[size_t(node.layer)].name,
                              outputs, c.first, c.end),
                  fmt::format("give FIRST:END within 0:{}", outputs));
    return {c.first, c.end};
  }

  void require(const Node& node) const {
    const Layer& layer = graph_.layers[size_t(node.layer)];
    const auto refuse = [&](const std::string& fact, const std::string& remedy) {
      throw Error(kUnsupported, graph_.source, layer.name + " " + fact, remedy);
    };
    if (!splits(graph_, node))
      refuse("cannot be trained by channels: it is no dense and no conv2d without groups, of constant weights",
             "name other layers with " + option("train-channels"));
    if (layer.asked && layer.policy.quantization != Quantization::kNone)
      refuse(
          "cannot be trained by channels under a policy that quantizes it: parts would have other scales than the "
          "whole",
          "train it in float32 or 16 bits, and export " + option("network") + " under that policy");
    for (size_t slot = kW; slot < node.inputs.size() && node.inputs[slot] != kNone; ++slot) {
      int readers = 0;
      for (const Node& other : *all_) readers += int(std::ranges::count(other.inputs, node.inputs[slot]));
      if (readers > 1)
        refuse("shares its weights or its bias with another step: they cannot be trained by channels",
               "name other layers with " + option("train-channels"));
    }
  }

  // Returns rows of a constant. A row has all elements with one index of axis 0.
  ValueId rows(ValueId id, ChannelRange r, const char* part) {
    Value v = value(id);
    const auto rows = size_t(v.dims[0]), first = size_t(r.first), count = size_t(r.end - r.first),
               row_bytes = v.data->size() / rows;
    v.name = part_name(v.name, part, r);
    v.dims[0] = int64_t(count);
    const auto begin = v.data->begin() + std::ptrdiff_t(first * row_bytes);
    v.data = std::make_shared<const std::vector<uint8_t>>(begin, begin + std::ptrdiff_t(count * row_bytes));
    if (v.quantizer && v.quantizer->scale.size() == rows) {
      const auto cut = [&](auto& list) {
        if (list.size() == rows)
          list = {list.begin() + std::ptrdiff_t(first), list.begin() + std::ptrdiff_t(first + count)};
      };
      cut(v.quantizer->scale);
      cut(v.quantizer->zero);
    }
    return graph_.add(std::move(v));
  }

  int frozen_layer(int of) {
    Layer layer = graph_.layers[size_t(of)];
    layer.name += kFrozenPart;
    const auto found = std::ranges::find(graph_.layers, layer.name, &Layer::name);
    return found != graph_.layers.end() ? int(found - graph_.layers.begin()) : graph_.add_layer(std::move(layer));
  }

  void split(const Node& node, const TrainedChannels& c) {
    require(node);
    const int64_t outputs = value(node.inputs[kW]).dims[0];
    const ChannelRange trained = range_of(node, c);
    if (trained.first == 0 && trained.end == outputs) return graph_.nodes.push_back(node);
    const ValueId y = node.outputs[0];
    Node concat = make_step(Op::kConcat, node, node.name + "/concat", {}, {y});
    set_integer(concat, "axis", int(value(y).dims.size()) - 1);
    for (const auto& [range, is_trained] : {std::pair(ChannelRange{0, trained.first}, false), std::pair(trained, true),
                                            std::pair(ChannelRange{trained.end, outputs}, false)}) {
      if (range.first == range.end) continue;
      const char* const part = is_trained ? kTrainedPart : kFrozenPart;
      Node piece = node;
      if (!is_trained) piece.layer = frozen_layer(node.layer);
      piece.inputs[kW] = rows(node.inputs[kW], range, part);
      if (piece.inputs.size() > kBias && piece.inputs[kBias] != kNone)
        piece.inputs[kBias] = rows(node.inputs[kBias], range, part);
      Value out = value(y);
      out.name = part_name(out.name, part, range);
      piece.outputs = {graph_.add(std::move(out))};
      infer_shapes(graph_, piece);
      concat.inputs.push_back(piece.outputs[0]);
      graph_.nodes.push_back(std::move(piece));
    }
    graph_.nodes.push_back(std::move(concat));
  }

  Graph& graph_;
  const std::vector<Node>* all_ = nullptr;
};

// ---- Joins the parts of a split layer into one layer ----

class MergeChannels {
 public:
  explicit MergeChannels(Graph& graph) : graph_(graph) {}

  bool run() {
    bool merged = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) merged = (graph_.nodes[i].op == Op::kConcat && merge(i)) || merged;
    std::erase_if(graph_.nodes, [](const Node& node) { return node.op == Op::kNone; });
    return merged;
  }

 private:
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }

  Node* writer(ValueId id) {
    const auto found =
        std::ranges::find_if(graph_.nodes, [&](const Node& node) { return std::ranges::count(node.outputs, id) > 0; });
    return found == graph_.nodes.end() ? nullptr : &*found;
  }
  int64_t readers(ValueId id) {
    int64_t count = std::ranges::count(graph_.outputs, id, &Binding::value);
    for (const Node& node : graph_.nodes) count += std::ranges::count(node.inputs, id);
    return count;
  }

  // Returns whether a node is the next part of one step: equal op, attributes, input and types, and constants whose
  // rows follow.
  bool fits(const Node& first, const Node& part, int64_t row) {
    if (part.op != first.op || part.words != first.words || part.rounding != first.rounding ||
        part.inputs.size() != first.inputs.size())
      return false;
    for (size_t slot = 0; slot < part.inputs.size(); ++slot) {
      const ValueId a = first.inputs[slot], b = part.inputs[slot];
      if (slot != kW && slot != kBias) {
        if (a != b) return false;
        continue;
      }
      if ((a == kNone) != (b == kNone)) return false;
      if (a == kNone) continue;
      const std::optional<PartName> whole = parse_part(value(a).name), name = parse_part(value(b).name);
      if (!whole || !name || whole->whole != name->whole || name->range.first != row ||
          name->range.end - row != value(b).dims[0])
        return false;
      if (!value(b).constant() || value(a).type != value(b).type || value(b).quantizer) return false;
    }
    return true;
  }

  bool merge(size_t at) {
    std::vector<Node*> parts;
    int64_t row = 0;
    for (const ValueId id : graph_.nodes[at].inputs) {
      Node* part = writer(id);
      if (part == nullptr || !is_matmul(part->op) || readers(id) != 1 ||
          !fits(parts.empty() ? *part : *parts[0], *part, row))
        return false;
      row += value(part->inputs[kW]).dims[0];
      parts.push_back(part);
    }
    if (parts.size() < 2) return false;
    Node whole = *parts[0];
    for (const size_t slot : {size_t{kW}, size_t{kBias}})
      if (slot < whole.inputs.size() && whole.inputs[slot] != kNone) whole.inputs[slot] = join(parts, slot, row);
    const auto trained = std::ranges::find_if(
        parts, [&](const Node* p) { return !is_frozen_part(graph_.layers[size_t(p->layer)].name); });
    if (trained != parts.end()) whole.layer = (*trained)->layer;
    whole.outputs = graph_.nodes[at].outputs;
    for (Node* part : parts) *part = {};
    graph_.nodes[at] = std::move(whole);
    return true;
  }

  ValueId join(const std::vector<Node*>& parts, size_t slot, int64_t rows) {
    Value v = value(parts[0]->inputs[slot]);
    v.dims[0] = rows;
    std::vector<uint8_t> bytes;
    std::string made;  // the longest suffix of the parts' names, because a cast of a constant may add none
    for (const Node* part : parts) {
      const Value& rows_of = value(part->inputs[slot]);
      bytes.insert(bytes.end(), rows_of.data->begin(), rows_of.data->end());
      if (const PartName name = *parse_part(rows_of.name); name.made.size() >= made.size())
        made = name.made, v.name = name.whole + made;
    }
    v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    return graph_.add(std::move(v));
  }

  Graph& graph_;
};

}  // namespace

bool is_frozen_part(const std::string& layer) { return layer.ends_with(kFrozenPart); }

void split_channels(Graph& graph, const TrainedParameters& train) {
  for (const TrainedChannels& c : train.channels)
    require_pattern(c.pattern, {option("train-channels", in_quotes(c.pattern))});
  if (!train.channels.empty()) SplitChannels(graph).run(train);
}

void merge_channels(Graph& graph) {
  const auto stays = [&](const Binding& b) {
    return graph.values[size_t(b.value)].last_step + 1 >= graph.nodes.size();
  };
  const bool keep_inputs = std::ranges::all_of(graph.inputs, stays);  // whether the old plan kept the inputs
  if (graph.banks.size() != 1 || !MergeChannels(graph).run()) return;
  remove_dead_values(graph, {});
  fuse(graph);
  remove_dead_values(graph, {});
  plan_memory(graph, {.name = "", .banks = graph.banks, .keep_inputs = keep_inputs});
  check(graph);
}

int with_channels(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state) {
  int taken = 0;
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    if (r.region != Region::kState || (r.flags & kTrainable) == 0) continue;
    const std::optional<PartName> part = parse_part(model.tensor_name(id));
    if (!part || !part->made.empty()) continue;
    const auto v = std::ranges::find_if(
        simplified.values, [&](const Value& value) { return value.constant() && value.name == part->whole; });
    if (v == simplified.values.end()) continue;
    if (part->range.end > v->dims[0] || part->range.end - part->range.first != r.dims[0])
      throw Error(kBadInput, model.path(),
                  fmt::format("its state tensor {} has another shape than the network's", model.tensor_name(id)),
                  "name the network that the training model was made of");
    Value learned;
    learned.dims.assign(r.dims, r.dims + r.rank);
    learned.type = learned.stored = r.element;
    const auto* first = reinterpret_cast<const uint8_t*>(state.data() + r.offset);
    learned.data = std::make_shared<const std::vector<uint8_t>>(first, first + r.bytes);
    const std::vector<float> numbers = reals(learned);
    std::vector<float> all = reals(*v);
    const size_t row = all.size() / size_t(v->dims[0]), begin = size_t(part->range.first) * row;
    if (begin + numbers.size() > all.size())
      throw Error(kBadInput, model.path(),
                  fmt::format("its state tensor {} has another shape than the network's", model.tensor_name(id)),
                  "name the network that the training model was made of");
    std::ranges::copy(numbers, all.begin() + std::ptrdiff_t(begin));
    std::vector<uint8_t> bytes(all.size() * sizeof(float));
    std::memcpy(bytes.data(), all.data(), bytes.size());
    v->data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    v->stored = v->type = ElementType::kFloat32;
    v->quantizer.reset();
    ++taken;
  }
  return taken;
}

}  // namespace nacre::tools
