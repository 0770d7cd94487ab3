// Tests rewrite_mixed on random graphs: its rules as equations, invariants, a second rewrite that changes nothing,
// and any order of nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/passes/random_graph.h"
#include "tests/passes/rewrite_graphs.h"
#include "tests/sanitized.h"

namespace nacre::tools {
namespace {

// Returns a random_graph with ops of the four lists. All values are float32, and their shapes have no meaning.
Graph random_network(uint32_t seed) {
  Graph graph = random_graph({.nodes = 3 + int(seed % 40), .pointwise = 0.4}, seed);
  std::mt19937 random(seed + 1);
  constexpr Op kOps[] = {Op::kDense, Op::kTanh,  Op::kAdd,     Op::kSoftmax,         Op::kMean, Op::kClamp,
                         Op::kCopy,  Op::kSlice, Op::kReshape, Op::kDepthwiseConv2d, Op::kCast, Op::kBatchNorm};
  for (Value& value : graph.values) value.type = ElementType::kFloat32;
  for (Node& node : graph.nodes) {
    node.op = kOps[random() % std::size(kOps)];
    node.words.clear();
    node.layer = graph.add_layer({.name = node.name, .source_op = "Any", .policy = {}});
  }
  return graph;
}

// Solves the rules of rewrite.h as equations, by repeating them until nothing changes.
class Oracle {
 public:
  Oracle(const Graph& graph, const RewriteOptions& options) : graph_(graph) {
    const RewriteLists lists = rewrite_lists(options.type, options.tf2_lists, options.level, options.edits);
    for (const Node& node : graph.nodes) {
      const char* name = tensorflow_name(node.op);
      const auto at = lists.find(name);
      lists_.push_back(at == lists.end() ? RewriteList::kUnlisted : at->second);
    }
    paint_.assign(graph.nodes.size(), Paint::kUnpainted);
    solve(options);
  }

  const std::vector<Paint>& paint() const { return paint_; }
  RewriteList list(size_t n) const { return lists_[n]; }

  bool reads(size_t reader, size_t writer) const {
    const Node &r = graph_.nodes[reader], &w = graph_.nodes[writer];
    if (r.op == Op::kCast) return false;
    const size_t slots = r.op == Op::kBatchNorm ? 1 : r.inputs.size();
    const auto last = r.inputs.begin() + ptrdiff_t(slots);
    return std::find(r.inputs.begin(), last, w.outputs[0]) != last;
  }

 private:
  static const char* tensorflow_name(Op op) {
    switch (op) {
      case Op::kDense: return "MatMul";
      case Op::kTanh: return "Tanh";
      case Op::kAdd: return "AddV2";
      case Op::kSoftmax: return "Softmax";
      case Op::kMean: return "Mean";
      case Op::kClamp:
      case Op::kCopy: return "Identity";
      case Op::kSlice: return "StridedSlice";
      case Op::kReshape: return "Reshape";
      case Op::kDepthwiseConv2d: return "DepthwiseConv2dNative";
      case Op::kBatchNorm: return "FusedBatchNormV3";
      default: return "Cast";
    }
  }

  template <class Rule>
  void repeat(Rule rule) {  // applies rule(reader, writer) to every edge
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < lists_.size(); ++r)
        for (size_t w = 0; w < lists_.size(); ++w)
          if (reads(r, w) && rule(r, w)) changed = true;
    }
  }

  void solve(const RewriteOptions& options) {
    for (size_t n = 0; n < lists_.size(); ++n)
      if (is(n, RewriteList::kAllow)) paint_[n] = Paint::kAllow;
    if (std::ranges::count(paint_, Paint::kAllow) == 0) return;
    deny_forward();
    allow_between();
    if (options.tf2_lists && options.type == ElementType::kBfloat16)
      repeat([&](size_t r, size_t w) { return is(r, RewriteList::kInfer) && allow(r, w); });
    repeat([&](size_t r, size_t w) {
      return (is(r, RewriteList::kClear) && allow(r, w)) || (is(w, RewriteList::kClear) && allow(w, r));
    });
    allow_casts();
  }

  bool is(size_t n, RewriteList list) const { return lists_[n] == list; }
  static bool set(std::vector<bool>& in, size_t n) { return in[n] ? false : (in[n] = true); }

  bool allow(size_t n, size_t by) {
    if (paint_[n] != Paint::kUnpainted || paint_[by] != Paint::kAllow) return false;
    paint_[n] = Paint::kAllow;
    return true;
  }

  void deny_forward() {
    std::vector<bool> upstream(lists_.size());
    for (size_t n = 0; n < lists_.size(); ++n) {
      upstream[n] = is(n, RewriteList::kDeny) || is(n, RewriteList::kInfer);
      if (is(n, RewriteList::kDeny)) paint_[n] = Paint::kDeny;
    }
    repeat([&](size_t r, size_t w) { return upstream[r] && is(w, RewriteList::kClear) && set(upstream, w); });
    repeat([&](size_t r, size_t w) {
      const bool spreads = paint_[w] == Paint::kDeny && upstream[r] && paint_[r] == Paint::kUnpainted;
      if (spreads) paint_[r] = Paint::kDeny;
      return spreads;
    });
  }

  void allow_between() {
    std::vector<bool> down(lists_.size()), up(lists_.size());
    for (size_t n = 0; n < lists_.size(); ++n) down[n] = up[n] = is(n, RewriteList::kAllow);
    const auto middle = [&](size_t n) {
      return paint_[n] == Paint::kUnpainted && (is(n, RewriteList::kInfer) || is(n, RewriteList::kClear));
    };
    repeat([&](size_t r, size_t w) { return down[w] && middle(r) && set(down, r); });
    repeat([&](size_t r, size_t w) { return up[r] && down[w] && set(up, w); });
    for (size_t n = 0; n < lists_.size(); ++n)
      if (up[n]) paint_[n] = Paint::kAllow;
  }

  void allow_casts() {
    const std::vector<Paint> before = paint_;
    for (size_t n = 0; n < lists_.size(); ++n) {
      if (graph_.nodes[n].op != Op::kCast) continue;
      const ValueId y = graph_.nodes[n].outputs[0];
      int readers = 0, allowed = 0;
      for (size_t r = 0; r < lists_.size(); ++r) {
        const std::vector<ValueId>& inputs = graph_.nodes[r].inputs;
        for (size_t slot = 0; slot < inputs.size(); ++slot) {
          if (inputs[slot] != y) continue;
          ++readers;
          const Op op = graph_.nodes[r].op;
          if (op != Op::kCast && (op != Op::kBatchNorm || slot == 0) && before[r] == Paint::kAllow) ++allowed;
        }
      }
      const bool output =
          std::ranges::any_of(graph_.outputs, [&](const Binding& binding) { return binding.value == y; });
      if (readers > 0 && readers == allowed && !output) paint_[n] = Paint::kAllow;
    }
  }

  const Graph& graph_;
  std::vector<RewriteList> lists_;
  std::vector<Paint> paint_;
};

const std::vector<RewriteOptions>& editions() {
  static const std::vector<RewriteOptions> kAll = {
      {}, {.type = ElementType::kBfloat16}, tf2(), tf2(ElementType::kBfloat16)};
  return kAll;
}

uint32_t seeds() { return uint32_t(nacre::test::generated(2000)); }

TEST(rewrite, random_graphs_are_painted_as_the_equations_say) {
  int allow = 0, deny = 0, unpainted = 0;
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    const RewriteOptions& options = editions()[seed % editions().size()];
    Graph graph = random_network(seed);
    const Oracle oracle(graph, options);
    const std::vector<RewriteDecision> decisions = rewrite_mixed(graph, options);
    for (size_t n = 0; n < decisions.size(); ++n) {
      ASSERT_EQ(decisions[n].list, oracle.list(n)) << "seed " << seed << ", node " << n;
      ASSERT_EQ(decisions[n].paint, oracle.paint()[n]) << "seed " << seed << ", " << n << ": " << decisions[n].reason;
      allow += decisions[n].paint == Paint::kAllow;
      deny += decisions[n].paint == Paint::kDeny;
      unpainted += decisions[n].paint == Paint::kUnpainted;
    }
  }
  EXPECT_GT(allow, nacre::test::generated(5000));
  EXPECT_GT(deny, nacre::test::generated(5000));
  EXPECT_GT(unpainted, nacre::test::generated(2000));
}

// An infer op that reads a DENY node is DENY too. A node painted in step 4 reads an ALLOW node and is read by one.
TEST(rewrite, random_graphs_keep_the_invariants_of_the_paint) {
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    const RewriteOptions& options = editions()[seed % editions().size()];
    Graph graph = random_network(seed);
    const Oracle edges(graph, options);
    const std::vector<RewriteDecision> d = rewrite_mixed(graph, options);
    const auto any = [&](auto holds) {
      for (size_t m = 0; m < d.size(); ++m)
        if (holds(m)) return true;
      return false;
    };
    for (size_t n = 0; n < d.size(); ++n) {
      if (d[n].paint == Paint::kDeny) {
        ASSERT_FALSE(any([&](size_t m) {
          return edges.reads(m, n) && d[m].list == RewriteList::kInfer && d[m].paint != Paint::kDeny;
        })) << "seed "
            << seed << ", node " << n;
      }
      if (d[n].step == 4) {
        ASSERT_TRUE(any([&](size_t m) { return edges.reads(m, n) && d[m].paint == Paint::kAllow; })) << "seed " << seed;
        ASSERT_TRUE(any([&](size_t m) { return edges.reads(n, m) && d[m].paint == Paint::kAllow; })) << "seed " << seed;
      }
      ASSERT_TRUE(d[n].list != RewriteList::kInfer || d[n].paint != Paint::kAllow || d[n].step == 4 || d[n].step == 5);
      ASSERT_TRUE(d[n].list != RewriteList::kDeny || d[n].paint == Paint::kDeny || d[n].runs_as == "as its source");
    }
  }
}

TEST(rewrite, twice_is_once) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const RewriteOptions& options = editions()[seed % editions().size()];
    Graph graph = random_network(seed);
    const std::vector<RewriteDecision> first = rewrite_mixed(graph, options);
    graph.log.clear();
    const std::string once = dump(graph);
    const std::vector<RewriteDecision> second = rewrite_mixed(graph, options);
    graph.log.clear();
    ASSERT_EQ(dump(graph), once) << "seed " << seed;
    ASSERT_EQ(paints_of(first), paints_of(second)) << "seed " << seed;
  }
}

// Shuffles the nodes so that every value is still written before it is read: any node whose inputs exist may come
// next.
void shuffle_nodes(Graph& graph, std::mt19937& random) {
  std::vector<bool> written(graph.values.size(), true);
  for (const Node& node : graph.nodes) written[size_t(node.outputs[0])] = false;
  std::vector<Node> rest = std::move(graph.nodes);
  graph.nodes.clear();
  while (!rest.empty()) {
    const size_t at = random() % rest.size();
    const std::vector<ValueId>& inputs = rest[at].inputs;
    if (!std::all_of(inputs.begin(), inputs.end(), [&](ValueId id) { return written[size_t(id)]; })) continue;
    written[size_t(rest[at].outputs[0])] = true;
    graph.nodes.push_back(std::move(rest[at]));
    rest.erase(rest.begin() + ptrdiff_t(at));
  }
}

TEST(rewrite, every_order_of_the_nodes_gives_the_same_paint_and_the_same_reasons) {
  std::mt19937 random(7);
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const RewriteOptions& options = editions()[seed % editions().size()];
    Graph graph = random_network(seed);
    std::map<std::string, std::string> paint;
    for (const RewriteDecision& d : rewrite_mixed(graph, options)) paint[d.layer] = name_of(d.paint) + d.reason;
    for (int order = 0; order < 3; ++order) {
      shuffle_nodes(graph, random);
      for (const RewriteDecision& d : rewrite_mixed(graph, options))
        ASSERT_EQ(name_of(d.paint) + d.reason, paint[d.layer]) << "seed " << seed << ", " << d.layer;
    }
  }
}

}  // namespace
}  // namespace nacre::tools
