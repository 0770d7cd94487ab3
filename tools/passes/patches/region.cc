#include "tools/passes/patches/region.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace nacre::tools {
namespace {

constexpr size_t kMostSteps = 200;  // in a region; behind so many windows a patch needs nearly the whole input

const Value& at(const Graph& graph, ValueId id) { return graph.values[size_t(id)]; }

// Finds the regions of a graph. Holds nodes and patch steps by the values that they make, and the readers of each
// value.
class Regions {
 public:
  explicit Regions(const Graph& graph)
      : graph_(graph), writer_(graph.values.size(), -1), readers_(graph.values.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      steps_.push_back(patch_step(graph, node));
      for (const ValueId v : node.outputs) writer_[size_t(v)] = int(n);
      for (const ValueId v : node.inputs)
        if (v != kNone) readers_[size_t(v)].push_back(n);
    }
    for (const Binding& b : graph.outputs) outputs_.insert(b.value);
  }

  std::vector<PatchRegion> run() {
    std::vector<PatchRegion> regions;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!steps_[n]) continue;
      PatchRegion region = behind(n);
      if (region.nodes.size() > 1 && region.nodes.size() <= kMostSteps && closed(region))
        regions.push_back(std::move(region));
    }
    return regions;
  }

 private:
  // Returns the region of all steps that node `last` needs, back to the steps that cannot be cut into patches.
  PatchRegion behind(size_t last) const {
    PatchRegion region;
    region.out = graph_.nodes[last].outputs[0];
    std::set<size_t> taken = {last};
    std::set<ValueId> borders;
    std::vector<size_t> open = {last};
    while (!open.empty() && taken.size() <= kMostSteps) {
      const size_t n = open.back();
      open.pop_back();
      for (size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) {
        if (!steps_[n]->cut[i]) continue;
        const ValueId x = graph_.nodes[n].inputs[i];
        const int writer = writer_[size_t(x)];
        if (writer < 0 || !steps_[size_t(writer)]) borders.insert(x);
        else if (taken.insert(size_t(writer)).second) open.push_back(size_t(writer));
      }
    }
    region.nodes.assign(taken.begin(), taken.end());
    region.borders.assign(borders.begin(), borders.end());
    for (const size_t n : region.nodes) region.steps.push_back(*steps_[n]);
    return region;
  }

  // Returns whether only the region's own patch steps read its values, except `out`.
  bool closed(const PatchRegion& region) const {
    for (const size_t n : region.nodes) {
      const ValueId y = graph_.nodes[n].outputs[0];
      if (y == region.out) continue;
      if (outputs_.contains(y)) return false;
      for (const size_t reader : readers_[size_t(y)]) {
        if (!std::ranges::binary_search(region.nodes, reader)) return false;
        for (size_t i = 0; i < graph_.nodes[reader].inputs.size(); ++i)
          if (graph_.nodes[reader].inputs[i] == y && !steps_[reader]->cut[i]) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::optional<PatchStep>> steps_;  // per node
  std::vector<int> writer_;                      // per value: the node that writes it, or -1
  std::vector<std::vector<size_t>> readers_;     // per value
  std::set<ValueId> outputs_;
};

bool is_input(const Graph& graph, ValueId id) {
  return std::ranges::any_of(graph.inputs, [&](const Binding& b) { return b.value == id; });
}

uint64_t pixel_bytes(const Value& v) { return uint64_t(v.dims[0] * v.dims[3]) * size_t(element_bits(v.type)) / 8; }

// Computes the bytes that live at one time while one patch is computed, without borders and `out`.
class PatchLife {
 public:
  PatchLife(const PatchRegion& region, const Graph& graph, KernelSets kernels)
      : region_(region), graph_(graph), borders_(region.borders.begin(), region.borders.end()) {
    for (size_t k = 0; k < region.nodes.size(); ++k) {
      const Node& node = graph.nodes[region.nodes[k]];
      for (const ValueId x : node.inputs)
        if (x != kNone) last_[x] = k;
      in_place_.push_back(in_place_inputs(graph, node, kernels));
    }
  }

  uint64_t most(const Spans& rows, const Spans& columns) {
    spans_ = {&rows, &columns};
    uint64_t live = 0, most = 0;
    for (size_t k = 0; k < region_.nodes.size(); ++k) {
      const Node& node = graph_.nodes[region_.nodes[k]];
      const uint64_t made = node.outputs[0] == region_.out ? 0 : bytes(node.outputs[0]);
      uint64_t ends = 0, given = 0, copies = 0;
      std::set<ValueId> seen;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId x = node.inputs[i];
        if (!region_.steps[k].cut[i] || !seen.insert(x).second) continue;
        copies += copied(k, i);
        if (borders_.contains(x) || last_.at(x) != k) continue;
        ends += bytes(x);
        if (i < 32 && (in_place_[k] >> i & 1) != 0 && bytes(x) == made) given = made;
      }
      most = std::max(most, live + copies + made - given);
      live += made - ends;
    }
    return most;
  }

 private:
  uint64_t bytes(const std::array<Span, 2>& part, const Value& v) const {
    return aligned(uint64_t(part[0].size()) * uint64_t(part[1].size()) * pixel_bytes(v));
  }
  uint64_t bytes(ValueId v) const { return bytes({spans_[0]->at(v), spans_[1]->at(v)}, at(graph_, v)); }

  // Returns the bytes that step k copies of its input i. It copies if its part of the input is not contiguous in
  // memory.
  uint64_t copied(size_t k, size_t i) const {
    const Node& node = graph_.nodes[region_.nodes[k]];
    const ValueId x = node.inputs[i];
    const Value& v = at(graph_, x);
    std::array<Span, 2> part, held;
    for (const size_t axis : {0u, 1u}) {
      part[axis] = halo_of(region_.steps[k], i, int(axis), spans_[axis]->at(node.outputs[0]))->inside;
      held[axis] = borders_.contains(x) ? Span{0, int(v.dims[axis + 1])} : spans_[axis]->at(x);
    }
    const bool run = v.dims[0] == 1 && (part[1] == held[1] || part[0].size() == 1);
    return part == held || run ? 0 : bytes(part, v);
  }

  const PatchRegion& region_;
  const Graph& graph_;
  std::map<ValueId, size_t> last_;  // per value: the step that reads it last
  std::vector<uint32_t> in_place_;
  std::set<ValueId> borders_;
  std::array<const Spans*, 2> spans_ = {};
};

// Returns the bytes that live at each step.
std::vector<uint64_t> live_bytes(const Graph& graph, bool with_inputs) {
  std::vector<int64_t> change(graph.nodes.size() + 1, 0);
  std::vector<uint32_t> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  for (const Storage& s : storages(graph, order, false)) {
    if (s.block.first >= graph.nodes.size() || (!with_inputs && is_input(graph, s.root))) continue;
    change[s.block.first] += int64_t(aligned(s.block.bytes));
    change[s.block.last + 1] -= int64_t(aligned(s.block.bytes));
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return {change.begin(), change.end()};
}

// Returns indices of some of `count` rows or columns: the first two, the middle and the last. They stand for all.
std::set<size_t> samples(size_t count) { return {0, std::min<size_t>(1, count - 1), count / 2, count - 1}; }

}  // namespace

bool counts_inputs(const Target& target) { return target.banks.size() < 2; }

std::vector<PatchRegion> patch_regions(const Graph& graph, bool with_inputs) {
  std::vector<PatchRegion> regions = Regions(graph).run();
  const std::vector<uint64_t> live = live_bytes(graph, with_inputs);
  for (PatchRegion& region : regions)
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (!std::ranges::binary_search(region.nodes, n)) region.rest = std::max(region.rest, live[n]);
  return regions;
}

std::optional<Spans> spans_for(const PatchRegion& region, const Graph& graph, int axis, Span out) {
  Spans spans = {{region.out, out}};
  for (size_t k = region.nodes.size(); k-- > 0;) {
    const Node& node = graph.nodes[region.nodes[k]];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!region.steps[k].cut[i]) continue;
      const std::optional<Halo> halo = halo_of(region.steps[k], i, axis, spans.at(node.outputs[0]));
      if (!halo) return std::nullopt;
      const Span part = halo->inside;
      const auto [found, first] = spans.try_emplace(node.inputs[i], part);
      Span& hull = found->second;
      if (!first) hull = {std::min(hull.first, part.first), std::max(hull.end, part.end)};
    }
  }
  return spans;
}

Span part_of(int size, int count, int i) {
  return {int(int64_t{size} * i / count), int(int64_t{size} * (i + 1) / count)};
}

std::optional<PatchSpans> patch_spans(const PatchRegion& region, const Graph& graph, PatchGrid grid) {
  PatchSpans made;
  for (const int axis : {0, 1}) {
    const int size = int(at(graph, region.out).dims[size_t(axis) + 1]), count = axis == 0 ? grid.rows : grid.columns;
    if (count > size) return std::nullopt;
    for (int i = 0; i < count; ++i) {
      std::optional<Spans> spans = spans_for(region, graph, axis, part_of(size, count, i));
      if (!spans) return std::nullopt;
      (axis == 0 ? made.rows : made.columns).push_back(std::move(*spans));
    }
  }
  return made;
}

int64_t extra_macs(const PatchRegion& region, const Graph& graph, const PatchSpans& spans) {
  int64_t extra = 0;
  for (size_t k = 0; k < region.nodes.size(); ++k) {
    const ValueId id = graph.nodes[region.nodes[k]].outputs[0];
    const std::vector<int64_t>& y = at(graph, id).dims;
    int64_t rows = 0, columns = 0;
    for (const Spans& row : spans.rows) rows += row.at(id).size();
    for (const Spans& column : spans.columns) columns += column.at(id).size();
    extra += int64_t(region.steps[k].macs) * y[0] * (rows * columns - y[1] * y[2]);
  }
  return extra;
}

uint64_t patch_bytes(const PatchRegion& region, const Graph& graph, const PatchSpans& spans, const Target& target) {
  PatchLife life(region, graph, kernels_of(target));
  const Value& out = at(graph, region.out);
  uint64_t most = 0;
  for (const size_t r : samples(spans.rows.size())) {
    // The patches of a row are joined, and the joined row is then copied into `out`.
    const auto row = uint64_t(spans.rows[r].at(region.out).size() * out.dims[2]);
    const uint64_t joined = spans.columns.size() == 1 ? 0 : aligned(row * pixel_bytes(out));
    for (const size_t c : samples(spans.columns.size()))
      most = std::max(most, joined + life.most(spans.rows[r], spans.columns[c]));
  }
  for (const ValueId border : region.borders)
    if (counts_inputs(target) || !is_input(graph, border)) most += aligned(value_bytes(at(graph, border)));
  return std::max(most + aligned(value_bytes(out)), region.rest);
}

uint64_t macs_of(const Graph& graph) {
  uint64_t sum = 0;
  for (const Node& node : graph.nodes) {
    if (!is_matmul(node.op)) continue;
    const Value &w = graph.values[size_t(node.inputs[1])], &y = graph.values[size_t(node.outputs[0])];
    sum += uint64_t(y.elements()) * uint64_t(w.elements() / std::max<int64_t>(w.dims[channel_axis(node.op)], 1));
  }
  return sum;
}

}  // namespace nacre::tools
