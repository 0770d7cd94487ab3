// GPTQ and AWQ choose codes of weights by their effect on the outputs of samples, not by their distance from the
// weights. The error of reals v in place of w over the samples' inputs x, with H = 2/n sum x x^T:
//
//   error(v) = sum_k (v_k - w_k)^T H (v_k - w_k) = 2/n sum_rows sum_k (y_k(v) - y_k(w))^2
//
// Both code groups of `block` terms, with steps and zero points, as grouped_codes does. All sums are float64.
// NUMERICS.md section 7 has formulas and sources.
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
  const InputMoments& moments;  // for moments.hessian.size() groups of output channels
  int64_t block;                // terms in a group, 1 to layout.terms
  int bits;                     // 2 to 8
  std::string name;             // for the progress line on the terminal
};

struct Fit {
  WeightCodes codes;
  // For AWQ: factors for x, per input channel. The codes are those of w / factor. Empty if x is not multiplied.
  std::vector<float> factor;
  double error = 0, nearest_error = 0;  // of these codes, and of the nearest codes in the same groups
  int64_t dead = 0;                     // terms that are 0 in every sample: GPTQ makes their weights 0
};

// Returns the reals that the codes stand for: scale (q - zero), in float32 as the engine computes them.
std::vector<float> grouped_reals(const WeightCodes& codes, const WeightLayout& layout, int64_t block);

double fit_error(const FitProblem& problem, const std::vector<float>& reals);

// GPTQ. It rounds the terms one after the other to the nearest code, and corrects the later terms for the error.
//
//   in order           a group's steps are found when the group begins, from the corrected weights
//   activation_order   takes terms by falling H_ii. The groups keep the original order of terms, with steps of the
//                      given weights ("static groups"), so the engine needs no index of groups
//
// Damping and rounding can make codes that are worse than the nearest. Then the nearest codes are returned.
Fit gptq_fit(const FitProblem& problem, bool activation_order);

// AWQ. Returns the best fit by error of the ratios 0, 1/20, .., 1. Input channel c is multiplied by a factor
// proportional to mean|x_c|^-ratio, rounded to `type`, in which that step computes. Ratio 0 gives the nearest codes.
Fit awq_fit(const FitProblem& problem, ElementType type);

}  // namespace nacre::tools
