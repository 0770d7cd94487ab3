// Writes the operands of the op tree_ensemble (engine/ops/tree_ensemble.h). Each node of a tree follows the nodes that
// lead to it.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>

#include "engine/ops/tree_ensemble.h"
#include "tools/importers/ml/trees.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

constexpr int32_t kBelow = TreeEnsemble::kBelow, kEqual = TreeEnsemble::kEqual, kAbove = TreeEnsemble::kAbove,
                  kNoNumber = TreeEnsemble::kNoNumber, kAll = kBelow | kEqual | kAbove | kNoNumber;
constexpr int32_t kTurns[kModes] = {
    kBelow | kEqual, kBelow, kEqual | kAbove, kAbove, kEqual, kBelow | kAbove | kNoNumber, kEqual};

// Orders the splits that the roots lead to, each once: the children of a split come before it. Refuses loops.
class Order {
 public:
  Order(const Source& source, const Trees& trees) : source_(source), trees_(trees), seen_(trees.splits.size()) {
    for (size_t i = trees.roots.size(); i-- > 0;)
      if (trees.roots[i] >= 0) visit(trees.roots[i]);
  }
  const Ints& from_leaves() const { return order_; }

 private:
  enum Seen : uint8_t { kNot, kEntered, kDone };

  void visit(int64_t root) {
    enter(root);
    while (!open_.empty()) {
      const Split& split = trees_.splits[size_t(open_.back().split)];
      const int turn = open_.back().turn++;
      if (turn < 2) {
        enter(turn == 0 ? split.right : split.left);
        continue;
      }
      seen_[size_t(open_.back().split)] = kDone;
      order_.push_back(open_.back().split);
      open_.pop_back();
    }
  }
  void enter(int64_t split) {
    if (split < 0 || seen_[size_t(split)] == kDone) return;
    if (seen_[size_t(split)] == kEntered) source_.malformed("a node of a tree leads back to itself");
    seen_[size_t(split)] = kEntered;
    open_.push_back({split, 0});
  }

  struct Open {
    int64_t split;
    int turn;
  };
  const Source& source_;
  const Trees& trees_;
  std::vector<Seen> seen_;
  std::vector<Open> open_;
  Ints order_;
};

// Merges the weights of a leaf, so that each target has one: their sum, minimum or maximum.
std::vector<std::pair<int64_t, double>> merged(const Leaf& leaf, uint32_t aggregate) {
  std::map<int64_t, double> weights;
  for (const auto& [target, weight] : leaf.weights) {
    const auto [at, first] = weights.emplace(target, weight);
    if (first) continue;
    if (aggregate == TreeEnsemble::kSum) at->second += weight;
    else at->second = aggregate == TreeEnsemble::kMinimum ? std::min(at->second, weight) : std::max(at->second, weight);
  }
  return {weights.begin(), weights.end()};
}

// Writes the trees into the operands of tree_ensemble.
class Writer {
 public:
  Writer(const Source& source, const Trees& trees, Forest& forest)
      : source_(source), trees_(trees), forest_(forest), entry_(trees.leaves.size(), -1) {}

  void run() {
    const Order order(source_, trees_);
    const Ints& splits = order.from_leaves();
    std::vector<int64_t> index(trees_.splits.size()), height(trees_.splits.size());
    for (size_t i = 0; i < splits.size(); ++i) {
      index[size_t(splits[i])] = int64_t(splits.size() - 1 - i);
      const Split& split = trees_.splits[size_t(splits[i])];
      for (const int64_t child : {split.left, split.right})
        height[size_t(splits[i])] = std::max(height[size_t(splits[i])], 1 + (child < 0 ? 0 : height[size_t(child)]));
      forest_.depth = std::max(forest_.depth, height[size_t(splits[i])]);
    }
    const auto stored = [&](int64_t to) { return to < 0 ? leaf(~to) : int32_t(index[size_t(to)]); };
    for (size_t i = splits.size(); i-- > 0;) {
      const Split& split = trees_.splits[size_t(splits[i])];
      forest_.nodes.insert(forest_.nodes.end(), {split.feature << TreeEnsemble::kTurnBits | split.turns,
                                                 stored(split.left), stored(split.right)});
      forest_.thresholds.push_back(split.threshold);
    }
    for (const int64_t root : trees_.roots) forest_.roots.push_back(stored(root));
    if (splits.empty()) forest_.nodes = {0, -1, -1}, forest_.thresholds = {0};  // no operand may be empty
  }

 private:
  int32_t leaf(int64_t i) {
    int64_t& first = entry_[size_t(i)];
    if (first >= 0) return int32_t(-1 - first);
    first = int64_t(forest_.weights.size());
    const Leaf& leaf = trees_.leaves[size_t(i)];
    if (leaf.weights.empty()) source_.malformed("a leaf has no weight");
    for (const auto& [target, weight] : merged(leaf, forest_.aggregate)) {
      if (target < 0 || target >= forest_.targets) source_.malformed("a leaf has a target that is not there");
      if (!(std::fabs(weight) <= double(FLT_MAX))) source_.malformed("the weight of a leaf is no finite number");
      forest_.leaves.push_back(int32_t(target << 1));
      forest_.weights.push_back(float(weight));
    }
    forest_.leaves.back() |= 1;
    return int32_t(-1 - first);
  }

  const Source& source_;
  const Trees& trees_;
  Forest& forest_;
  Ints entry_;  // index of the first weight of each leaf; -1 if the leaf is not written yet
};

}  // namespace

// Sets the turns (which comparisons go left) so that every float32 goes as it would at the float64 t. If no float32
// equals t, the threshold is a float32 beside t; tests for equality then always fail, tests for inequality hold.
void Split::set_turns(Mode mode, double t, bool missing) {
  const bool unequal = mode == kNeq, equal = mode == kEq || mode == kMember;
  turns = kTurns[mode] | (missing ? kNoNumber : 0);
  const auto never_equal = [&] {
    turns = unequal ? kAll : turns & kNoNumber;
    threshold = 0;
  };
  if (std::isnan(t)) return never_equal();  // of the comparisons with NaN only != holds
  threshold = std::fabs(t) <= double(FLT_MAX) ? float(t) : std::copysign(INFINITY, t > 0 ? 1.0f : -1.0f);
  if (double(threshold) == t) return;
  if (equal || unequal) return never_equal();
  const bool down = mode == kLeq || mode == kGt;  // v <= t exactly if v <= the float32 below t
  if (down && double(threshold) > t) threshold = std::nextafter(threshold, -INFINITY);
  if (!down && double(threshold) < t) threshold = std::nextafter(threshold, INFINITY);
}

void write_arrays(const Source& source, const Trees& trees, Forest& forest) {
  constexpr int64_t kMostTargets = 1 << 20;
  if (forest.targets < 1 || forest.targets > kMostTargets) source.malformed("its number of outputs is 0 or too large");
  Writer(source, trees, forest).run();
}

}  // namespace nacre::tools::onnx_import
