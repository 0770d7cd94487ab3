#include "tools/differentiate/trained_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "engine/numeric/fixed_point.h"
#include "engine/ops/fake_quantize.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/differentiate/parameters.h"
#include "tools/graph/code_ends.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

template <class T>
std::shared_ptr<const std::vector<uint8_t>> bytes_of(const std::vector<T>& x) {
  const auto* first = reinterpret_cast<const uint8_t*>(x.data());
  return std::make_shared<const std::vector<uint8_t>>(first, first + x.size() * sizeof(T));
}

// Returns whether the op moves codes without changing them, if its operands have one quantizer.
bool moves(Op op) { return op == Op::kMaxPool || find_rule(op)->numerics == Numerics::kMove; }

bool same(const Quantizer& a, const Quantizer& b) {
  return a.codes == b.codes && a.scale == b.scale && a.zero == b.zero;
}

class TrainCodes {
 public:
  TrainCodes(Graph& graph, Graph& infer) : graph_(graph), infer_(infer) {
    for (size_t i = 0; i < infer.nodes.size(); ++i)
      if (runs_in_int8(infer.nodes[i])) steps_.emplace(infer.values[size_t(infer.nodes[i].inputs[kW])].name, i);
  }

  void run(const TrainedParameters& options) {
    const std::vector<ValueId> stored = stored_values(graph_);
    const std::vector<int> layers = layers_to_train(
        graph_, options,
        [&](const Node& node) { return step_of(node) != nullptr && !reads_frozen(graph_, node, stored); },
        "int8 codes");
    std::set<std::string> frozen;
    const std::vector<Node> nodes = std::move(graph_.nodes);
    find_inner(nodes);
    graph_.nodes.clear();
    for (Node node : nodes) {
      const Node* step = step_of(node);
      const bool trains = step != nullptr && std::ranges::find(layers, node.layer) != layers.end();
      if (trains) train(node, *step, options.biases_only);
      else
        for (const ValueId id : node.inputs)
          if (id != kNone && graph_.values[size_t(id)].constant()) frozen.insert(graph_.values[size_t(id)].name);
      push(std::move(node));
    }
    for (const auto& [name, id] : reals_)
      if (frozen.contains(name))
        throw Error(kUnsupported, graph_.source, name + " belongs to a layer that trains and to one that does not",
                    "train both, or neither");
    if (reals_.empty())
      throw Error(kUsage, graph_.source, "there are no codes to train: no layer that was named runs in int8",
                  "name a network in int8, or make the model with nacre convert " + option("train", "LOSS") + " " +
                      option("train-codes") + " " + option("policy", "int8/static_from_float32") + " " +
                      option("calibrate", "FILE"));
    for (Value& v : graph_.values)
      if (rounded_.contains(v.name)) v.quantizer.reset();
    infer_.nodes.insert(infer_.nodes.begin(), derived_.begin(), derived_.end());
  }

 private:
  // Returns whether a node is a matmul on codes with constant weights, after apply_policy.
  bool runs_in_int8(const Node& node) const {
    if (!is_matmul(node.op) || node.inputs.size() <= kScale || node.inputs[kScale] == kNone || node.inputs[kX] == kNone)
      return false;
    const Value &x = infer_.values[size_t(node.inputs[kX])], &w = infer_.values[size_t(node.inputs[kW])],
                &y = infer_.values[size_t(node.outputs[0])];
    return w.constant() && w.type == ElementType::kInt8 && w.quantizer && x.type == ElementType::kInt8 && x.quantizer &&
           y.type == ElementType::kInt8;
  }

  // Finds the values that steps compute with. Copies and dequantize do not count.
  void find_inner(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      if (node.op != Op::kCopy && node.op != Op::kDequantize) inner_.insert(node.inputs.begin(), node.inputs.end());
  }

  const Node* step_of(const Node& node) const {
    if (!is_matmul(node.op) || node.layer == kNone) return nullptr;
    const auto found = steps_.find(graph_.values[size_t(node.inputs[kW])].name);
    return found == steps_.end() ? nullptr : &infer_.nodes[found->second];
  }

  void train(Node& node, const Node& step, bool biases_only) {
    const Value& w = infer_.values[size_t(step.inputs[kW])];
    const std::vector<float> w_scale = w.quantizer->scale;
    const double x_scale = double(infer_.values[size_t(step.inputs[kX])].quantizer->scale[0]);
    if (!biases_only) node.inputs[kW] = real(node, node.inputs[kW], step.inputs[kW], w_scale, channel_axis(node.op));
    if (node.inputs.size() <= kBias || node.inputs[kBias] == kNone) return;
    std::vector<float> steps;
    for (const float s : w_scale) steps.push_back(float(x_scale * double(s)));
    node.inputs[kBias] = real(node, node.inputs[kBias], step.inputs[kBias], steps, 0);
  }

  // Returns the real numbers of a master, which replace the constant `id`. `codes` is the constant in infer.
  ValueId real(const Node& near, ValueId id, ValueId codes, const std::vector<float>& steps, size_t axis) {
    const std::string name = graph_.values[size_t(id)].name;
    if (const auto found = reals_.find(name); found != reals_.end()) return found->second;
    const std::vector<int64_t> dims = graph_.values[size_t(id)].dims;
    const Value& constant = infer_.values[size_t(codes)];
    if (steps.size() > 1 && (constant.dims != dims || axis >= dims.size() || dims[axis] != int64_t(steps.size())))
      throw Error(kUnsupported, graph_.source, name + " has another axis of channels than its scales",
                  "train other layers: " + option("train-layers", "PATTERN"));
    const bool bias = constant.type == ElementType::kInt32;
    Value master;
    master.name = name + kMaster;
    master.dims = dims;
    master.region = Region::kState;
    master.trainable = true;
    std::vector<float> initial;
    if (bias)
      for (const int64_t code : integers(constant)) initial.push_back(float(code));
    else
      for (const uint8_t byte : *constant.data) initial.push_back(float(int8_t(byte)));
    master.initial = bytes_of(initial);
    derive_codes(master, codes, bias);

    Value y;
    y.name = name + "/real";
    y.dims = dims;
    Node round = make_step(Op::kFakeQuantize, near, y.name, {graph_.add(master), kNone}, {});
    round.inputs.push_back(graph_.constant(name + "/step", {int64_t(steps.size())}, steps));
    round.outputs = {graph_.add(std::move(y))};
    set_integer(round, "rule", bias ? FakeQuantize::kInt32Codes : FakeQuantize::kInt8Codes);
    if (steps.size() > 1) {
      set_integer(round, "per_channel", 1);
      set_integer(round, "axis", int(axis));
    }
    const ValueId made = round.outputs[0];
    graph_.nodes.push_back(std::move(round));
    depends_.insert(made);
    reals_.emplace(name, made);
    return made;
  }

  // Replaces infer's constant by the output of steps on the master: quantize for int8 codes, rounding and then a cast
  // for int32 codes.
  void derive_codes(const Value& master, ValueId codes, bool bias) {
    const ValueId x = infer_.add(master), one = infer_.constant(master.name + "/one", {1}, std::vector<float>{1});
    if (bias) {
      Value rounded;
      rounded.name = master.name + "/rounded";
      rounded.dims = master.dims;
      Node round = make_step(Op::kFakeQuantize, Node(), rounded.name, {x, kNone, one}, {});
      set_integer(round, "rule", FakeQuantize::kInt32Codes);
      round.outputs = {infer_.add(std::move(rounded))};
      derived_.push_back(round);
      derived_.push_back(make_step(Op::kCast, Node(), master.name + "/cast", {round.outputs[0]}, {codes}));
    } else {
      derived_.push_back(make_step(Op::kQuantize, Node(), master.name + "/quantize", {x, one, kNone}, {codes}));
      derived_.back().rounding = Rounding::kHalfAway;
    }
    Value& v = infer_.values[size_t(codes)];
    v.data = nullptr;
    v.stored = ElementType::kNone;
  }

  bool depends(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId id) { return depends_.contains(id); });
  }

  bool only_moves(const Node& node, const Quantizer& y) const {
    return moves(node.op) && std::ranges::all_of(node.inputs, [&](ValueId id) {
             if (id == kNone || graph_.values[size_t(id)].constant()) return true;
             const std::optional<Quantizer>& x = graph_.values[size_t(id)].quantizer;
             return x && same(*x, y);
           });
  }

  // Returns whether a node gives probabilities that are the network's output, maybe through a copy. The loss skips
  // such a node.
  bool ends_in(const Node& node) const {
    return (node.op == Op::kSoftmax || node.op == Op::kSigmoid) && !inner_.contains(node.outputs[0]);
  }

  // Adds the node. If its outputs depend on a master, steps round them to codes, except behind only_moves and ends_in.
  void push(Node node) {
    if (!depends(node)) return graph_.nodes.push_back(std::move(node));
    std::vector<Node> behind;
    for (ValueId& y : node.outputs) {
      depends_.insert(y);
      const Value v = graph_.values[size_t(y)];
      if (!v.quantizer || v.quantizer->scale.size() != 1) continue;
      rounded_.insert(v.name);
      if (only_moves(node, *v.quantizer) || ends_in(node)) continue;
      Value before = v;
      before.name += "/real";
      before.quantizer.reset();
      Node round = make_step(Op::kFakeQuantize, node, v.name + "/round",
                             {graph_.add(std::move(before)), range_of(v), kNone}, {y});
      y = round.inputs[0];
      depends_.insert(y);
      behind.push_back(std::move(round));
    }
    graph_.nodes.push_back(std::move(node));
    for (Node& round : behind) graph_.nodes.push_back(std::move(round));
  }

  ValueId range_of(const Value& v) {
    const double scale = double(v.quantizer->scale[0]),
                 zero = double(v.quantizer->zero.empty() ? 0 : v.quantizer->zero[0]);
    const CodeEnds codes = code_ends(v.quantizer->codes);
    return graph_.constant(v.name + "/range", {2},
                           std::vector<float>{float(scale * (codes.low - zero)), float(scale * (codes.high - zero))});
  }

  Graph &graph_, &infer_;
  std::map<std::string, size_t> steps_;   // steps of infer, by the name of their weights
  std::map<std::string, ValueId> reals_;  // trained constants, by name
  std::set<ValueId> inner_;               // values that more than copies read
  std::set<ValueId> depends_;             // values that depend on a master
  std::set<std::string> rounded_;         // names of activations with a quantizer that depend on a master
  std::vector<Node> derived_;             // steps of infer that make codes
};

struct State {
  const LoadedModel& model;
  std::span<const std::byte> bytes;

  // Finds the step that makes the codes of an int32 master (policy int8/full): round_codes, or write_codes, whose
  // codes are state.
  const StepRecord* writer_of(const TensorRecord* r) const {
    const auto id = uint32_t(r - model.model().tensors().data());
    for (const StepRecord& step : model.model().steps()) {
      if (step.op != Op::kRoundCodes && step.op != Op::kWriteCodes) continue;
      if ((model.model().operands(step)[step.op == Op::kRoundCodes ? 0 : 1] & kOperandIdMask) == id) return &step;
    }
    return nullptr;
  }

  std::vector<int32_t> stored(uint32_t operand) const {
    const TensorRecord& r = model.model().tensors()[operand & kOperandIdMask];
    const std::byte* from = bytes.data() + r.offset;
    std::vector<int32_t> codes(size_t(r.bytes) / (r.element == ElementType::kInt8 ? 1 : sizeof(int32_t)));
    if (r.element == ElementType::kInt8)
      for (size_t i = 0; i < codes.size(); ++i) codes[i] = int8_t(from[i]);
    else std::memcpy(codes.data(), from, codes.size() * sizeof(int32_t));
    return codes;
  }

  std::vector<int32_t> codes(const TensorRecord* r) const {
    std::vector<int32_t> codes(size_t(r->bytes) / sizeof(int32_t));
    if (r->element == ElementType::kInt32) {
      const StepRecord* step = writer_of(r);
      if (step != nullptr && step->op == Op::kWriteCodes) return stored(model.model().operands(*step)[2]);
      std::memcpy(codes.data(), bytes.data() + r->offset, codes.size() * sizeof(int32_t));
      const int bits = step == nullptr ? 0 : model.model().words(*step).integer(0);
      for (int32_t& code : codes) code = rounding_shift_right(code, bits);
      return codes;
    }
    std::vector<float> x(codes.size());
    std::memcpy(x.data(), bytes.data() + r->offset, x.size() * sizeof(float));
    std::ranges::transform(x, codes.begin(), [](float code) { return round_half_away(code); });
    return codes;
  }

  const TensorRecord* find(const std::string& name) const {
    for (uint32_t id = 0; id < model.model().tensors().size(); ++id)
      if (model.model().tensors()[id].region == Region::kState && model.tensor_name(id) == name)
        return &model.model().tensors()[id];
    return nullptr;
  }
};

}  // namespace

void train_codes(Graph& graph, Graph& infer, const TrainedParameters& options) {
  TrainCodes(graph, infer).run(options);
}

int with_codes(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state) {
  const State masters = {model, state};
  int taken = 0;
  for (Value& v : simplified.values) {
    const TensorRecord* r = v.constant() ? masters.find(v.name + kMaster) : nullptr;
    if (r == nullptr) continue;
    const bool int8 = v.stored == ElementType::kInt8, uint8 = v.stored == ElementType::kUint8;
    if (!v.quantizer || (!int8 && !uint8 && v.stored != ElementType::kInt32))
      throw Error(kUnsupported, simplified.source, v.name + " was trained in codes that it has not in this file",
                  "leave out " + option("network"));
    if (!std::equal(v.dims.begin(), v.dims.end(), r->dims, r->dims + r->rank))
      throw Error(kBadInput, model.path(),
                  fmt::format("its state tensor {} has another shape than the network's", v.name + kMaster),
                  "name the network that the training model was made of");
    const std::vector<int32_t> codes = masters.codes(r);
    if (v.stored == ElementType::kInt32) {
      v.data = bytes_of(codes);
    } else {
      std::vector<uint8_t> narrow;
      const int lowest = r->element == ElementType::kInt32 ? -127 : -128;  // as round_codes saturates int32 masters
      for (const int32_t code : codes)
        narrow.push_back(uint8_t(uint8_t(std::max(lowest, int(clamp_to_int8(code)))) ^ (uint8 ? 0x80 : 0)));
      v.data = bytes_of(narrow);
    }
    ++taken;
  }
  return taken;
}

}  // namespace nacre::tools
