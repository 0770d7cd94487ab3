#include "tools/evaluate/policy_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

using Cost = double Trial::*;  // bytes or microseconds, which a path saves

struct Change {  // changes one layer to another policy
  size_t layer;
  int policy;
  double saved, damage;  // compared with the layer's policy before
};

class Searcher {
 public:
  Searcher(const SearchProblem& problem, const Measure& measure) : problem_(problem), measure_(measure) {}

  SearchResult run() {
    const std::optional<Trial> base = trial(PolicyChoice(problem_.layers, 0));
    if (!base)
      throw Error(kFailed, "search", "the first policy cannot be had by every layer", "name another one first");
    result_.base = *base;
    measure_alone();
    measure_uniform();
    measure_path(path(&Trial::bytes));
    if (problem_.limits.max_microseconds) measure_path(path(&Trial::microseconds));
    descend();
    finish();
    return std::move(result_);
  }

 private:
  bool left() const {
    const bool stopped = result_.measurements > 0 && problem_.stopped && problem_.stopped();
    return result_.measurements < problem_.budget && !stopped;
  }

  // Measures each choice once. Returns nothing if it is impossible or the budget is spent.
  std::optional<Trial> trial(const PolicyChoice& choice) {
    if (const auto found = known_.find(choice); found != known_.end()) return found->second;
    if (!left()) return std::nullopt;
    ++result_.measurements;
    return known_[choice] = measure_(choice);
  }

  void measure_alone();
  void measure_uniform();
  std::vector<Change> hull(size_t layer, Cost cost) const;
  std::vector<PolicyChoice> path(Cost cost) const;
  void measure_path(const std::vector<PolicyChoice>& path);
  void descend();
  void finish();

  double drop_of(const Trial& t) const { return result_.base.metric - t.metric; }
  bool meets(const Trial& t) const {
    const SearchLimits& l = problem_.limits;
    return drop_of(t) <= l.max_drop && (!l.max_bytes || t.bytes <= *l.max_bytes) &&
           (!l.max_microseconds || t.microseconds <= *l.max_microseconds);
  }
  std::optional<PolicyChoice> best_choice() const;

  const SearchProblem& problem_;
  const Measure& measure_;
  SearchResult result_;
  std::map<PolicyChoice, std::optional<Trial>> known_;
};

// Tries each policy in all layers, one layer at a time, before the next policy. So if the budget ends, at most one
// policy was tried in only some layers. A third of the budget is kept for maps.
void Searcher::measure_alone() {
  result_.alone.assign(problem_.layers, std::vector<std::optional<Trial>>(problem_.policies));
  const int most = std::max(1, problem_.budget - problem_.budget / 3);
  for (size_t policy = 0; policy < problem_.policies; ++policy) {
    for (size_t layer = 0; layer < problem_.layers; ++layer) {
      PolicyChoice choice(problem_.layers, 0);
      choice[layer] = int(policy);
      if (result_.measurements < most || known_.contains(choice)) result_.alone[layer][policy] = trial(choice);
    }
  }
}

void Searcher::measure_uniform() {
  for (size_t policy = 1; policy < problem_.policies; ++policy) trial(PolicyChoice(problem_.layers, int(policy)));
}

// Returns the changes along the lower convex hull of the layer's points (damage, cost), from its policy 0. Each saves
// less per damage than the one before. Points that save nothing, or less than another with no more damage, are left
// out.
std::vector<Change> Searcher::hull(size_t layer, Cost cost) const {
  struct Point {
    double damage, saved;
    int policy;
  };
  std::vector<Point> points = {{0, 0, 0}};
  for (size_t policy = 1; policy < problem_.policies; ++policy)
    if (const std::optional<Trial>& t = result_.alone[layer][policy]; t && std::isfinite(t->damage))
      points.push_back({std::max(0.0, t->damage), result_.base.*cost - (*t).*cost, int(policy)});
  std::ranges::stable_sort(points, [](const Point& x, const Point& y) {
    return std::pair(x.damage, -x.saved) < std::pair(y.damage, -y.saved);
  });
  std::vector<Point> hull;
  for (const Point& p : points) {
    if (!hull.empty() && p.saved <= hull.back().saved) continue;
    const auto steeper = [&](const Point& from, const Point& over) {  // slope from -> p is no less than from -> over
      return (p.saved - from.saved) * (over.damage - from.damage) >=
             (over.saved - from.saved) * (p.damage - from.damage);
    };
    while (hull.size() >= 2 && steeper(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(p);
  }
  std::vector<Change> changes;
  double saved = 0, damage = 0;
  for (const Point& p : hull) {
    if (p.policy == 0) continue;
    changes.push_back({layer, p.policy, p.saved - saved, p.damage - damage});
    saved = p.saved;
    damage = p.damage;
  }
  return changes;
}

std::vector<PolicyChoice> Searcher::path(Cost cost) const {
  std::vector<Change> changes;
  for (size_t layer = 0; layer < problem_.layers; ++layer) {
    const std::vector<Change> of_layer = hull(layer, cost);
    changes.insert(changes.end(), of_layer.begin(), of_layer.end());
  }
  // Sorts by saved / damage, without dividing by 0. The sort is stable, so a layer's changes keep their order.
  std::ranges::stable_sort(changes,
                           [](const Change& x, const Change& y) { return x.saved * y.damage > y.saved * x.damage; });
  std::vector<PolicyChoice> path;
  PolicyChoice choice(problem_.layers, 0);
  for (const Change& change : changes) {
    choice[change.layer] = change.policy;
    path.push_back(choice);
  }
  return path;
}

// Bisects for the last map whose drop is allowed, as if drops grew along the path. With budget left, measures the
// maps after it, because drops need not grow, and then the maps before it.
void Searcher::measure_path(const std::vector<PolicyChoice>& path) {
  size_t allowed = 0, refused = path.size();  // maps before `allowed` are allowed
  while (allowed < refused) {
    const size_t middle = allowed + (refused - allowed) / 2;
    const std::optional<Trial> t = trial(path[middle]);
    if (t && drop_of(*t) <= problem_.limits.max_drop) allowed = middle + 1;
    else refused = middle;
  }
  const int most = problem_.budget - problem_.budget / 6;  // the rest is for descend()
  for (size_t i = allowed; i < path.size() && result_.measurements < most; ++i) trial(path[i]);
  for (size_t i = allowed; i-- > 0 && result_.measurements < most;) trial(path[i]);
}

std::optional<PolicyChoice> Searcher::best_choice() const {
  const PolicyChoice* best = nullptr;
  const Trial* trial_of_best = nullptr;
  for (const auto& [choice, t] : known_) {
    if (!t || !meets(*t)) continue;
    const bool better =
        best == nullptr || std::tuple(t->bytes, t->damage, t->microseconds) <
                               std::tuple(trial_of_best->bytes, trial_of_best->damage, trial_of_best->microseconds);
    if (better) best = &choice, trial_of_best = &*t;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

// Starts from the best map. Tries changes of one layer that should save bytes, least damage first, takes the first
// that does within the limits, and begins again from there.
void Searcher::descend() {
  for (std::optional<PolicyChoice> at = best_choice(); at && left();) {
    std::vector<Change> changes;
    for (size_t layer = 0; layer < problem_.layers; ++layer) {
      const std::optional<Trial>& now = result_.alone[layer][size_t((*at)[layer])];
      for (size_t policy = 0; now && policy < problem_.policies; ++policy) {
        const std::optional<Trial>& then = result_.alone[layer][policy];
        if (then && then->bytes < now->bytes)
          changes.push_back({layer, int(policy), now->bytes - then->bytes, then->damage - now->damage});
      }
    }
    std::ranges::stable_sort(changes, {}, &Change::damage);
    const double bytes = known_.at(*at)->bytes;
    bool moved = false;
    for (const Change& change : changes) {
      PolicyChoice next = *at;
      next[change.layer] = change.policy;
      const std::optional<Trial> t = trial(next);
      if (!t || !meets(*t) || t->bytes >= bytes) continue;
      at = next;
      moved = true;
      break;
    }
    if (!moved) break;
  }
}

void Searcher::finish() {
  for (const auto& [choice, t] : known_) {
    if (!t) continue;
    const std::optional<Trial> predicted = predict(result_, choice);
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    const Trial p = predicted.value_or(Trial{kNone, kNone, kNone, kNone});
    result_.rows.push_back({choice, *t, drop_of(*t), p, result_.base.metric - p.metric, meets(*t)});
  }
  std::ranges::stable_sort(result_.rows, [](const SearchRow& x, const SearchRow& y) {
    return std::tuple(x.measured.bytes, x.measured.damage, x.measured.microseconds) <
           std::tuple(y.measured.bytes, y.measured.damage, y.measured.microseconds);
  });
  for (size_t i = 0; i < result_.rows.size() && !result_.best; ++i)
    if (result_.rows[i].meets) result_.best = i;
}

}  // namespace

SearchResult search_policies(const SearchProblem& problem, const Measure& measure) {
  return Searcher(problem, measure).run();
}

std::optional<Trial> predict(const SearchResult& result, const PolicyChoice& choice) {
  const Trial& base = result.base;
  Trial sum = base;
  for (size_t layer = 0; layer < choice.size(); ++layer) {
    const std::optional<Trial>& alone = result.alone[layer][size_t(choice[layer])];
    if (!alone) return std::nullopt;
    sum.bytes += alone->bytes - base.bytes;
    sum.metric += alone->metric - base.metric;
    sum.damage += alone->damage - base.damage;
    sum.microseconds += alone->microseconds - base.microseconds;
  }
  return sum;
}

std::vector<size_t> pareto_front(const std::vector<SearchRow>& rows) {
  const auto beats = [](const SearchRow& x, const SearchRow& y) {
    const bool no_worse = x.measured.bytes <= y.measured.bytes && x.measured_drop <= y.measured_drop &&
                          x.measured.damage <= y.measured.damage;
    const bool better = x.measured.bytes < y.measured.bytes || x.measured_drop < y.measured_drop ||
                        x.measured.damage < y.measured.damage;
    return no_worse && better;
  };
  std::vector<size_t> front;  // a NaN drop is beaten by no row, but is left out of the front
  for (size_t i = 0; i < rows.size(); ++i)
    if (!std::isnan(rows[i].measured_drop) &&
        std::ranges::none_of(rows, [&](const SearchRow& row) { return beats(row, rows[i]); }))
      front.push_back(i);
  return front;
}

}  // namespace nacre::tools
