// pad_features: pads features and channels to counts that Tensor Cores take, for GPUs.
//
//   dense    x [.., in]        w [out, in]           y [.., out]
//   conv2d   x [n, h, w, in]   w [out, kh, kw, in]   y [n, h, w, out]
//
// `out` becomes a multiple of 8 for 16-bit numbers, of 16 for int8 and float8 codes. w and the bias are padded with
// zeros, scales per channel with their last scale. The padding of y is 0. With int8 it may be any code, because the
// next layer multiplies it by 0. A step after y that keeps 0 as 0 carries the padding on, and the next layer pads w
// with zeros for it. A slice removes the padding at the end of the network, and before other steps: those that mix
// channels (softmax, norms, concat) or map 0 to another number (sigmoid, a clamp above 0).
//
// If kernels sum in order and all numbers are finite, the results equal those without padding, to the byte. A sum
// begins with +0 and is never -0 by rounding to nearest, so adding +0 or -0 changes nothing. Kernels that sum in lanes
// distribute the terms differently.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "engine/ops/conv.h"
#include "engine/ops/dense.h"
#include "engine/ops/pool.h"
#include "tools/graph/op_facts.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

// A value whose last axis has `count` groups of `padded` elements: `channels` numbers of the network, then zeros.
struct Padding {
  int64_t count, channels, padded;
  friend bool operator==(const Padding&, const Padding&) = default;
};

class PadFeatures {
 public:
  explicit PadFeatures(Graph& graph) : graph_(graph) {}

  void run() {
    const std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (const Node& node : nodes)
      for (const ValueId id : node.inputs)
        if (id != kNone) readers_[id].push_back(&node);
    for (Node node : nodes) {
      if (!pad_layer(node) && !take_along(node)) cut_inputs(node);
      graph_.nodes.push_back(std::move(node));
    }
    for (const Binding& output : graph_.outputs)
      if (padding_.contains(output.value)) cut_output(output.value);
  }

 private:
  enum Operand { kX, kW, kBias, kScale };

  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  bool is_output(ValueId id) const {
    return std::ranges::any_of(graph_.outputs, [&](const Binding& b) { return b.value == id; });
  }
  bool has(const Node& node, size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
  static bool is_codes(ElementType type) { return type == ElementType::kInt8 || type == ElementType::kFloat8E4M3; }
  static int64_t multiple_of(ElementType type) {
    if (is_codes(type)) return 16;
    return type == ElementType::kFloat16 || type == ElementType::kBfloat16 ? 8 : 1;
  }
  const Padding* padding_of(ValueId id) const {
    const auto found = padding_.find(id);
    return found == padding_.end() ? nullptr : &found->second;
  }

  // Returns whether a constant may be padded. Its elements must be whole bytes, in its own type.
  bool grows(ValueId id) {
    const Value& v = value(id);
    return v.constant() && v.stored == v.type && v.layout == Layout::kRowMajor && element_bits(v.type) % 8 == 0;
  }
  // Returns whether padding may pass the node's clamp. Bounds of reals must keep 0. int8 codes of padding may become
  // any code. Clamps that are functions are refused.
  bool keeps_zero(const Node& node, int clamp, ElementType y) const {
    const auto word = [&](int i) { return size_t(i) < node.words.size() ? node.words[size_t(i)] : 0; };
    if (word(clamp) == Clamp::kNone || y == ElementType::kInt8) return word(clamp) <= Clamp::kBounds;
    return word(clamp) == Clamp::kBounds && std::bit_cast<float>(word(clamp + 1)) <= 0 &&
           std::bit_cast<float>(word(clamp + 2)) >= 0;
  }

  // ---- Constants.

  // Returns `id` padded along the axis, `count` times, from `channels` to `padded` pieces. The new pieces are zeros,
  // or repeat the last piece.
  ValueId grown(ValueId id, size_t axis, int64_t count, const Padding& p, bool repeats = false) {
    const Value old = value(id);
    const size_t element = size_t(element_bits(old.type) / 8);
    size_t outer = size_t(count), inner = element;
    for (size_t i = 0; i < axis; ++i) outer *= size_t(old.dims[i]);
    for (size_t i = axis + 1; i < old.dims.size(); ++i) inner *= size_t(old.dims[i]);
    const auto from = size_t(p.channels), to = size_t(p.padded);
    std::vector<uint8_t> bytes(outer * to * inner);
    for (size_t i = 0; i < outer; ++i) {
      uint8_t* const piece = bytes.data() + i * to * inner;
      std::memcpy(piece, old.data->data() + i * from * inner, from * inner);
      for (size_t k = from; repeats && k < to; ++k) std::memcpy(piece + k * inner, piece + (from - 1) * inner, inner);
    }
    const bool shared = readers_[id].size() > 1 || is_output(id);
    const ValueId made = shared ? graph_.add(old) : id;
    Value& v = value(made);
    v.dims[axis] = count * p.padded;
    v.data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    v.quantizer.reset();
    v.source_codes.reset();
    if (shared) readers_[made] = {nullptr};
    return made;
  }

  // ---- Layers.

  struct Form {
    int64_t out, groups;
    bool depthwise;
  };
  // Returns the form of a product whose weights are constants that may be padded.
  std::optional<Form> form_of(const Node& node) {
    const bool dense = node.op == Op::kDense, depthwise = node.op == Op::kDepthwiseConv2d;
    if (!is_matmul(node.op) || node.guard != kNone) return std::nullopt;
    const Value &x = value(node.inputs[kX]), &w = value(node.inputs[kW]), &y = value(node.outputs[0]);
    if (w.type != x.type || !grows(node.inputs[kW]) || y.type == ElementType::kInt16) return std::nullopt;
    for (const size_t i : {size_t(kBias), size_t(kScale)})
      if (has(node, i) && !grows(node.inputs[i])) return std::nullopt;
    const auto word = [&](int i) { return size_t(i) < node.words.size() ? node.words[size_t(i)] : 0; };
    const int clamp = dense ? int(Dense::kClamp) : int(Conv2d::kClamp);
    if (word(dense ? int(Dense::kBlock) : int(Conv2d::kBlock)) != 0 || !keeps_zero(node, clamp, y.type))
      return std::nullopt;
    const int64_t groups = dense || depthwise ? 1 : int64_t{word(Conv2d::kGroups)} + 1;
    return Form{y.dims.back(), groups, depthwise};
  }

  bool pad_layer(Node& node) {
    const std::optional<Form> form = form_of(node);
    if (!form || form->groups > 1) return false;
    const Padding* const in = padding_of(node.inputs[kX]);
    const int64_t multiple = multiple_of(value(node.inputs[kX]).type);
    Padding out = {1, form->out, (form->out + multiple - 1) / multiple * multiple};
    if (form->depthwise) {
      if (in == nullptr || in->channels != form->out) return false;
      out = *in;
    } else if (in != nullptr) {
      node.inputs[kW] = grown(node.inputs[kW], value(node.inputs[kW]).dims.size() - 1, in->count, *in);
    }
    if (out.padded == out.channels) return in != nullptr;
    node.inputs[kW] = grown(node.inputs[kW], form->depthwise ? 2 : 0, 1, out);
    if (has(node, kBias)) node.inputs[kBias] = grown(node.inputs[kBias], 0, 1, out);
    if (has(node, kScale) && out.channels > 1 && value(node.inputs[kScale]).dims[0] == out.channels)
      node.inputs[kScale] = grown(node.inputs[kScale], 0, 1, out, true);
    pad(node.outputs[0], out);
    log(node, std::to_string(out.channels) + (out.channels == 1 ? " feature is " : " features are ") +
                  std::to_string(out.padded));
    return true;
  }

  void pad(ValueId y, const Padding& p) {
    padding_[y] = p;
    value(y).dims.back() = p.count * p.padded;
  }

  // ---- Steps between.

  bool take_along(Node& node) {
    const Padding* const found = node.inputs.empty() ? nullptr : padding_of(node.inputs[kX]);
    const Zeros zeros = facts_of(node.op).zeros;
    if (zeros == Zeros::kTogether) return join(node);
    if (found == nullptr || node.guard != kNone) return false;
    const Padding p = *found;
    if (zeros == Zeros::kFlattened) return flatten(node, p);
    if (!leaves_zeros(node)) return false;
    // The operand may be one scale, a requantizing pair or a table, but nothing per channel.
    const int64_t most = node.op == Op::kLookup ? 256 : node.op == Op::kQuantize || node.op == Op::kDequantize ? 1 : 2;
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (has(node, i) && (!value(node.inputs[i]).constant() || value(node.inputs[i]).elements() > most)) return false;
    infer_shapes(graph_, node);
    padding_[node.outputs[0]] = p;
    return true;
  }

  bool leaves_zeros(const Node& node) {
    const Value &x = value(node.inputs[kX]), &y = value(node.outputs[0]);
    switch (facts_of(node.op).zeros) {
      case Zeros::kClamped: return keeps_zero(node, 0, y.type);
      case Zeros::kKept: return true;
      case Zeros::kPooled: return keeps_zero(node, Pool::kClamp, y.type);
      case Zeros::kRanged: return size_t(get_integer(node, "axis")) < x.dims.size();
      case Zeros::kDecoded: return x.type == ElementType::kFloat8E4M3;
      case Zeros::kReduced: return (get_integer(node, "axes") >> (x.dims.size() - 1) & 1) == 0;
      default: return false;
    }
  }

  // Pads a sum, difference or product if both operands are padded alike, or one is and the other is a constant with as
  // many channels.
  bool join(Node& node) {
    const Padding *const a = padding_of(node.inputs[0]), *const b = padding_of(node.inputs[1]);
    if ((a == nullptr && b == nullptr) || node.guard != kNone) return false;
    const Padding p = a != nullptr ? *a : *b;
    for (size_t i = 2; i < node.inputs.size(); ++i)
      if (has(node, i) && !value(node.inputs[i]).constant()) return false;
    if (!keeps_zero(node, 0, value(node.outputs[0]).type)) return false;
    for (size_t i = 0; i < 2; ++i) {
      if (const Padding* const other = padding_of(node.inputs[i]); other != nullptr) {
        if (*other != p) return false;
        continue;
      }
      const Value& v = value(node.inputs[i]);
      if (!grows(node.inputs[i]) || p.count > 1 || v.dims.empty() || v.dims.back() != p.channels) return false;
    }
    for (size_t i = 0; i < 2; ++i)
      if (padding_of(node.inputs[i]) == nullptr)
        node.inputs[i] = grown(node.inputs[i], value(node.inputs[i]).dims.size() - 1, 1, p);
    infer_shapes(graph_, node);
    padding_[node.outputs[0]] = p;
    return true;
  }

  // Carries the padding through a reshape that keeps the last axis, or joins pixels for dense layers only. A slice
  // could not remove the zeros between pixels.
  bool flatten(Node& node, const Padding& p) {
    const ValueId y = node.outputs[0];
    const std::vector<int64_t> x = value(node.inputs[kX]).dims;
    if (value(y).dims.empty()) return false;
    const int64_t row = value(y).dims.back();
    int64_t joined = p.count * p.channels;
    for (size_t axis = x.size() - 1; joined < row && axis-- > 0;) joined *= x[axis];
    const auto absorbs = [&](const Node* reader) {
      return reader != nullptr && reader->op == Op::kDense && reader->inputs[kX] == y && form_of(*reader).has_value();
    };
    const bool same = row == p.count * p.channels;
    if (joined != row || (!same && (is_output(y) || !std::ranges::all_of(readers_[y], absorbs)))) return false;
    const Padding wider = {row / p.channels, p.channels, p.padded};
    set_integer(node, "dims", int(wider.count * wider.padded), int(value(y).dims.size()) - 1);
    pad(y, wider);
    return true;
  }

  // ---- Slices.

  void cut_inputs(Node& node) {
    for (ValueId& id : node.inputs)
      if (id != kNone && padding_.contains(id)) id = cut(id, node);
  }
  ValueId cut(ValueId id, const Node& near) {
    if (const auto found = whole_.find(id); found != whole_.end()) return found->second;
    Value whole = value(id);
    const Padding p = padding_.at(id);
    whole.name += "/whole";
    whole.dims.back() = p.channels;
    const ValueId y = graph_.add(std::move(whole));
    Node slice = make_step(Op::kSlice, near, value(y).name, {id}, {y});
    for (size_t axis = 0; axis < value(y).dims.size(); ++axis)
      set_integer(slice, "size", int(value(y).dims[axis]), int(axis));
    graph_.nodes.push_back(std::move(slice));
    log(near, "a slice of " + value(id).name + " in front of it");
    return whole_[id] = y;
  }
  // Removes the padding of an output, which keeps its name.
  void cut_output(ValueId id) {
    const std::string name = value(id).name;
    const ValueId y = cut(id, Node());
    graph_.rename(id, name + "/padded");
    graph_.rename(y, name);
    for (Binding& output : graph_.outputs)
      if (output.value == id) output.value = y;
  }

  void log(const Node& node, const std::string& change) {
    graph_.log.push_back("pad_features: " + (node.name.empty() ? "the end of the network" : node.name) + ": " + change);
  }

  Graph& graph_;
  std::map<ValueId, std::vector<const Node*>> readers_;
  std::map<ValueId, Padding> padding_;
  std::map<ValueId, ValueId> whole_;
};

}  // namespace

void pad_features(Graph& graph) { PadFeatures(graph).run(); }

}  // namespace nacre::tools
