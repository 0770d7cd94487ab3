// check() verifies invariants of graph.h. The converter calls it after each stage, so a broken graph is found at once.
#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "engine/model/model.h"
#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/graph/layouts.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), written_(graph.values.size(), false), used_(graph.values.size(), false) {}

  void run() {
    layers();
    mark_used();
    for (const Value& v : graph_.values) value(v);
    for (const Binding& b : graph_.inputs) input(b);
    for (const Node& n : graph_.nodes) node(n);
    for (const Binding& b : graph_.outputs) output(b);
    if (graph_.batch < 1) fail("batch", "must be at least 1");
  }

 private:
  [[noreturn]] static void fail(const std::string& place, const std::string& fact) {
    throw Error(kFailed, place, fact);
  }

  void layers() {
    std::unordered_set<std::string> names;
    for (const Layer& layer : graph_.layers)
      if (!names.insert(layer.name).second) fail("layer " + layer.name, "two layers have this name");
  }

  bool valid(ValueId id) const { return id >= 0 && size_t(id) < graph_.values.size(); }

  void mark_used() {
    const auto mark = [&](ValueId id) {
      if (valid(id)) used_[size_t(id)] = true;
    };
    for (const Node& n : graph_.nodes) {
      for (const ValueId id : n.inputs) mark(id);
      for (const ValueId id : n.outputs) mark(id);
      mark(n.guard);
    }
    for (const Binding& b : graph_.inputs) mark(b.value);
    for (const Binding& b : graph_.outputs) mark(b.value);
  }

  void value(const Value& v) {
    const std::string place = place_of(graph_, v);
    if (!names_.insert(v.name).second) fail(place, "two values have this name");
    if (element_bits(v.type) == 0 && v.type != ElementType::kTernary) fail(place, "has no element type");
    const bool used = used_[size_t(&v - graph_.values.data())];
    dims(v, place, used);
    if (v.quantizer) quantizer(v, *v.quantizer, place);
    if (v.layout != Layout::kRowMajor &&
        (v.dims.size() < 2 || !has_layouts(v.type) || v.alias_of != kNone || v.region == Region::kState))
      fail(place, "is packed, but its type, shape or region cannot be");
    if (v.alias_of != kNone && (!valid(v.alias_of) || graph_.values[size_t(v.alias_of)].alias_of != kNone))
      fail(place, "is an alias of a missing value or of an alias");
    if (v.batched && (v.dims.empty() || v.constant())) fail(place, "is batched but has no axis 0 of its own");
    if (v.constant()) constant(v, place);
    if (v.initial && (v.region != Region::kState || v.initial->size() != storage_bytes(v.type, uint64_t(v.elements()))))
      fail(place, "has an initial value, but not of its own size in state");
    if (v.trainable && v.region != Region::kState) fail(place, "is trainable but not in state");
  }

  // Values that nothing uses may have an axis of 0 elements, because importers keep such values until simplify.
  static void dims(const Value& v, const std::string& place, bool used) {
    if (v.dims.size() > size_t(kMaxRank)) fail(place, "has more than 8 axes");
    int64_t elements = 1;
    for (const int64_t dim : v.dims)
      if (dim < (used ? 1 : 0) || dim > kDimLimit || (elements *= dim) > kElementLimit)
        fail(place, "shape " + shape_text(v.dims) + " is outside the limits");
  }

  static void quantizer(const Value& v, const Quantizer& q, const std::string& place) {
    if (q.scale.empty()) fail(place, "its quantizer has no scale");
    if (q.zero.size() > 1 && q.zero.size() != q.scale.size())
      fail(place, "its quantizer has other counts of scales and zero points");
    if (q.scale.size() > 1) {
      if (q.axis < 0 || size_t(q.axis) >= v.dims.size()) fail(place, "its quantizer's axis is outside the rank");
      if (int64_t(q.scale.size()) != v.dims[size_t(q.axis)])
        fail(place, "its quantizer has neither one scale nor one per channel");
    }
    for (const float s : q.scale)
      if (!is_scale(std::bit_cast<uint32_t>(s)))
        fail(place, "its quantizer has a scale that is not a positive, normal, finite number");
  }

  static void constant(const Value& v, const std::string& place) {
    if (v.stored == ElementType::kNone) fail(place, "is a constant without an element type");
    if (v.stored != v.type && !v.quantizer)
      fail(place, std::string("is stored as ") + name_of(v.stored) + " without a quantizer for its codes");
    const uint64_t bytes = bytes_as(v.stored, v);
    if (bytes != v.data->size())
      fail(place, "has " + std::to_string(v.data->size()) + " bytes of data, its shape needs " + std::to_string(bytes));
  }

  void input(const Binding& b) {
    if (!valid(b.value)) fail("input " + b.name, "has no value");
    const Value& v = graph_.values[size_t(b.value)];
    if (v.constant()) fail("input " + b.name, "is a constant");
    if (written_[size_t(b.value)]) fail("input " + b.name, "is two inputs");
    written_[size_t(b.value)] = true;
  }

  void output(const Binding& b) {
    if (!valid(b.value)) fail("output " + b.name, "has no value");
    if (!is_written(b.value) && !graph_.values[size_t(b.value)].constant())
      fail("output " + b.name, "is never written");
  }

  void node(const Node& n) {
    const std::string place = place_of(graph_, n);
    check_operand_counts(graph_, n, rule_of(graph_, n));
    if (n.layer != kNone && (n.layer < 0 || size_t(n.layer) >= graph_.layers.size()))
      fail(place, "its layer does not exist");
    for (const ValueId id : n.inputs) readable(id, place);
    if (n.guard != kNone) guard(n.guard, place);
    updates(n, place);
    const std::vector<std::vector<int64_t>> shapes = output_shapes(graph_, n);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const Value& y = graph_.values[size_t(n.outputs[i])];
      if (y.constant()) fail(place, "writes the constant " + y.name);
      if (written_[size_t(n.outputs[i])]) fail(place, "writes " + y.name + ", which is written already");
      if (y.dims != shapes[i])
        fail(place, y.name + " has shape " + shape_text(y.dims) + ", the op gives " + shape_text(shapes[i]));
      written_[size_t(n.outputs[i])] = true;
      if (y.alias_of != kNone) parts_[y.alias_of].push_back(n.outputs[i]);
    }
  }

  void readable(ValueId id, const std::string& place) const {
    if (id == kNone || is_written(id)) return;
    const Value& v = graph_.values[size_t(id)];
    if (!v.constant() && !v.persists()) fail(place, "reads " + v.name + " before it is written");
  }

  void guard(ValueId id, const std::string& place) const {
    if (!valid(id)) fail(place, "its guard does not exist");
    readable(id, place);
    const Value& v = graph_.values[size_t(id)];
    if (v.type != ElementType::kUint32 || v.elements() != 1) fail(place, "its guard " + v.name + " is not one uint32");
  }

  void updates(const Node& n, const std::string& place) const {
    const OpRule& rule = rule_of(graph_, n);
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] != kNone && is_updated(rule, i)) updated(n.inputs[i], place);
  }

  void updated(ValueId id, const std::string& place) const {
    const Value& v = graph_.values[size_t(id)];
    const bool input = std::ranges::any_of(graph_.inputs, [&](const Binding& b) { return b.value == id; });
    if (v.constant() || input) fail(place, "updates " + v.name + ", which is a constant or an input");
  }

  // After make_views an alias is written with its target. A target is written once its aliases cover all its bytes.
  bool is_written(ValueId id) const {
    const Value& v = graph_.values[size_t(id)];
    const ValueId target = v.alias_of == kNone ? id : v.alias_of;
    if (written_[size_t(id)] || written_[size_t(target)]) return true;
    const auto parts = parts_.find(target);
    if (parts == parts_.end()) return false;
    const auto bytes = [](const Value& value) { return bytes_as(value.type, value); };
    const uint64_t first = v.alias_of == kNone ? 0 : v.offset, end = first + bytes(v);
    uint64_t covered = 0;  // parts do not overlap
    for (const ValueId part : parts->second) {
      const Value& p = graph_.values[size_t(part)];
      const uint64_t low = std::max(first, p.offset), high = std::min(end, p.offset + bytes(p));
      covered += high > low ? high - low : 0;
    }
    return covered >= end - first;
  }

  const Graph& graph_;
  std::vector<bool> written_, used_;
  std::unordered_map<ValueId, std::vector<ValueId>> parts_;  // per target: its aliases that steps have written
  std::unordered_set<std::string> names_;
};

}  // namespace

void check(const Graph& graph) { Checker(graph).run(); }

}  // namespace nacre::tools
