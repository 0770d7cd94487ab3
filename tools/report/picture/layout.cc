#include "tools/report/picture/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace nacre::tools {
namespace {

// A box, or a dummy where edges of one box pass a row.
struct Vertex {
  bool box;
  int fork = -1;                  // for a box where paths meet: the last box that all of them pass through
  std::vector<int> above, below;  // neighbours in the adjacent rows
};

struct Layers {
  std::vector<Vertex> vertices;          // boxes first, with the indices of the nodes
  std::vector<std::vector<int>> rows;    // vertices from left to right
  std::vector<size_t> place;             // of each vertex: its index in its row
  std::vector<std::vector<int>> passed;  // of each edge: its dummies, from top to bottom
};

void number_row(Layers& layers, size_t r) {
  for (size_t i = 0; i < layers.rows[r].size(); ++i) layers.place[size_t(layers.rows[r][i])] = i;
}

std::vector<int> longest_path_rows(int nodes, const std::vector<LayoutEdge>& edges) {
  std::vector<std::vector<int>> sources(static_cast<size_t>(nodes));
  for (const LayoutEdge& edge : edges) sources[size_t(edge.to)].push_back(edge.from);
  std::vector<int> row(static_cast<size_t>(nodes), 0);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = i == 0 ? 0 : row[i - 1];
    for (const int source : sources[i]) row[i] = std::max(row[i], row[size_t(source)] + 1);
  }
  return row;
}

// Returns the immediate dominators (Cooper, Harvey and Kennedy 2001) of nodes in topological order; -1 for a node
// that has none.
std::vector<int> dominators(int nodes, const std::vector<LayoutEdge>& edges) {
  std::vector<std::vector<int>> sources(static_cast<size_t>(nodes));
  for (const LayoutEdge& edge : edges) sources[size_t(edge.to)].push_back(edge.from);
  std::vector<int> dominator(static_cast<size_t>(nodes), -1);
  for (size_t i = 0; i < dominator.size(); ++i) {
    if (sources[i].empty()) continue;
    int common = sources[i][0];
    for (int other : sources[i])
      while (other != common) (other > common ? other : common) = dominator[size_t(std::max(other, common))];
    dominator[i] = common;
  }
  return dominator;
}

Layers make_layers(const std::vector<int>& row, const std::vector<LayoutEdge>& edges) {
  Layers layers;
  layers.vertices.resize(row.size(), {.box = true, .fork = -1, .above = {}, .below = {}});
  layers.rows.resize(row.empty() ? 0 : size_t(row.back()) + 1);
  for (size_t i = 0; i < row.size(); ++i) layers.rows[size_t(row[i])].push_back(int(i));
  std::map<std::pair<int, int>, int> dummies;  // {source, row}
  const auto connect = [&](int above, int below) {
    std::vector<int>& known = layers.vertices[size_t(above)].below;
    if (std::ranges::find(known, below) != known.end()) return;
    known.push_back(below);
    layers.vertices[size_t(below)].above.push_back(above);
  };
  for (const LayoutEdge& edge : edges) {
    int last = edge.from;
    layers.passed.emplace_back();
    for (int r = row[size_t(edge.from)] + 1; r < row[size_t(edge.to)]; ++r) {
      const auto [dummy, made] = dummies.try_emplace({edge.from, r}, int(layers.vertices.size()));
      if (made) {
        layers.vertices.push_back({.box = false, .fork = -1, .above = {}, .below = {}});
        layers.rows[size_t(r)].push_back(dummy->second);
      }
      connect(last, dummy->second);
      layers.passed.back().push_back(last = dummy->second);
    }
    connect(last, edge.to);
  }
  layers.place.resize(layers.vertices.size());
  for (size_t r = 0; r < layers.rows.size(); ++r) number_row(layers, r);
  return layers;
}

// Returns how many pairs of edges between adjacent rows cross: inversions, counted with a Fenwick tree.
size_t crossings(const Layers& layers) {
  const std::vector<size_t>& place = layers.place;
  size_t sum = 0;
  for (size_t r = 0; r + 1 < layers.rows.size(); ++r) {
    std::vector<size_t> tree(layers.rows[r + 1].size() + 1, 0);
    size_t total = 0;
    for (const int vertex : layers.rows[r]) {
      const std::vector<int>& below = layers.vertices[size_t(vertex)].below;
      for (const int b : below) {
        size_t not_right = 0;
        for (size_t i = place[size_t(b)] + 1; i > 0; i &= i - 1) not_right += tree[i];
        sum += total - not_right;
      }
      for (const int b : below)
        for (size_t i = place[size_t(b)] + 1; i < tree.size(); i += i & (~i + 1)) ++tree[i];
      total += below.size();
    }
  }
  return sum;
}

// Orders a row by the mean place of each vertex' neighbours above or below. A vertex without neighbours keeps its
// place.
void order_row(Layers& layers, size_t r, bool by_above) {
  const std::vector<size_t>& place = layers.place;
  std::vector<std::pair<double, int>> keys;
  for (const int vertex : layers.rows[r]) {
    const Vertex& v = layers.vertices[size_t(vertex)];
    const std::vector<int>& neighbours = by_above ? v.above : v.below;
    double sum = 0;
    for (const int n : neighbours) sum += double(place[size_t(n)]);
    keys.emplace_back(neighbours.empty() ? double(place[size_t(vertex)]) : sum / double(neighbours.size()), vertex);
  }
  std::ranges::stable_sort(keys, {}, &std::pair<double, int>::first);
  for (size_t i = 0; i < keys.size(); ++i) layers.rows[r][i] = keys[i].second;
  number_row(layers, r);
}

void order(Layers& layers) {
  constexpr int kSweeps = 12;
  std::vector<std::vector<int>> best = layers.rows;
  size_t fewest = crossings(layers);
  for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
    for (size_t r = 1; r < layers.rows.size(); ++r) order_row(layers, r, true);
    for (size_t r = layers.rows.size() - 1; r-- > 0;) order_row(layers, r, false);
    const size_t count = crossings(layers);
    if (count >= fewest) continue;
    fewest = count;
    best = layers.rows;
  }
  layers.rows = std::move(best);
  for (size_t r = 0; r < layers.rows.size(); ++r) number_row(layers, r);
}

// Returns the x that a vertex aims at: the middle of its neighbours. For a box, boxes count first, so that passing
// edges do not bend a chain of boxes. A box where branches meet aims at the box where they parted, so that repeated
// blocks stand below one another.
double wanted(const Layers& layers, int vertex, bool by_above, const std::vector<double>& x) {
  const Vertex& v = layers.vertices[size_t(vertex)];
  if (by_above && v.fork >= 0) return x[size_t(v.fork)];
  double sum[2] = {0, 0};
  int count[2] = {0, 0};
  for (const int n : by_above ? v.above : v.below) {
    const size_t kind = layers.vertices[size_t(n)].box ? 0 : 1;
    sum[kind] += x[size_t(n)];
    ++count[kind];
  }
  if (v.box && count[0] > 0) return sum[0] / count[0];
  return count[0] + count[1] == 0 ? x[size_t(vertex)] : (sum[0] + sum[1]) / (count[0] + count[1]);
}

void place_row(const Layers& layers, size_t r, bool by_above, const LayoutOptions& options, std::vector<double>& x) {
  constexpr double kBoxWeight = 1e9;  // boxes push lanes aside and are not moved by them
  const std::vector<int>& row = layers.rows[r];
  std::vector<double> goals, separation, weight;
  for (size_t i = 0; i < row.size(); ++i) {
    const bool box = layers.vertices[size_t(row[i])].box;
    goals.push_back(r == 0 && by_above ? x[size_t(row[i])] : wanted(layers, row[i], by_above, x));
    weight.push_back(box ? kBoxWeight : 1);
    if (i + 1 == row.size()) break;
    const bool next_box = layers.vertices[size_t(row[i + 1])].box;
    const double halves =
        ((box ? options.box_width : options.lane_width) + (next_box ? options.box_width : options.lane_width)) / 2;
    separation.push_back(halves + (box || next_box ? options.gap / (box && next_box ? 1 : 2) : 0));
  }
  const std::vector<double> placed = spread(goals, separation, weight);
  for (size_t i = 0; i < row.size(); ++i) x[size_t(row[i])] = placed[i];
}

}  // namespace

std::vector<double> spread(const std::vector<double>& wanted, const std::vector<double>& separation,
                           const std::vector<double>& weight) {
  struct Pool {
    double mean, weight;
    size_t count;
  };
  std::vector<Pool> pools;
  std::vector<double> shift(wanted.size(), 0);  // x_i - shift_i must not decrease
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i > 0) shift[i] = shift[i - 1] + separation[i - 1];
    pools.push_back({wanted[i] - shift[i], weight[i], 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& pool = pools.back();
      pool.mean = (pool.mean * pool.weight + last.mean * last.weight) / (pool.weight + last.weight);
      pool.weight += last.weight;
      pool.count += last.count;
    }
  }
  std::vector<double> x;
  for (const Pool& pool : pools)
    for (size_t i = 0; i < pool.count; ++i) x.push_back(pool.mean + shift[x.size()]);
  return x;
}

size_t lane_count(int nodes, const std::vector<LayoutEdge>& edges) {
  const std::vector<int> row = longest_path_rows(nodes, edges);
  std::vector<int> furthest(row);
  for (const LayoutEdge& e : edges)
    furthest[size_t(e.from)] = std::max(furthest[size_t(e.from)], row[size_t(e.to)] - 1);
  size_t count = 0;
  for (size_t i = 0; i < row.size(); ++i) count += size_t(furthest[i] - row[i]);
  return count;
}

GraphLayout lay_out(int nodes, const std::vector<LayoutEdge>& edges, const LayoutOptions& options) {
  constexpr int kPasses = 6;
  GraphLayout layout;
  layout.row = longest_path_rows(nodes, edges);
  Layers layers = make_layers(layout.row, edges);
  order(layers);
  const std::vector<int> dominator = dominators(nodes, edges);
  for (int i = 0; i < nodes; ++i)
    if (layers.vertices[size_t(i)].above.size() > 1) layers.vertices[size_t(i)].fork = dominator[size_t(i)];
  std::vector<double> x(layers.vertices.size(), 0);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (size_t r = 0; r < layers.rows.size(); ++r) place_row(layers, r, true, options, x);
    if (pass + 1 < kPasses)
      for (size_t r = layers.rows.size(); r-- > 0;) place_row(layers, r, false, options, x);
  }
  double left = 0, right = 0;
  for (size_t v = 0; v < x.size(); ++v) {
    const double half = (layers.vertices[v].box ? options.box_width : options.lane_width) / 2;
    left = v == 0 ? x[v] - half : std::min(left, x[v] - half);
    right = v == 0 ? x[v] + half : std::max(right, x[v] + half);
  }
  for (double& each : x) each -= left;
  layout.rows = int(layers.rows.size());
  layout.width = right - left;
  layout.x.assign(x.begin(), x.begin() + nodes);
  for (const std::vector<int>& passed : layers.passed) {
    layout.lanes.emplace_back();
    for (const int dummy : passed) layout.lanes.back().push_back(x[size_t(dummy)]);
  }
  return layout;
}

}  // namespace nacre::tools
