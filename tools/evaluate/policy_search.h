// Searches which policy each layer should have: a map (a policy for each layer) that is as small as possible within
// limits, with a bounded number of measurements.
//
// 1. Sensitivity: one layer at a time under each candidate: bytes and microseconds saved, drop of the metric, damage of
//    the outputs. Effects are assumed to add:  drop(map) = sum_l drop(l, map_l), and so on.
// 2. Paths: starting from the first candidate everywhere, step by step the change that saves most per predicted damage,
//    along each layer's lower convex hull of (damage, bytes). If effects do add, every map of the path is the smallest
//    with its damage: the greedy for the multiple-choice knapsack, Sinha and Zoltners 1979
//    (doi:10.1287/opre.27.3.503). A limit on time adds a second path, by microseconds.
// 3. Measurement: uniform maps, then the paths, by bisection towards the limits; predicted stands beside measured.
// 4. Descent: single changes of the best measured map, as long as they make it smaller within the limits.
//
// The search knows no file, graph or model: it only calls `measure`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace nacre::tools {

// For each layer the index of its policy among the candidates. 0 is the reference for all measurements.
using PolicyChoice = std::vector<int>;

struct Trial {
  double bytes = 0;
  double metric = 0;  // higher is better
  double damage = 0;  // of the outputs, from 0; it distinguishes more finely than the metric
  double microseconds = 0;
};

// Measures a choice. Returns nothing if a layer cannot have its policy.
using Measure = std::function<std::optional<Trial>(const PolicyChoice&)>;

struct SearchLimits {
  double max_drop = 0;  // of the metric, against choice 0
  std::optional<double> max_bytes = {}, max_microseconds = {};
};

struct SearchProblem {
  size_t layers = 0, policies = 0;
  SearchLimits limits = {};
  int budget = 200;                         // calls of `measure`
  std::function<bool()> stopped = nullptr;  // true: makes no more calls; the result is what was measured
};

struct SearchRow {
  PolicyChoice choice;
  Trial measured;
  double measured_drop = 0;
  Trial predicted;
  double predicted_drop = 0;
  bool meets = false;  // the measured values meet the limits
};

struct SearchResult {
  Trial base;  // of choice 0
  // [layer][policy]: only that layer under that policy. Empty if impossible or not tried.
  std::vector<std::vector<std::optional<Trial>>> alone;
  std::vector<SearchRow> rows;  // all maps that were measured, smallest first
  std::optional<size_t> best;   // the smallest row that meets the limits
  int measurements = 0;
};

// Throws the errors of `measure`, and Error(kFailed) if choice 0 cannot be measured.
SearchResult search_policies(const SearchProblem& problem, const Measure& measure);

// Returns the sum of the effects of single layers, or nothing if a layer was not measured alone.
std::optional<Trial> predict(const SearchResult& result, const PolicyChoice& choice);

// Returns the rows that no other row beats in bytes, drop and damage together, without those whose drop is NaN.
std::vector<size_t> pareto_front(const std::vector<SearchRow>& rows);

}  // namespace nacre::tools
