#include <algorithm>
#include <vector>

#include "engine/ops/op.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/graph/operands.h"
#include "tools/passes/front_end.h"

namespace nacre::tools {
namespace {

const Value& only_input(const Graph& graph) {
  if (graph.inputs.size() != 1)
    throw Error(kUnsupported, option("front-end"),
                graph.source + " has " + std::to_string(graph.inputs.size()) + " inputs", "a stream has one");
  return graph.values[size_t(graph.inputs[0].value)];
}

std::string type_and_shape(const Value& v) { return std::string(name_of(v.type)) + " " + shape_text(v.dims); }

// Returns whether the node itself writes its input i.
bool updates(const OpRule& rule, size_t i) {
  return !rule.inputs.empty() && rule.inputs[std::min(i, rule.inputs.size() - 1)][0] == '&';
}

class StreamBuilder {
 public:
  StreamBuilder(Graph& network, const Graph& front_end, const FrontEndRequest& request)
      : graph_(network), front_(front_end), hop_(request.hop), hops_(request.hops) {
    measure();
    for (const Layer& layer : front_.layers) layers_.push_back(graph_.add_layer(layer));
    shared_.assign(front_.values.size(), kNone);
    for (size_t id = 0; id < front_.values.size(); ++id) {
      const Value& v = front_.values[id];
      if (v.constant() || v.persists()) shared_[id] = graph_.add(v);
    }
  }

  void join() {
    const ValueId window = graph_.inputs[0].value;
    const ValueId samples = with_older(add_input());
    std::vector<ValueId> features;
    before_ = shared_;
    for (int64_t i = 0; i < hops_; ++i) features.push_back(frame(samples, i));
    for (const Node& store : kept_) steps_.push_back(store);
    const ValueId read = ring(features);
    reshape(read, window, "features/window");
    graph_.nodes.insert(graph_.nodes.begin(), steps_.begin(), steps_.end());
    graph_.nodes.insert(graph_.nodes.end(), last_.begin(), last_.end());
    for (Value& v : graph_.values) v.batched = false;
    graph_.fallbacks.insert(graph_.fallbacks.end(), front_.fallbacks.begin(), front_.fallbacks.end());
    graph_.log.push_back("join_front_end: a run takes " + std::to_string(hops_ * hop_) + " samples, keeps " +
                         std::to_string(length_ - hop_) + " samples and " + std::to_string(rows_) + " x " +
                         std::to_string(width_) + " features");
  }

 private:
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }

  // Finds L, F and R of the two graphs. Throws an Error that says which shapes do not fit.
  void measure() {
    const Value &x = only_input(front_), &window = only_input(graph_);
    if (front_.outputs.size() != 1)
      throw Error(kUnsupported, option("front-end"),
                  front_.source + " has " + std::to_string(front_.outputs.size()) + " outputs", "features are one");
    const Value& y = front_.values[size_t(front_.outputs[0].value)];
    width_ = y.elements();
    length_ = x.elements();
    rows_ = window.elements() / width_;
    const std::string fact =
        "the front end gives " + type_and_shape(y) + " and the network reads " + type_and_shape(window);
    if (y.type != window.type) throw Error(kUsage, option("front-end"), fact, "both must be of one type");
    if (window.elements() % width_ != 0 || rows_ < 1)
      throw Error(kUsage, option("front-end"), fact, "a window is whole rows of features");
    if (y.quantizer && window.quantizer &&
        (y.quantizer->scale != window.quantizer->scale || y.quantizer->zero != window.quantizer->zero))
      throw Error(kUsage, option("front-end"), fact + ", codes of another scale or zero point",
                  "quantize both with the same numbers");
    if (x.dims.empty() || x.dims.back() != length_)
      throw Error(kUnsupported, option("front-end"), "its input " + type_and_shape(x) + " is not one row of samples");
    if (hop_ > length_)
      throw Error(kUsage, option("hop", std::to_string(hop_)),
                  "is more than the " + std::to_string(length_) + " samples of a frame, which would leave some out");
    if (hops_ > rows_)
      throw Error(kUsage, option("hops", std::to_string(hops_)),
                  "is more than the " + std::to_string(rows_) + " rows that the network reads");
  }

  ValueId made(const std::string& name, ElementType type, std::vector<int64_t> dims) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    return graph_.add(std::move(v));
  }

  ValueId state(const std::string& name, ElementType type, std::vector<int64_t> dims) {
    const ValueId s = made(name, type, std::move(dims));
    value(s).region = Region::kStream;
    return s;
  }

  ValueId add_input() {
    const Value& x = front_.values[size_t(front_.inputs[0].value)];
    std::vector<int64_t> dims = x.dims;
    dims.back() = hops_ * hop_;
    const ValueId y = made(x.name, x.type, dims);
    graph_.inputs = {{front_.inputs[0].name, y, ""}};
    return y;
  }

  // Returns elements [begin, begin + size) of the last axis. Returns x itself if these are all of x.
  ValueId slice(ValueId x, int64_t begin, int64_t size, const std::string& name) {
    std::vector<int64_t> dims = value(x).dims;
    if (size == dims.back()) return x;
    dims.back() = size;
    const ValueId y = made(name, value(x).type, dims);
    Node node = make_step(Op::kSlice, Node(), name, {x}, {y});
    for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "size", int(dims[i]), int(i));
    set_integer(node, "begin", int(begin), int(dims.size()) - 1);
    steps_.push_back(std::move(node));
    return y;
  }

  // Concatenates along the last axis.
  ValueId concat(std::vector<ValueId> parts, const std::string& name) {
    if (parts.size() == 1) return parts[0];
    std::vector<int64_t> dims = value(parts[0]).dims;
    dims.back() = 0;
    for (const ValueId part : parts) dims.back() += value(part).dims.back();
    const ElementType type = value(parts[0]).type;
    const ValueId y = made(name, type, dims);
    Node node = make_step(Op::kConcat, Node(), name, std::move(parts), {y});
    set_integer(node, "axis", int(dims.size()) - 1);
    steps_.push_back(std::move(node));
    return y;
  }

  void reshape(ValueId x, ValueId y, const std::string& name) {
    Node node = make_step(Op::kReshape, Node(), name, {x}, {y});
    const std::vector<int64_t>& dims = value(y).dims;
    set_integer(node, "rank", int(dims.size()));
    for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "dims", int(dims[i]), int(i));
    steps_.push_back(std::move(node));
  }

  void store(ValueId x, ValueId s, const std::string& name) {
    const ValueId y = made(name + "/stored", value(x).type, value(x).dims);
    last_.push_back(make_step(Op::kStore, Node(), name + "/store", {x, s}, {y}));
  }

  // Returns t = concat(s, x), and stores the last samples of t in s.
  ValueId with_older(ValueId x) {
    if (length_ == hop_) return x;
    std::vector<int64_t> dims = value(x).dims;
    dims.back() = length_ - hop_;
    const ValueId s = state(value(x).name + "/older", value(x).type, dims);
    const ValueId t = concat({s, x}, value(x).name + "/frames");
    store(slice(t, hops_ * hop_, length_ - hop_, value(x).name + "/last"), s, value(x).name + "/older");
    return t;
  }

  // Returns the features f_i of frame i. Each frame reads the front end's state as the frame before left it. Only the
  // last frame's state is stored.
  ValueId frame(ValueId samples, int64_t i) {
    std::vector<ValueId> ids = before_;
    ids[size_t(front_.inputs[0].value)] = slice(samples, i * hop_, length_, "frame");
    for (const Node& node : front_.nodes) {
      const OpRule& rule = rule_of(front_, node);
      if (node.op == Op::kStore && i + 1 < hops_) {
        ids[size_t(node.outputs[0])] = ids[size_t(node.inputs[1])] = ids[size_t(node.inputs[0])];
        before_[size_t(node.inputs[1])] = ids[size_t(node.inputs[0])];
        continue;
      }
      Node copy = node;
      if (copy.layer != kNone) copy.layer = layers_[size_t(copy.layer)];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] == kNone) continue;
        const bool stored = node.op == Op::kStore && k == 1;
        if (!stored && updates(rule, k) && hops_ > 1)
          throw Error(kUnsupported, option("hops", std::to_string(hops_)),
                      node.name + " (" + rule.name + ") keeps its own state",
                      "run it for every hop: " + option("hops", "1"));
        copy.inputs[k] = stored ? shared_[size_t(node.inputs[k])] : ids[size_t(node.inputs[k])];
      }
      for (ValueId& y : copy.outputs) y = ids[size_t(y)] = graph_.add(front_.values[size_t(y)]);
      (node.op == Op::kStore ? kept_ : steps_).push_back(std::move(copy));
    }
    const ValueId y = made("features", value(ids[size_t(front_.outputs[0].value)]).type, {width_});
    reshape(ids[size_t(front_.outputs[0].value)], y, "features");
    return y;
  }

  // Returns r', the features that the network reads, and stores it in r.
  ValueId ring(std::vector<ValueId> features) {
    if (rows_ == hops_) return concat(std::move(features), "features/all");
    const ValueId r = state("features/older", value(features[0]).type, {rows_ * width_});
    features.insert(features.begin(), slice(r, hops_ * width_, (rows_ - hops_) * width_, "features/kept"));
    const ValueId y = concat(std::move(features), "features/all");
    store(y, r, "features/older");
    return y;
  }

  Graph& graph_;
  const Graph& front_;
  const int64_t hop_, hops_;                   // H, N
  int64_t length_ = 0, width_ = 0, rows_ = 0;  // L, F, R
  std::vector<int> layers_;                    // per layer of the front end: its layer here
  std::vector<ValueId> shared_;                // per value of the front end: its constant or state here, or kNone
  std::vector<ValueId> before_;                // `shared_`, but with the states that the frame before left
  std::vector<Node> steps_, kept_, last_;
};

}  // namespace

void join_front_end(Graph& network, const Graph& front_end, const FrontEndRequest& request) {
  StreamBuilder(network, front_end, request).join();
}

}  // namespace nacre::tools
