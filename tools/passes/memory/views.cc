// make_views: removes steps that only give bytes another name.
//
//   reshape, copy     y is all of x, with its type and number of bytes
//   slice             y is a run of x: unit steps, and every axis before the last one that is cut has one index
//   concat            every x_i is a run of y, if only the step that writes x_i decides where it lies
//
// A step stays if it would make an output of the graph an alias of an input: callers expect two tensors.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tools/passes/memory/plan_memory.h"

namespace nacre::tools {
namespace {

// Returns the bytes of the first `elements` elements, or nullopt if they end within a byte.
std::optional<uint64_t> whole_bytes(ElementType type, uint64_t elements) {
  const bool whole = type == ElementType::kTernary ? elements % 5 == 0 : elements * element_bits(type) % 8 == 0;
  return whole ? std::optional(storage_bytes(type, elements)) : std::nullopt;
}

// Returns the start of a slice's output in its input, in elements, if the output is a run of the input.
std::optional<uint64_t> start_of_run(const Node& slice, const Value& x, const Value& y) {
  if (x.dims.size() != y.dims.size()) return std::nullopt;
  uint64_t start = 0, stride = 1;
  bool cut = false;
  for (int axis = int(x.dims.size()) - 1; axis >= 0; --axis) {
    const int64_t all = x.dims[size_t(axis)], taken = y.dims[size_t(axis)];
    if (taken > 1 && (cut || get_integer(slice, "step", axis) != 1)) return std::nullopt;
    start += uint64_t(get_integer(slice, "begin", axis)) * stride;
    stride *= uint64_t(all);
    cut = cut || taken != all;
  }
  return start;
}

class Views {
 public:
  explicit Views(Graph& graph) : graph_(graph), is_input_(graph.values.size()), is_output_(graph.values.size()) {
    for (const Binding& b : graph.inputs) is_input_[size_t(b.value)] = true;
    for (const Binding& b : graph.outputs) is_output_[size_t(b.value)] = true;
  }

  void run() {
    std::erase_if(graph_.nodes, [this](const Node& node) { return is_view(node); });
    for (ValueId v = 0; v < ValueId(graph_.values.size()); ++v) resolve(v);
    copy_outputs();
  }

 private:
  Value& value(ValueId v) { return graph_.values[size_t(v)]; }

  // Returns the value that holds the bytes of `v`. Shortens the chain of aliases of `v` to one link.
  ValueId resolve(ValueId v) {
    ValueId root = v;
    uint64_t offset = 0;
    for (; value(root).alias_of != kNone; root = value(root).alias_of) offset += value(root).offset;
    while (v != root) {
      const ValueId next = value(v).alias_of;
      const uint64_t here = value(v).offset;
      value(v).alias_of = root;
      value(v).offset = offset;
      offset -= here;
      v = next;
    }
    return root;
  }

  bool movable(ValueId v) { return value(v).region == Region::kArena && !value(v).constant(); }

  bool is_view(const Node& node) {
    switch (node.op) {
      case Op::kReshape:
      case Op::kCopy: return alias_whole(node);
      case Op::kSlice: return alias_run(node);
      case Op::kConcat: return alias_parts(node);
      default: return false;
    }
  }

  bool alias_whole(const Node& node) {
    const Value &x = value(node.inputs[0]), &y = value(node.outputs[0]);
    return x.type == y.type && value_bytes(x) == value_bytes(y) && alias(node.outputs[0], node.inputs[0], 0);
  }

  bool alias_run(const Node& node) {
    const Value &x = value(node.inputs[0]), &y = value(node.outputs[0]);
    const std::optional<uint64_t> start = x.type == y.type ? start_of_run(node, x, y) : std::nullopt;
    const std::optional<uint64_t> offset = start ? whole_bytes(x.type, *start) : std::nullopt;
    if (!offset || *offset + value_bytes(y) > value_bytes(x)) return false;
    return alias(node.outputs[0], node.inputs[0], *offset);
  }

  // Makes y an alias of x, from byte `offset` of x.
  bool alias(ValueId y, ValueId x, uint64_t offset) {
    const ValueId root = resolve(x);
    if (!movable(root) || !movable(y) || value(y).alias_of != kNone) return false;
    if (is_output_[size_t(y)] && is_input_[size_t(root)]) return false;
    value(y).alias_of = x;
    value(y).offset = offset;
    return true;
  }

  bool alias_parts(const Node& node) {
    const ValueId y = node.outputs[0];
    const auto axis = size_t(get_integer(node, "axis"));
    const auto& dims = value(y).dims;
    if (axis >= dims.size() || !movable(y) || value(y).alias_of != kNone) return false;
    if (std::any_of(dims.begin(), dims.begin() + ptrdiff_t(axis), [](int64_t d) { return d != 1; })) return false;
    std::vector<std::pair<ValueId, uint64_t>> parts;  // the value that holds the part, and its offset in y
    std::unordered_set<ValueId> seen;
    uint64_t offset = 0;
    for (const ValueId x : node.inputs) {
      const ValueId root = resolve(x);
      const std::optional<uint64_t> bytes = whole_bytes(value(x).type, uint64_t(value(x).elements()));
      if (!bytes || value(x).type != value(y).type || value_bytes(value(root)) != *bytes) return false;
      if (!movable(root) || is_input_[size_t(root)] || !seen.insert(root).second) return false;
      parts.emplace_back(root, offset);
      offset += *bytes;
    }
    if (offset != value_bytes(value(y))) return false;
    for (const auto& [root, at] : parts) {
      value(root).alias_of = y;
      value(root).offset = at;
    }
    return true;
  }

  // Copies to a value of its own each output that is, or is an alias of, a constant, an input, or state.
  void copy_outputs() {
    for (Binding& output : graph_.outputs) {
      const ValueId root = resolve(output.value);
      if (movable(root) && !is_input_[size_t(root)]) continue;
      Value copy = value(output.value);
      copy.data = nullptr;
      copy.stored = ElementType::kNone;
      copy.region = Region::kArena;
      copy.alias_of = kNone;
      copy.offset = 0;
      const ValueId y = graph_.add(std::move(copy));
      graph_.nodes.push_back(
          {.op = Op::kCopy, .name = output.name, .words = {}, .inputs = {output.value}, .outputs = {y}});
      output.value = y;
    }
  }

  Graph& graph_;
  std::vector<bool> is_input_, is_output_;
};

}  // namespace

void make_views(Graph& graph) { Views(graph).run(); }

}  // namespace nacre::tools
