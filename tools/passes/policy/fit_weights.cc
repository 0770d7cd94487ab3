#include "tools/passes/policy/fit_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/numeric/grouped_int4.h"
#include "engine/numeric/small_float.h"
#include "tools/base/float64_sums.h"
#include "tools/base/progress.h"

namespace nacre::tools {
namespace {

using Matrix = std::vector<double>;  // [m, m], row-major

int64_t channels_per_group(const FitProblem& p) { return p.layout.channels / int64_t(p.moments.hessian.size()); }

// Calls f(e, group) for the changes e = v - w of every four output channels that share an H, [4, terms]. Missing
// channels are 0.
template <class F>
void each_four_changes(const FitProblem& p, const std::vector<float>& v, F f) {
  constexpr int64_t kAtOnce = 4;
  const int64_t m = p.layout.terms, per_group = channels_per_group(p);
  std::vector<double> e(size_t(kAtOnce * m));
  for (int64_t k = 0; k < p.layout.channels;) {
    const int64_t count = std::min(kAtOnce, (k / per_group + 1) * per_group - k);
    std::ranges::fill(e, 0);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t r = 0; r < m; ++r) {
        const size_t at = p.layout.at(k + i, r);
        e[size_t(i * m + r)] = double(v[at]) - double(p.w[at]);
      }
    f(e, size_t(k / per_group));
    k += count;
  }
}

// ---- GPTQ ----

constexpr double kDamping = 0.01;     // times the mean of diag(H): Frantar et al., section 4
constexpr int64_t kChunkTerms = 128;  // the effect of so many terms on later terms is added at once, for the cache

// Returns H of one group of channels, damped, with its terms in another order. Dead terms get H_ii = 1.
Matrix damped(const Matrix& h, const std::vector<int64_t>& order, const std::vector<bool>& dead) {
  const size_t m = order.size();
  Matrix result(m * m);
  double trace = 0;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < m; ++j) result[i * m + j] = h[size_t(order[i]) * m + size_t(order[j])];
    if (dead[size_t(order[i])]) result[i * m + i] = 1;
    trace += result[i * m + i];
  }
  for (size_t i = 0; i < m; ++i) result[i * m + i] += kDamping * trace / double(m);
  return result;
}

// Factors H = R R^T with R upper triangular, in place. The part below the diagonal is not changed. From the last row
// and column up:
//
//   R_jj = sqrt(H_jj - sum_{k>j} R_jk^2),   R_ij = (H_ij - sum_{k>j} R_ik R_jk) / R_jj   for i < j
//
// The GPTQ paper uses the upper Cholesky factor of H^-1, which is R^-1: H^-1 = (R^-1)^T R^-1.
void factor_upper(Matrix& h, int64_t m, Progress& progress) {
  for (int64_t j = m - 1; j >= 0; --j) {
    double* row = h.data() + j * m;
    const int64_t after = m - 1 - j;
    row[j] = std::sqrt(row[j] - dot(row + j + 1, row + j + 1, after));
    for (int64_t i = 0; i < j; ++i) {
      double* other = h.data() + i * m;
      other[j] = (other[j] - dot(other + j + 1, row + j + 1, after)) / row[j];
    }
    progress.show(uint64_t(m - j));
  }
}

// Fits the codes of the output channels that share one H.
class GptqGroup {
 public:
  GptqGroup(const FitProblem& problem, size_t group, bool activation_order, WeightCodes& codes)
      : p_(problem), h_(problem.moments.hessian[group]), activation_order_(activation_order), codes_(codes),
        m_(problem.layout.terms), groups_((m_ - 1) / problem.block + 1),
        first_(int64_t(group) * channels_per_group(p_)), count_(channels_per_group(p_)), order_(size_t(m_)),
        dead_(size_t(m_)), weight_(size_t(count_ * m_)), pull_(size_t(count_ * m_)) {}

  int64_t run(Progress& progress) {
    for (int64_t i = 0; i < m_; ++i) dead_[size_t(i)] = h_[size_t(i * m_ + i)] == 0;
    std::iota(order_.begin(), order_.end(), 0);
    if (activation_order_)
      std::ranges::stable_sort(order_,
                               [&](int64_t a, int64_t b) { return h_[size_t(a * m_ + a)] > h_[size_t(b * m_ + b)]; });
    for (int64_t k = 0; k < count_; ++k)
      for (int64_t i = 0; i < m_; ++i)
        weight(k, i) = dead_[size_t(order_[size_t(i)])] ? 0 : double(p_.w[p_.layout.at(first_ + k, order_[size_t(i)])]);
    if (activation_order_) find_static_steps();
    r_ = damped(h_, order_, dead_);
    factor_upper(r_, m_, progress);
    for (int64_t at = 0; at < m_;) at = chunk(at, progress);
    return std::ranges::count(dead_, true);
  }

 private:
  double& weight(int64_t k, int64_t i) { return weight_[size_t(k * m_ + i)]; }
  size_t step_index(int64_t k, int64_t group) const { return size_t((first_ + k) * groups_ + group); }

  void set_step(int64_t k, int64_t group, const std::vector<float>& values) {
    const Group found = group_of(values, size_t(p_.block), GroupRange::kWithZero, p_.bits);
    codes_.scale[step_index(k, group)] = found.scale;
    codes_.zero[step_index(k, group)] = found.zero;
  }

  void find_static_steps() {
    std::vector<float> values;
    for (int64_t k = 0; k < count_; ++k)
      for (int64_t group = 0; group < groups_; ++group) {
        values.clear();
        for (int64_t term = group * p_.block; term < std::min((group + 1) * p_.block, m_); ++term)
          values.push_back(dead_[size_t(term)] ? 0 : p_.w[p_.layout.at(first_ + k, term)]);
        set_step(k, group, values);
      }
  }

  // Finds the scale and zero point of a group of terms. With d = v - w fixed for the terms before `from`, the other
  // terms take the values of least error: sum_{i<=j} R_ij d_i = 0.
  void find_steps(int64_t k, int64_t from) {
    const int64_t end = std::min(from + p_.block, m_);
    if (from == 0) return set_step(k, 0, {weight_.begin() + k * m_, weight_.begin() + k * m_ + end});
    std::vector<double> sum(pull_.begin() + k * m_ + from, pull_.begin() + k * m_ + end);
    std::vector<float> values;
    for (int64_t j = from; j < end; ++j) {
      const double change = -sum[size_t(j - from)] / r_[size_t(j * m_ + j)];
      values.push_back(float(weight(k, j) + change));
      for (int64_t i = j + 1; i < end; ++i) sum[size_t(i - from)] += r_[size_t(j * m_ + i)] * change;
    }
    set_step(k, from / p_.block, values);
  }

  // Rounds weight i, as corrected by now, to its nearest code. Returns the change of the weight, v - w.
  double round_term(int64_t k, int64_t i) {
    const int64_t term = order_[size_t(i)];
    const size_t at = step_index(k, term / p_.block);
    const float scale = codes_.scale[at];
    const int zero = codes_.zero[at], half = 1 << (p_.bits - 1);
    const double now = weight(k, i) - pull_[size_t(k * m_ + i)] / r_[size_t(i * m_ + i)];
    const double steps = now / double(scale);  // NaN if the group spans more than float32; then nearest codes
    const double q = std::isnan(steps) ? zero : std::clamp(std::nearbyint(steps) + zero, double(-half), half - 1.0);
    codes_.codes[p_.layout.at(first_ + k, term)] = int8_t(q);
    return double(scale * float(int(q) - zero)) - weight(k, i);
  }

  // Rounds the terms from `at` to the end of the chunk, for all channels. Returns the end.
  int64_t chunk(int64_t at, Progress& progress) {
    int64_t end = std::min(at + kChunkTerms, m_);
    if (!activation_order_) end = std::min(end, (at / p_.block + 1) * p_.block);
    std::vector<double> change(size_t(end - at));
    for (int64_t k = 0; k < count_; ++k) {
      if (!activation_order_ && at % p_.block == 0) find_steps(k, at);
      double* pull = pull_.data() + k * m_;
      for (int64_t i = at; i < end; ++i) {
        const double d = change[size_t(i - at)] = round_term(k, i);
        add_scaled(d, r_.data() + i * m_ + i + 1, pull + i + 1, end - i - 1);
      }
      for (int64_t i = at; i < end; ++i) {
        add_scaled(change[size_t(i - at)], r_.data() + i * m_ + end, pull + end, m_ - end);
      }
    }
    progress.show(uint64_t(m_ + end));
    return end;
  }

  const FitProblem& p_;
  const Matrix& h_;
  const bool activation_order_;
  WeightCodes& codes_;
  const int64_t m_, groups_, first_, count_;  // terms; groups per channel; first and number of the channels
  std::vector<int64_t> order_;                // order of the terms
  std::vector<bool> dead_;                    // per term
  std::vector<double> weight_;                // [channel, index in `order_`]
  std::vector<double> pull_;                  // sum_{i<j} R_ij (v_i - w_i) over the rounded terms
  Matrix r_;
};

// ---- AWQ ----

// H ~ F F^T, F [m, rank]: pivoted Cholesky, which takes the largest remaining diagonal first and ends at 1e-12 of the
// largest. n rows give a rank of at most n, which is often far below m.
struct LowRank {
  std::vector<double> f;  // [rank, m]
  int64_t rank = 0;
};

LowRank low_rank(const Matrix& h, int64_t m) {
  LowRank result;
  std::vector<double> left(static_cast<size_t>(m));
  for (int64_t i = 0; i < m; ++i) left[size_t(i)] = h[size_t(i * m + i)];
  const double enough = 1e-12 * *std::ranges::max_element(left);
  for (; result.rank < m; ++result.rank) {
    const auto pivot = std::ranges::max_element(left) - left.begin();
    if (left[size_t(pivot)] <= enough) break;
    std::vector<double> column(h.begin() + pivot * m, h.begin() + (pivot + 1) * m);
    for (int64_t r = 0; r < result.rank; ++r) {
      const double* before = result.f.data() + r * m;
      add_scaled(-before[pivot], before, column.data(), m);
    }
    const double root = std::sqrt(left[size_t(pivot)]);
    for (int64_t i = 0; i < m; ++i) {
      column[size_t(i)] /= root;
      left[size_t(i)] = std::max(0.0, left[size_t(i)] - column[size_t(i)] * column[size_t(i)]);
    }
    left[size_t(pivot)] = 0;
    result.f.insert(result.f.end(), column.begin(), column.end());
  }
  return result;
}

double rounded_to(ElementType type, double x) {
  switch (type) {
    case ElementType::kFloat16: return double(float(Float16(float(x))));
    case ElementType::kBfloat16: return double(float(Bfloat16(float(x))));
    default: return double(float(x));  // the constant is float32
  }
}

class AwqSearch {
 public:
  AwqSearch(const FitProblem& problem, ElementType type) : p_(problem), type_(type) {
    for (const Matrix& h : p_.moments.hessian) factors_.push_back(low_rank(h, p_.layout.terms));
  }

  Fit run() {
    Fit best;
    double least = 0;
    Progress progress("awq " + p_.name, kRatios + 1);
    // All terms of a depthwise filter have one common factor, which changes no code.
    const int last = channels() == int64_t(factors_.size()) ? 0 : kRatios;
    for (int i = 0; i <= last; ++i) {
      Fit trial;
      if (i > 0) trial.factor = factors(double(i) / kRatios);
      trial.codes = grouped_codes(scaled(trial.factor), p_.layout, p_.block, GroupRange::kWithZero, p_.bits);
      const double error = low_rank_error(reals(trial));
      if (i == 0 || error < least) best = std::move(trial), least = error;
      progress.show(uint64_t(i) + 1);
    }
    best.error = fit_error(p_, reals(best));
    Fit nearest;
    nearest.codes = grouped_codes(p_.w, p_.layout, p_.block, GroupRange::kWithZero, p_.bits);
    nearest.error = nearest.nearest_error = best.nearest_error = fit_error(p_, reals(nearest));
    return best.error <= nearest.error ? best : nearest;
  }

 private:
  static constexpr int kRatios = 20;

  int64_t channels() const { return int64_t(p_.moments.mean_magnitude.size()); }
  // Returns the input channel of term r of output channel k. The channel of the group is the innermost axis of the
  // terms.
  size_t channel(int64_t k, int64_t r) const {
    const int64_t per_group = channels() / int64_t(p_.moments.hessian.size());
    return size_t(k / channels_per_group(p_) * per_group + r % per_group);
  }

  // Returns sqrt(min s * max s) / s_c per input channel c, rounded to type_, with s_c = max(mean|x_c|^ratio, 1e-4). A
  // channel of mean below 1e-8 counts as one of mean 1.
  std::vector<float> factors(double ratio) const {
    std::vector<double> s;
    for (const double mean : p_.moments.mean_magnitude)
      s.push_back(std::max(std::pow(mean < 1e-8 ? 1 : mean, ratio), 1e-4));
    const auto [low, high] = std::ranges::minmax(s);
    std::vector<float> factor;
    for (const double v : s) factor.push_back(float(rounded_to(type_, std::sqrt(low * high) / v)));
    return factor;
  }

  template <class F>
  std::vector<float> each_weight(const std::vector<float>& w, F f) const {
    std::vector<float> result = w;
    for (int64_t k = 0; k < p_.layout.channels; ++k)
      for (int64_t r = 0; r < p_.layout.terms; ++r) {
        float& v = result[p_.layout.at(k, r)];
        v = f(v, channel(k, r));
      }
    return result;
  }
  std::vector<float> scaled(const std::vector<float>& factor) const {
    if (factor.empty()) return p_.w;
    return each_weight(p_.w, [&](float w, size_t c) { return w / factor[c]; });
  }
  // Returns the weights that give the same products with the unscaled x.
  std::vector<float> reals(const Fit& trial) const {
    const std::vector<float> coded = grouped_reals(trial.codes, p_.layout, p_.block);
    if (trial.factor.empty()) return coded;
    return each_weight(coded, [&](float v, size_t c) { return v * trial.factor[c]; });
  }

  // Returns sum_k |F^T (v_k - w_k)|^2.
  double low_rank_error(const std::vector<float>& v) const {
    const int64_t m = p_.layout.terms;
    double sum = 0;
    each_four_changes(p_, v, [&](const std::vector<double>& e, size_t group) {
      const LowRank& f = factors_[group];
      for (int64_t r = 0; r < f.rank; ++r)
        for (const double part : four_dots(f.f.data() + r * m, e.data(), m, m)) sum += part * part;
    });
    return sum;
  }

  const FitProblem& p_;
  const ElementType type_;
  std::vector<LowRank> factors_;
};

}  // namespace

std::vector<float> grouped_reals(const WeightCodes& codes, const WeightLayout& layout, int64_t block) {
  const int64_t groups = (layout.terms - 1) / block + 1;
  std::vector<float> reals(codes.codes.size());
  for (int64_t k = 0; k < layout.channels; ++k)
    for (int64_t r = 0; r < layout.terms; ++r) {
      const auto g = size_t(k * groups + r / block);
      reals[layout.at(k, r)] = group_value(codes.codes[layout.at(k, r)], {codes.scale[g], codes.zero[g]});
    }
  return reals;
}

// H is symmetric: e^T H e = sum_i e_i (H_ii e_i + 2 sum_{j<i} H_ij e_j)
double fit_error(const FitProblem& p, const std::vector<float>& reals) {
  const int64_t m = p.layout.terms;
  double sum = 0;
  each_four_changes(p, reals, [&](const std::vector<double>& e, size_t group) {
    for (int64_t i = 0; i < m; ++i) {
      const double* row = p.moments.hessian[group].data() + i * m;
      const std::array<double, 4> below = four_dots(row, e.data(), m, i);
      for (size_t channel = 0; channel < 4; ++channel) {
        const double own = e[channel * size_t(m) + size_t(i)];
        sum += own * (row[i] * own + 2 * below[channel]);
      }
    }
  });
  return sum;
}

Fit gptq_fit(const FitProblem& p, bool activation_order) {
  const int64_t groups = (p.layout.terms - 1) / p.block + 1;
  WeightCodes nearest = grouped_codes(p.w, p.layout, p.block, GroupRange::kWithZero, p.bits);
  Fit fit;
  fit.codes.codes.resize(p.w.size());
  fit.codes.scale.resize(size_t(p.layout.channels * groups));
  fit.codes.zero.resize(size_t(p.layout.channels * groups));
  for (size_t group = 0; group < p.moments.hessian.size(); ++group) {
    Progress progress("gptq " + p.name, 2 * uint64_t(p.layout.terms));
    fit.dead += GptqGroup(p, group, activation_order, fit.codes).run(progress);
  }
  fit.error = fit_error(p, grouped_reals(fit.codes, p.layout, p.block));
  fit.nearest_error = fit_error(p, grouped_reals(nearest, p.layout, p.block));
  if (!(fit.error <= fit.nearest_error)) fit.codes = std::move(nearest), fit.error = fit.nearest_error;
  return fit;
}

Fit awq_fit(const FitProblem& p, ElementType type) { return AwqSearch(p, type).run(); }

}  // namespace nacre::tools
