#include <tuple>
#include <utility>

#include "tools/passes/patches/patches.h"

namespace nacre::tools {
namespace {

using Part = std::array<Span, 2>;  // rows, columns

class RegionCutter {
 public:
  RegionCutter(Graph& graph, const PatchRegion& region, const PatchSpans& spans)
      : graph_(graph), region_(region), spans_(spans) {}

  void run() {
    nodes_ = std::exchange(graph_.nodes, {});
    size_t k = 0;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const bool inside = k < region_.nodes.size() && region_.nodes[k] == n;
      if (!inside) graph_.nodes.push_back(nodes_[n]);
      else if (++k == region_.nodes.size()) make_out();
    }
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  const Node& last() const { return nodes_[region_.nodes.back()]; }

  void make_out() {
    std::vector<ValueId> rows;
    for (const Spans& row : spans_.rows) {
      std::vector<ValueId> patches;
      for (const Spans& column : spans_.columns) patches.push_back(patch(row, column));
      const Span whole = {0, int(value(region_.out).dims[2])};
      rows.push_back(patches.size() == 1 ? patches[0]
                     : spans_.rows.size() == 1
                         ? join(patches, 2, region_.out)
                         : join(patches, 2, part_value(region_.out, {row.at(region_.out), whole})));
    }
    if (rows.size() > 1) join(rows, 1, region_.out);
  }

  ValueId join(const std::vector<ValueId>& parts, int axis, ValueId y) {
    Node node = make_step(Op::kConcat, last(), last().name, parts, {y});
    set_integer(node, "axis", axis);
    graph_.nodes.push_back(std::move(node));
    return y;
  }

  ValueId part_value(ValueId of, const Part& part) {
    Value made = value(of);
    made.name += "/patch";
    for (const size_t axis : {0u, 1u}) made.dims[axis + 1] = part[axis].size();
    return graph_.add(std::move(made));
  }

  // Adds all steps for one patch of `out`, and returns the patch.
  ValueId patch(const Spans& rows, const Spans& columns) {
    held_.clear();
    cut_.clear();
    for (const ValueId border : region_.borders)
      held_[border] = {border, {Span{0, int(value(border).dims[1])}, Span{0, int(value(border).dims[2])}}};
    for (size_t k = 0; k < region_.nodes.size(); ++k) {
      const ValueId y = nodes_[region_.nodes[k]].outputs[0];
      step(k, {rows.at(y), columns.at(y)});
    }
    return held_.at(region_.out).id;
  }

  void step(size_t k, const Part& output) {
    Node node = nodes_[region_.nodes[k]];
    const PatchStep& how = region_.steps[k];
    const ValueId y = node.outputs[0];
    std::array<Halo, 2> halo;
    for (size_t i = node.inputs.size(); i-- > 0;) {  // input 0 comes last, because its `halo` sets the pads
      if (!how.cut[i]) continue;
      for (const size_t axis : {0u, 1u}) halo[axis] = *halo_of(how, i, int(axis), output[axis]);
      node.inputs[i] = cut(node.inputs[i], {halo[0].inside, halo[1].inside}, node);
    }
    if (how.window || node.op == Op::kPad) set_pads(node, halo);
    if (pads_nothing(node)) {
      held_[y] = {node.inputs[0], output};
      return;
    }
    if (node.op == Op::kSlice)
      for (const size_t axis : {0u, 1u}) set_integer(node, "size", output[axis].size(), int(axis) + 1);
    node.outputs[0] = part_value(y, output);
    held_[y] = {node.outputs[0], output};
    graph_.nodes.push_back(std::move(node));
  }

  static bool pads_nothing(const Node& node) {
    if (node.op != Op::kPad) return false;
    for (int axis = 0; axis < 4; ++axis)
      if (get_integer(node, "before", axis) != 0 || get_integer(node, "after", axis) != 0) return false;
    return true;
  }

  // Returns this part of a value of the source's graph. If it must be cut, adds a step to the layer of `near`.
  ValueId cut(ValueId of, const Part& part, const Node& near) {
    const auto& [from, held] = held_.at(of);
    if (part == held) return from;
    const auto [found, first] =
        cut_.try_emplace(std::tuple(of, part[0].first, part[0].end, part[1].first, part[1].end), kNone);
    if (!first) return found->second;
    const ValueId made = found->second = part_value(of, part);
    Node node = make_step(Op::kSlice, near, near.name, {from}, {made});
    for (int axis = 0; axis < 4; ++axis) set_integer(node, "size", int(value(made).dims[size_t(axis)]), axis);
    for (const size_t axis : {0u, 1u}) set_integer(node, "begin", part[axis].first - held[axis].first, int(axis) + 1);
    graph_.nodes.push_back(std::move(node));
    return made;
  }

  struct Held {
    ValueId id;
    Part part;
  };

  Graph& graph_;
  const PatchRegion& region_;
  const PatchSpans& spans_;
  std::vector<Node> nodes_;
  std::map<ValueId, Held> held_;  // by value of the source's graph, for the current patch
  std::map<std::tuple<ValueId, int, int, int, int>, ValueId> cut_;
};

}  // namespace

void cut_region(Graph& graph, const PatchRegion& region, const PatchSpans& spans) {
  RegionCutter(graph, region, spans).run();
}

}  // namespace nacre::tools
