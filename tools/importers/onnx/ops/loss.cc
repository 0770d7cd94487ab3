// Imports NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss as formulas, for networks that compute their loss.
//
//   x [n, c, ..]  logarithms of probabilities     t [n, ..]  labels     w [c]  weights of the classes, or 1
//
//   loss_i = -w_t x_i,t,   0 if t is ignore_index
//   reduction none: loss_i;  sum: sum_i loss_i;  mean: sum_i loss_i / sum_i w_t, over the i that are not ignored
#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"

namespace nacre::tools::onnx_import {
namespace {

Term give_loss(Formula& f, const Source& source, const Term& x) {
  const std::vector<int64_t>& dims = source.operand(0)->dims;
  if (dims.size() < 2 || source.operand(1)->rank() + 1 != int(dims.size()))
    source.malformed("its labels do not fit its input");
  std::vector<int64_t> beside(dims.size(), 1);
  beside[1] = dims[1];
  const Term labels = f("Unsqueeze", {f.to_real(f.input(1)), f.list({1})});
  Term hit = f("Equal", {labels, f.counted(beside)});
  if (source.has("ignore_index")) {
    const Term ignored = f.number(float(source.integer("ignore_index", 0)));
    hit = f("And", {hit, f("Not", {f("Equal", {labels, ignored})})});
  }
  const Term weight = source.given(2) ? f.reshape(f.input(2), beside) : f.filled(beside, 1);
  const Term chosen = f("Mul", {f("Where", {hit, x, f.number(0)}), weight});
  const Term loss = f("Neg", {f.reduce("ReduceSum", chosen, {1}, false)});
  const std::string reduction = source.text("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction != "sum" && reduction != "mean") source.malformed("reduction is " + reduction);
  const auto total = [&](const Term& value) { return f("ReduceSum", {value}, {{"keepdims", int64_t{0}}}); };
  if (reduction == "sum") return total(loss);
  if (!source.given(2) && !source.has("ignore_index")) return f("ReduceMean", {loss}, {{"keepdims", int64_t{0}}});
  return f("Div", {total(loss), total(f("Mul", {f.to_real(hit), weight}))});
}

void negative_log_likelihood(Import& import, const Source& source) {
  Formula f(import, source);
  f.give(give_loss(f, source, f.input(0)));
  f.run();
}

// Computes the loss of scores x that are not normalized. The second output is the logarithm of their softmax along
// the classes.
void softmax_cross_entropy(Import& import, const Source& source) {
  Formula f(import, source);
  const Term logs = f("LogSoftmax", {f.input(0)}, {{"axis", int64_t{1}}});
  f.give(give_loss(f, source, logs));
  f.give(logs);
  f.run();
}

constexpr OperatorImporter kLossImporters[] = {{"NegativeLogLikelihoodLoss", negative_log_likelihood},
                                               {"SoftmaxCrossEntropyLoss", softmax_cross_entropy}};

}  // namespace

std::span<const OperatorImporter> loss_importers() { return kLossImporters; }

}  // namespace nacre::tools::onnx_import
