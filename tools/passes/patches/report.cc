// Reports the effect of patches, in bytes and multiply-accumulates.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/passes/patches/patches.h"

namespace nacre::tools {
namespace {

std::vector<Storage> storages_of(const Graph& viewed, const Target& target) {
  std::vector<uint32_t> order(viewed.nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  return storages(viewed, order, target.keep_inputs, kernels_of(target));
}

uint64_t planned_bytes(const std::vector<Storage>& held) {
  return used_bytes(held, place_storages(held, kQuickEffort));
}

double percent(const PatchReport& report) {
  return 100.0 * double(report.extra_macs) / double(std::max<uint64_t>(report.macs, 1));
}

}  // namespace

uint64_t arena_of(const Graph& viewed, const Target& target, bool with_inputs) {
  std::vector<Storage> held = storages_of(viewed, target);
  for (size_t i = 0; i < held.size() && !with_inputs; ++i) {
    const auto is_held = [&](const Binding& b) { return b.value == held[i].root; };
    if (std::ranges::none_of(viewed.inputs, is_held)) continue;
    held[i].block.bytes = 0;
    held[i].takes_over.clear();
    for (Storage& s : held) std::erase(s.takes_over, uint32_t(i));
  }
  return planned_bytes(held);
}

std::string patches_text(const PatchReport& report) {
  if (report.rows == 0)
    return fmt::format("none: no grid takes fewer bytes of arena and steps than {} layer by layer",
                       grouped(report.arena_before));
  return fmt::format(
      "{} x {} of {} up to {}: before, arena {} bytes, layer by layer at least {}; {:+.1f}% multiply-accumulates",
      report.rows, report.columns, counted(uint64_t(report.layers), "layer"), report.layer,
      grouped(report.arena_before), grouped(report.layer_bound), percent(report));
}

uint64_t layer_bound(Graph graph) {
  make_views(graph);
  uint64_t most = 0;
  for (const Node& node : graph.nodes) {
    std::set<ValueId> seen;
    uint64_t bytes = 0;
    for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs})
      for (const ValueId id : *ids) {
        if (id == kNone) continue;
        const Value& v = graph.values[size_t(id)];
        if (v.region == Region::kArena && !v.constant() && seen.insert(id).second) bytes += value_bytes(v);
      }
    most = std::max(most, bytes);
  }
  return most;
}

std::string patches_summary(const Graph& graph, const Target& target) {
  if (!graph.patches) return "";
  PatchReport shown = *graph.patches;
  shown.layer = shorten(shown.layer, kMostOfName);
  if (shown.rows == 0) return fmt::format("  patches  {}\n", patches_text(shown));
  return fmt::format("  patches  {}\n    without inputs {} bytes of arena\n", patches_text(shown),
                     grouped(arena_of(graph, target, false)));
}

Json patches_json(const Graph& graph, const Target& target) {
  const PatchReport& report = *graph.patches;
  return {{"rows", report.rows},
          {"columns", report.columns},
          {"layers", report.layers},
          {"last_layer", report.layer},
          {"arena_before", report.arena_before},
          {"layer_by_layer_bound", report.layer_bound},
          {"arena_without_inputs", arena_of(graph, target, false)},
          {"extra_multiply_accumulates", report.extra_macs},
          {"extra_percent", percent(report)}};
}

}  // namespace nacre::tools
