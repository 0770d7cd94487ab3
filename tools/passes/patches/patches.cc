#include "tools/passes/patches/patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/passes/passes.h"
#include "tools/passes/simplify/simplify.h"

namespace nacre::tools {
namespace {

constexpr size_t kMostScheduled = 16;  // best candidates by plan, for which the order of steps is searched
// Most rows or columns that a request may have. One step joins them, and with its output has kMaxOperands of
// engine/run/find_entry.h.
constexpr int kMostRows = 23;
constexpr int kCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};  // counts of rows and columns that are tried
// Best candidates by estimate for which memory is planned, of all grids and of each N x N.
constexpr size_t kMostPlanned = 8;

struct Candidate {
  const PatchRegion* region = nullptr;
  PatchGrid grid;
  int64_t extra = 0;
  uint64_t bytes = 0;
};

const std::string& layer_of(const Graph& graph, const PatchRegion& region) {
  static const std::string kNoLayer;
  const int layer = graph.nodes[region.nodes.back()].layer;
  return layer == kNone ? kNoLayer : graph.layers[size_t(layer)].name;
}

class PatchSearch {
 public:
  PatchSearch(Graph& graph, const PatchRequest& request, const Target& target)
      : graph_(graph), request_(request), target_(target), regions_(patch_regions(graph, counts_inputs(target))),
        macs_(macs_of(graph)) {}

  void run() {
    keep_layer();
    Graph plain = graph_;
    make_views(plain);
    Graph ordered = graph_;
    schedule(ordered, target_);
    const std::optional<Candidate> best = choose();
    PatchReport report = {
        .layer = "", .arena_before = arena_of(plain, target_, true), .layer_bound = layer_bound(graph_), .macs = macs_};
    if (best && (by_hand() || best->bytes < std::min(planned(plain), planned(ordered)))) cut(*best, report);
    graph_.log.push_back("cut_patches: " + patches_text(report));
    graph_.patches = std::make_shared<const PatchReport>(std::move(report));
  }

 private:
  // Returns the bytes of the arena and of bound steps.
  uint64_t planned(const Graph& viewed) const {
    return arena_of(viewed, target_, counts_inputs(target_)) + viewed.nodes.size() * kBoundStepBytes;
  }

  bool by_hand() const { return request_.grid.rows > 0; }

  void cut(const Candidate& best, PatchReport& report) {
    std::set<int> layers;
    for (const size_t n : best.region->nodes) layers.insert(graph_.nodes[n].layer);
    report.layer = layer_of(graph_, *best.region);
    report.rows = best.grid.rows;
    report.columns = best.grid.columns;
    report.layers = int(layers.size());
    report.extra_macs = best.extra;
    cut_region(graph_, *best.region, *patch_spans(*best.region, graph_, best.grid));
    remove_dead_values(graph_, {});
  }

  [[noreturn]] void refuse(const std::string& fact, const std::string& remedy) const {
    throw Error(kUsage, option("patches"), fact, remedy);
  }

  void keep_layer() {
    if (request_.layer.empty()) return;
    const auto named = [&](const Layer& layer) { return layer.name == request_.layer; };
    if (std::ranges::none_of(graph_.layers, named))
      refuse("no layer is called " + request_.layer, "nacre inspect names the layers");
    std::erase_if(regions_, [&](const PatchRegion& r) { return layer_of(graph_, r) != request_.layer; });
    if (regions_.empty())
      refuse(request_.layer +
                 " cannot be the last layer of patches: they go through convolutions, pools and steps by "
                 "pixels, and nothing behind " +
                 request_.layer + " may read what is in them",
             "name another layer, or none");
  }

  std::vector<PatchGrid> grids() const {
    std::vector<PatchGrid> grids;
    if (by_hand()) return {request_.grid};
    for (const int rows : kCounts)
      for (const int columns : kCounts)
        if (rows * columns > 1) grids.push_back({rows, columns});
    return grids;
  }

  bool allowed(int64_t extra) const {
    return (by_hand() && !request_.layer.empty()) || extra * 100 <= int64_t(macs_) * kMostExtraPercent;
  }

  // Returns the candidates by estimate, the best first.
  std::vector<Candidate> candidates() const {
    std::vector<Candidate> all;
    for (const PatchRegion& region : regions_)
      for (const PatchGrid grid : grids()) {
        const std::optional<PatchSpans> spans = patch_spans(region, graph_, grid);
        if (!spans) continue;
        const int64_t extra = extra_macs(region, graph_, *spans);
        if (!allowed(extra)) continue;
        const uint64_t steps = graph_.nodes.size() + region.nodes.size() * size_t(grid.patches() - 1);
        if (steps > Limits().steps) continue;  // no model holds them
        all.push_back({.region = &region,
                       .grid = grid,
                       .extra = extra,
                       .bytes = patch_bytes(region, graph_, *spans, target_) + steps * kBoundStepBytes});
      }
    std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.bytes, a.extra, a.grid.patches()) < std::tuple(b.bytes, b.extra, b.grid.patches());
    });
    return all;
  }

  // Returns the candidates for which memory is planned: the first few, and the first few of each N x N, as one for
  // N would plan. An estimate looks at a few patches alone, and is too high for some grids.
  std::vector<Candidate> promising() const {
    std::vector<Candidate> some;
    std::map<int, size_t> squares;
    for (const Candidate& candidate : candidates()) {
      const bool square = candidate.grid.rows == candidate.grid.columns;
      if (some.size() < kMostPlanned || (square && !by_hand() && squares[candidate.grid.rows] < kMostPlanned)) {
        some.push_back(candidate);
        if (square) ++squares[candidate.grid.rows];
      }
    }
    return some;
  }

  Graph made_of(const Candidate& candidate, bool scheduled) const {
    Graph made = graph_;
    cut_region(made, *candidate.region, *patch_spans(*candidate.region, graph_, candidate.grid));
    scheduled ? schedule(made, target_) : make_views(made);
    return made;
  }

  // Plans the promising candidates, and the best of them again with their steps in a better order: patches have many.
  // Returns the best by its plan.
  std::optional<Candidate> choose() const {
    std::vector<Candidate> all = promising();
    for (Candidate& candidate : all) candidate.bytes = planned(made_of(candidate, false));
    const auto key = [](const Candidate& c) { return std::tuple(c.bytes, c.extra); };
    std::ranges::sort(all, {}, key);
    if (all.size() > kMostScheduled) all.resize(kMostScheduled);
    for (Candidate& candidate : all) candidate.bytes = std::min(candidate.bytes, planned(made_of(candidate, true)));
    const auto best = std::ranges::min_element(all, {}, key);
    if (best != all.end()) return *best;
    if (by_hand())
      refuse(fmt::format("{} x {} patches cannot be cut here{}", request_.grid.rows, request_.grid.columns,
                         request_.layer.empty()
                             ? fmt::format(" with at most {}% more multiply-accumulates", kMostExtraPercent)
                             : ""),
             "ask for fewer patches, or for " + option("patches", "auto"));
    return std::nullopt;
  }

  Graph& graph_;
  const PatchRequest& request_;
  const Target& target_;
  std::vector<PatchRegion> regions_;
  uint64_t macs_;
};

// Returns the number at the front of `text`, and removes it. Returns 0 if there is none of 1 to kMostRows.
int take_count(std::string_view& text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 1 || count > kMostRows) return 0;
  text.remove_prefix(size_t(end - text.data()));
  return count;
}

}  // namespace

PatchRequest parse_patches(const std::string& text) {
  const size_t at = text.find('@');
  PatchRequest request = {.asked = true, .layer = at == std::string::npos ? "" : text.substr(at + 1)};
  std::string_view grid = std::string_view(text).substr(0, at);
  bool good = at == std::string::npos || !request.layer.empty();
  if (grid != "auto") {
    request.grid.rows = request.grid.columns = take_count(grid);
    if (grid.starts_with('x')) {
      grid.remove_prefix(1);
      request.grid.columns = take_count(grid);
    }
    good = good && grid.empty() && request.grid.columns > 0 && request.grid.patches() > 1;
  }
  if (!good)
    throw Error(
        kUsage, option("patches", text), "is no grid of patches",
        fmt::format("ask for auto, a number of rows and columns such as 3, or ROWSxCOLUMNS, each of at most {}, "
                    "and @LAYER behind it to say where patches end",
                    kMostRows));
  return request;
}

void cut_patches(Graph& graph, const PatchRequest& request, const Target& target) {
  if (request.asked) PatchSearch(graph, request, target).run();
}

}  // namespace nacre::tools
