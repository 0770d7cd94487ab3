// Imports ensembles of decision trees (ai.onnx.ml) as the op tree_ensemble, with formulas for labels and scores.
//
// Scores and labels follow onnxruntime's core/providers/cpu/ml/tree_ensemble_aggregator.h. The importer refuses files
// that onnxruntime and the standard's reference implementation are known to read in different ways.
#include <algorithm>

#include "engine/ops/tree_ensemble.h"
#include "tools/importers/ml/classes.h"
#include "tools/importers/ml/trees.h"

namespace nacre::tools::onnx_import {
namespace {

// Adds the op tree_ensemble: y_k = sum, minimum or maximum over trees t of the leaf's weight w_tk;  y [rows, targets]
OperandPtr tree_step(Import& import, const Source& source, const OperandPtr& x, const Forest& forest) {
  Node node = import.step(Op::kTreeEnsemble);
  set_integer(node, "targets", int(forest.targets));
  set_integer(node, "depth", int(forest.depth));
  set_integer(node, "aggregate", int(forest.aggregate));
  const auto codes = [&](const char* what, std::vector<int64_t> dims, const std::vector<int32_t>& data) {
    return import.graph().constant(source.name + what, std::move(dims), data);
  };
  const auto numbers = [&](const char* what, const std::vector<float>& data) {
    return import.reals(source.name + what, {int64_t(data.size())}, data);
  };
  node.inputs = {import.plain(x),
                 codes("/nodes", {int64_t(forest.thresholds.size()), TreeEnsemble::kNodeWords}, forest.nodes),
                 numbers("/thresholds", forest.thresholds),
                 codes("/roots", {int64_t(forest.roots.size())}, forest.roots),
                 codes("/leaves", {int64_t(forest.leaves.size())}, forest.leaves),
                 numbers("/weights", forest.weights)};
  return made_operand(import, import.append(std::move(node), source.name + "/trees"));
}

// Returns the scores: the sum, mean, minimum or maximum over the trees (`sums`), plus the base values.
Term scores_of(Formula& f, const OperandPtr& sums, const Forest& forest) {
  Term y = f.value(sums);
  if (forest.average) y = f("Div", {y, f.number(float(forest.roots.size()))});
  if (!forest.base.empty()) y = f("Add", {y, f.numbers({1, int64_t(forest.base.size())}, forest.base)});
  return y;
}

void regress(Import& import, const Source& source, const OperandPtr& x, const Forest& forest) {
  if (!forest.base.empty() && int64_t(forest.base.size()) != forest.targets)
    source.malformed("has " + std::to_string(forest.base.size()) + " base values for " +
                     std::to_string(forest.targets) + " outputs");
  if (forest.targets == 1 && forest.post_transform != "NONE" && forest.post_transform != "PROBIT")
    source.refuse("post_transform " + forest.post_transform + " of one output, which is applied by some readers only",
                  "export it without, and apply the function to the output");
  const OperandPtr sums = tree_step(import, source, x, forest);
  Formula f(import, source);
  const Term y = transformed(f, source, scores_of(f, sums, forest), forest.post_transform);
  const bool wide = source.operand(0)->kept != ElementType::kNone && source.proto.op_type() == "TreeEnsemble";
  f.give(wide ? f("CastLike", {y, f.input(0)}) : y);
  f.run();
}

void tree_regressor(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  regress(import, source, x, read_listed_trees(import, source, "target", source.integer("n_targets", 0), x->dims[1]));
}

void tree_ensemble(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  regress(import, source, x, read_trees(import, source, x->dims[1]));
}

// Gives the label and the scores of two classes if all weights have the class index 0. s is the sum of these weights:
//
//   LOGISTIC                      (sigmoid(-s), sigmoid(s))    the second class if s > 0
//   NONE, no weight is negative   (1 - s, s)                   the second class if s > 1/2
//   NONE                          (-s, s)                      the second class if s > 0
void classify_by_one(Formula& f, const Source& source, const Classes& classes, const Term& s, const Forest& forest) {
  const bool logistic = forest.post_transform == "LOGISTIC";
  const bool shares = !logistic && std::ranges::all_of(forest.weights, [](float w) { return w >= 0; });
  if (!logistic && forest.post_transform != "NONE")
    source.refuse("post_transform " + forest.post_transform + " of one score for two classes, which has two readings",
                  "export it with a score for each class");
  const Term other = shares ? f("Sub", {f.number(1), s}) : f("Neg", {s});
  f.give(label_above(f, source, classes, s, shares ? 0.5f : 0.0f));
  const Term both = f("Concat", {other, s}, {{"axis", int64_t{1}}});
  f.give(logistic ? f("Sigmoid", {both}) : both);
}

void tree_classifier(Import& import, const Source& source) {
  const OperandPtr x = rows_of(import, source);
  const Classes classes = read_classes(source, "classlabels_int64s", "classlabels_strings");
  const auto count = int64_t(classes.count());
  if (count < 2) source.refuse("has " + std::to_string(count) + " classes");
  const std::vector<int64_t> ids = source.integers("class_ids");
  const auto all = [&](int64_t of) {
    return !ids.empty() && std::ranges::all_of(ids, [of](int64_t id) { return id == of; });
  };
  const bool one = count == 2 && all(0);
  if (count == 2 && all(1)) source.refuse("has weights of its second class alone, which has two readings");
  Forest forest = read_listed_trees(import, source, "class", one ? 1 : count, x->dims[1]);
  if (!forest.base.empty() && int64_t(forest.base.size()) != forest.targets)
    source.refuse("has " + std::to_string(forest.base.size()) + " base values for " + std::to_string(forest.targets) +
                  " scores, which has two readings");
  list_names(import, source, classes.names);
  const OperandPtr sums = tree_step(import, source, x, forest);
  Formula f(import, source);
  const Term scores = scores_of(f, sums, forest);
  if (one) {
    classify_by_one(f, source, classes, scores, forest);
  } else {
    f.give(label_of_largest(f, source, classes, scores));
    f.give(transformed(f, source, scores, forest.post_transform));
  }
  f.run();
}

constexpr OperatorImporter kTreeImporters[] = {{"TreeEnsemble", tree_ensemble, kMl},
                                               {"TreeEnsembleClassifier", tree_classifier, kMl},
                                               {"TreeEnsembleRegressor", tree_regressor, kMl}};

}  // namespace

std::span<const OperatorImporter> ml_tree_ensembles_importers() { return kTreeImporters; }

}  // namespace nacre::tools::onnx_import
