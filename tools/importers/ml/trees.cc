// Reads the decision trees of ONNX files, from the attributes of TreeEnsemble or of the older tree operators.
#include "tools/importers/ml/trees.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "engine/ops/tree_ensemble.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = std::vector<int64_t>;

int32_t checked_feature(const Source& source, int64_t feature, int64_t features) {
  if (feature < 0 || feature >= features || feature >= INT32_MAX >> TreeEnsemble::kTurnBits)
    source.malformed("a node reads feature " + std::to_string(feature) + " of " + std::to_string(features));
  return int32_t(feature);
}

Ints listed(const Source& source, const char* key, size_t count) {
  Ints numbers = source.integers(key);
  if (numbers.size() != count) source.malformed(std::string(key) + " has another length than the list of nodes");
  return numbers;
}

void set_aggregate(const Source& source, Forest& forest, const std::string& name) {
  forest.average = name == "AVERAGE";
  forest.aggregate = name == "MIN"   ? uint32_t(TreeEnsemble::kMinimum)
                     : name == "MAX" ? uint32_t(TreeEnsemble::kMaximum)
                                     : uint32_t(TreeEnsemble::kSum);
  if (forest.aggregate == TreeEnsemble::kSum && name != "SUM" && !forest.average)
    source.malformed("aggregate_function " + name + " is none");
}

// Rounds thresholds to float32 if the file's input is float64, because the import rounds this input to float32. An
// input that equals a threshold then still equals it.
std::vector<double> as_the_input(const Source& source, std::vector<double> numbers) {
  if (source.operand(0)->kept == ElementType::kFloat64)
    for (double& number : numbers)
      if (std::fabs(number) <= double(FLT_MAX)) number = double(float(number));
  return numbers;
}

// Reads trees whose nodes are rows of one list, named by a pair {tree, node}. The first row of a tree is its root.
class ListedTrees {
 public:
  ListedTrees(const Source& source, std::string of, int64_t features)
      : source_(source), of_(std::move(of)), features_(features), tree_(source.integers("nodes_treeids")) {}

  Trees read() {
    const size_t count = tree_.size();
    if (count == 0) source_.malformed("has no nodes");
    const Ints id = listed(source_, "nodes_nodeids", count);
    const std::vector<std::string> modes = listed_texts(source_, "nodes_modes");
    if (modes.size() != count) source_.malformed("nodes_modes has another length than the list of nodes");
    for (size_t row = 0; row < count; ++row) {
      if (!rows_.emplace(std::pair(tree_[row], id[row]), row).second)
        source_.malformed("node " + std::to_string(id[row]) + " is twice in one tree");
      place_.push_back(modes[row] == "LEAF" ? ~int64_t(trees_.leaves.size()) : int64_t(trees_.splits.size()));
      if (modes[row] == "LEAF") trees_.leaves.emplace_back();
      else trees_.splits.emplace_back();
      if (roots_.insert(tree_[row]).second) trees_.roots.push_back(place_[row]);
    }
    read_splits(modes);
    read_weights();
    return std::move(trees_);
  }

 private:
  int64_t row_of(int64_t tree, int64_t node) const {
    const auto found = rows_.find({tree, node});
    if (found == rows_.end()) source_.malformed("node " + std::to_string(node) + " of a tree is not there");
    return place_[found->second];
  }

  Mode mode_of(const std::string& name) const {
    constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) source_.malformed("nodes_modes: " + name + " is none");
    return Mode(found - std::begin(kNames));
  }

  void read_splits(const std::vector<std::string>& modes) {
    const size_t count = modes.size();
    const Ints feature = listed(source_, "nodes_featureids", count), left = listed(source_, "nodes_truenodeids", count),
               right = listed(source_, "nodes_falsenodeids", count);
    const std::vector<double> values = as_the_input(source_, listed_numbers(source_, "nodes_values"));
    if (values.size() != count) source_.malformed("nodes_values has another length than the list of nodes");
    Ints missing = source_.integers("nodes_missing_value_tracks_true");
    missing.resize(count, 0);
    for (size_t row = 0; row < count; ++row) {
      if (place_[row] < 0) continue;
      Split& split = trees_.splits[size_t(place_[row])];
      split.feature = checked_feature(source_, feature[row], features_);
      split.left = row_of(tree_[row], left[row]);
      split.right = row_of(tree_[row], right[row]);
      split.set_turns(mode_of(modes[row]), values[row], missing[row] != 0);
    }
  }

  void read_weights() {
    const auto list = [&](const char* what) { return source_.integers((of_ + what).c_str()); };
    const Ints target = list("_ids"), tree = list("_treeids"), node = list("_nodeids");
    const std::vector<double> weights = listed_numbers(source_, of_ + "_weights");
    if (tree.size() != target.size() || node.size() != target.size() || weights.size() != target.size())
      source_.malformed("its weights, their nodes and their targets are not equally many");
    for (size_t i = 0; i < target.size(); ++i)  // weights at nodes that are no leaves are ignored
      if (const int64_t at = row_of(tree[i], node[i]); at < 0)
        trees_.leaves[size_t(~at)].weights.emplace_back(target[i], weights[i]);
  }

  const Source& source_;
  const std::string of_;
  const int64_t features_;
  const Ints tree_;
  std::map<std::pair<int64_t, int64_t>, size_t> rows_;
  std::set<int64_t> roots_;  // trees whose root was read
  Ints place_;               // for each row the index of its split, or ~i for leaf i
  Trees trees_;
};

std::vector<double> tensor_numbers(const Source& source, const char* key) {
  const ::onnx::AttributeProto* attribute = source.find(key);
  if (attribute == nullptr) return {};
  const Value value = read_tensor(attribute->t(), "");
  if (value.stored != ElementType::kFloat64) {
    const std::vector<float> numbers = reals(value);
    return {numbers.begin(), numbers.end()};
  }
  std::vector<double> numbers(size_t(value.elements()));
  if (!numbers.empty()) std::memcpy(numbers.data(), value.data->data(), numbers.size() * sizeof(double));
  return numbers;
}

// Reads the trees of the operator TreeEnsemble, whose splits and leaves stand in two lists. A node of mode MEMBER tests
// for a set. The members of all sets stand in one list in the order of the nodes, with a NaN after each set.
class SplitTrees {
 public:
  SplitTrees(const Source& source, int64_t features) : source_(source), features_(features) {}

  Trees read() {
    read_leaves();
    const Ints feature = source_.integers("nodes_featureids");
    const size_t count = feature.size();
    const std::vector<double> modes = tensor_numbers(source_, "nodes_modes"),
                              values = as_the_input(source_, tensor_numbers(source_, "nodes_splits"));
    if (modes.size() != count || values.size() != count)
      source_.malformed("nodes_modes or nodes_splits has another length than the list of nodes");
    members_ = as_the_input(source_, tensor_numbers(source_, "membership_values"));
    Ints missing = source_.integers("nodes_missing_value_tracks_true");
    missing.resize(count, 0);
    const Ints left = children("nodes_truenodeids", "nodes_trueleafs", count),
               right = children("nodes_falsenodeids", "nodes_falseleafs", count);
    trees_.splits.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (!(modes[i] >= 0 && modes[i] < double(kModes))) source_.malformed("nodes_modes: a mode is none");
      trees_.splits[i].feature = checked_feature(source_, feature[i], features_);
      trees_.splits[i].left = left[i];
      trees_.splits[i].right = right[i];
      if (int(modes[i]) == kMember) write_set(i, missing[i] != 0);
      else trees_.splits[i].set_turns(Mode(int(modes[i])), values[i], missing[i] != 0);
    }
    for (const int64_t root : source_.integers("tree_roots")) {
      if (root < 0 || root >= int64_t(count)) source_.malformed("a root is no node");
      trees_.roots.push_back(root);
    }
    if (trees_.roots.empty()) source_.malformed("has no trees");
    return std::move(trees_);
  }

 private:
  // Writes split i as a chain of splits, one for each member of its set: the feature v goes left if v = m_1, else if
  // v = m_2, ..; else right. With an empty set every v that is not NaN goes right.
  void write_set(size_t i, bool missing) {
    size_t end = member_;
    while (end < members_.size() && !std::isnan(members_[end])) ++end;
    const int64_t otherwise = trees_.splits[i].right;
    trees_.splits[i].set_turns(kMember, std::numeric_limits<double>::quiet_NaN(), missing);
    for (size_t at = i, m = member_; m < end; ++m, at = trees_.splits.size() - 1) {
      trees_.splits[at].set_turns(kMember, members_[m], missing);
      const bool last = m + 1 == end;
      trees_.splits[at].right = last ? otherwise : int64_t(trees_.splits.size());
      if (!last) trees_.splits.push_back(trees_.splits[at]);
    }
    member_ = end + 1;
  }

  void read_leaves() {
    const Ints target = source_.integers("leaf_targetids");
    const std::vector<double> weights = tensor_numbers(source_, "leaf_weights");
    if (weights.size() != target.size()) source_.malformed("its leaves have not one target and one weight each");
    for (size_t i = 0; i < target.size(); ++i) trees_.leaves.push_back({{{target[i], weights[i]}}});
  }

  Ints children(const char* ids, const char* leaves, size_t count) const {
    Ints to = listed(source_, ids, count);
    const Ints leaf = listed(source_, leaves, count);
    for (size_t i = 0; i < count; ++i) {
      const size_t limit = leaf[i] != 0 ? trees_.leaves.size() : count;
      if (to[i] < 0 || to[i] >= int64_t(limit)) source_.malformed("a node leads to one that is not there");
      if (leaf[i] != 0) to[i] = ~to[i];
    }
    return to;
  }

  const Source& source_;
  const int64_t features_;
  std::vector<double> members_;
  size_t member_ = 0;  // index of the first member of the next set
  Trees trees_;
};

// Takes the memory that `count` nodes need while they are read from the import's budget.
void spend_nodes(Import& import, size_t count) { import.spend(uint64_t(count) * 128); }

}  // namespace

std::vector<double> listed_numbers(const Source& source, const std::string& key) {
  const ::onnx::AttributeProto* list = source.find(key.c_str());
  if (list != nullptr && list->floats_size() > 0) return {list->floats().begin(), list->floats().end()};
  return tensor_numbers(source, (key + "_as_tensor").c_str());
}

std::vector<float> listed_floats(const Source& source, const std::string& key) {
  std::vector<float> floats;
  for (const double number : listed_numbers(source, key)) floats.push_back(float(number));
  return floats;
}

std::vector<std::string> listed_texts(const Source& source, const char* key) {
  const ::onnx::AttributeProto* list = source.find(key);
  return list == nullptr ? std::vector<std::string>()
                         : std::vector<std::string>(list->strings().begin(), list->strings().end());
}

Forest read_listed_trees(Import& import, const Source& source, const std::string& of, int64_t targets,
                         int64_t features) {
  Forest forest;
  forest.targets = targets;
  forest.base = listed_floats(source, "base_values");
  set_aggregate(source, forest, source.text("aggregate_function", "SUM"));
  forest.post_transform = source.text("post_transform", "NONE");
  spend_nodes(import, source.integers("nodes_treeids").size());
  const Trees trees = ListedTrees(source, of, features).read();
  write_arrays(source, trees, forest);
  return forest;
}

Forest read_trees(Import& import, const Source& source, int64_t features) {
  constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t aggregate = source.integer("aggregate_function", 1), transform = source.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4)
    source.malformed("its aggregate_function or its post_transform is none");
  Forest forest;
  forest.targets = source.integer("n_targets", 0);
  forest.post_transform = kTransforms[transform];
  set_aggregate(source, forest, kAggregates[aggregate]);
  spend_nodes(import, source.integers("nodes_featureids").size());
  const Trees trees = SplitTrees(source, features).read();
  write_arrays(source, trees, forest);
  return forest;
}

}  // namespace nacre::tools::onnx_import
