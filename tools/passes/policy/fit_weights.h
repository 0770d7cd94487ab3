// Codes of weights by what they do to the outputs of samples, not by their distance from the weights: GPTQ and AWQ.
// The error of reals v in place of w over the samples' inputs x, with H = 2/n sum x x^T:
//
//   error(v) = sum_k (v_k - w_k)^T H (v_k - w_k) = 2/n sum_rows sum_k (y_k(v) - y_k(w))^2
//
// Both are in groups of `block` terms with steps and zero points, as grouped_codes; all sums are float64. Formulas and
// sources: NUMERICS.md section 7.
#pragma once

#include <string>
#include <vector>

#include "engine/base/tensor.h"
#include "tools/graph/graph.h"
#include "tools/passes/policy/quantize_weights.h"

namespace nacre::tools {

struct FitProblem {
  const std::vector<float>& w;  // finite
  WeightLayout layout;
  const InputMoments& moments;  // of moments.hessian.size() groups of output channels
  int64_t block;                // terms of a group, 1 to layout.terms
  int bits;                     // 2 to 8
  std::string name;             // for the line on the terminal
};

struct Fit {
  WeightCodes codes;
  // AWQ: what x is multiplied by, per input channel; the codes are those of w / factor. Empty: x stays as it is.
  std::vector<float> factor;
  double error = 0, nearest_error = 0;  // of these codes, and of the nearest in the same groups
  int64_t dead = 0;                     // terms that are 0 in every sample: GPTQ makes their weights 0
};

// Reals that the codes stand for: scale (q - zero), in float32 as the engine computes them.
std::vector<float> grouped_reals(const WeightCodes& codes, const WeightLayout& layout, int64_t block);

double fit_error(const FitProblem& problem, const std::vector<float>& reals);

// GPTQ. Terms are taken one after the other; each is rounded to its nearest code, and those that follow make up for it.
//
//   in order           the groups' steps are found when the group begins, from the weights as they are by then
//   activation_order   terms by falling H_ii; the groups stay those of the terms as they stand, with steps of the given
//                      weights ("static groups"): the engine needs no index of groups
//
// Codes that are worse than the nearest ones, which damping and rounding can make, are given up for those.
Fit gptq_fit(const FitProblem& problem, bool activation_order);

// AWQ. Factors s_c = mean|x_c|^ratio for ratio = 0, 1/20, .., 1, the best by its error; x is multiplied by 1 / s_c,
// rounded to `type`, in which the step that does so computes. ratio = 0 has the nearest codes.
Fit awq_fit(const FitProblem& problem, ElementType type);

}  // namespace nacre::tools
