// Oracles of GPTQ and AWQ by their definitions, in the plainest way and in float64. Each term is eliminated from an
// inverse Hessian as in OBQ (Frantar et al. 2022, section 2 and eq. 3), without a triangular factor. Errors are sums
// over the rows of the outputs. Steps and zero points of a group follow NUMERICS.md eq. 20.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tools/passes/policy/fit_weights.h"

namespace nacre::test {

struct NaiveLayer {
  int in = 0, out = 0;
  std::vector<float> w;                // [out, in]
  std::vector<std::vector<double>> x;  // rows

  float at(int k, int i) const { return w[size_t(k * in + i)]; }
};

struct NaiveCodes {
  std::vector<int> codes;     // [out, in], in [-2^(bits - 1), 2^(bits - 1) - 1]
  std::vector<float> scale;   // [out, groups]
  std::vector<int> zero;      // [out, groups]
  std::vector<double> steps;  // [out, in]: what was rounded to the code, in steps from 0
};

using NaiveMatrix = std::vector<std::vector<double>>;

inline NaiveMatrix naive_hessian(const NaiveLayer& layer) {
  const auto m = size_t(layer.in);
  NaiveMatrix h(m, std::vector<double>(m));
  for (const std::vector<double>& x : layer.x)
    for (size_t a = 0; a < m; ++a)
      for (size_t b = 0; b < m; ++b) h[a][b] += 2 * x[a] * x[b] / double(layer.x.size());
  return h;
}

// Inverts by Gauss-Jordan elimination, with the rows of the largest pivot first.
inline NaiveMatrix naive_inverse(NaiveMatrix a) {
  const size_t m = a.size();
  NaiveMatrix inverse(m, std::vector<double>(m));
  for (size_t i = 0; i < m; ++i) inverse[i][i] = 1;
  for (size_t c = 0; c < m; ++c) {
    size_t pivot = c;
    for (size_t r = c; r < m; ++r)
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    std::swap(a[c], a[pivot]), std::swap(inverse[c], inverse[pivot]);
    const double p = a[c][c];
    for (size_t j = 0; j < m; ++j) a[c][j] /= p, inverse[c][j] /= p;
    for (size_t r = 0; r < m; ++r) {
      const double f = a[r][c];
      if (r == c || f == 0) continue;
      for (size_t j = 0; j < m; ++j) a[r][j] -= f * a[c][j], inverse[r][j] -= f * inverse[c][j];
    }
  }
  return inverse;
}

struct NaiveStep {
  float scale;
  int zero;
};

inline NaiveStep naive_step(const std::vector<float>& values, int bits) {
  float low = 0, high = 0;
  for (const float v : values) low = std::min(low, v), high = std::max(high, v);
  const int levels = (1 << bits) - 1, half = 1 << (bits - 1);
  const float scale = (high - low + 1e-7f) / float(levels);
  return {scale, std::clamp(int(std::nearbyint(-low / scale)) - half, -half, half - 1)};
}

inline int naive_code(double in_steps, int zero, int bits) {
  const int half = 1 << (bits - 1);
  return int(std::clamp(std::nearbyint(in_steps) + zero, double(-half), double(half - 1)));
}

// Returns 2/n sum_rows sum_k (sum_i (v_ki - w_ki) x_i)^2.
inline double naive_error(const NaiveLayer& layer, const std::vector<double>& v) {
  double sum = 0;
  for (const std::vector<double>& x : layer.x)
    for (int k = 0; k < layer.out; ++k) {
      double y = 0;
      for (int i = 0; i < layer.in; ++i) y += (v[size_t(k * layer.in + i)] - double(layer.at(k, i))) * x[size_t(i)];
      sum += y * y;
    }
  return 2 * sum / double(layer.x.size());
}

inline std::vector<double> naive_reals(const NaiveLayer& layer, const NaiveCodes& found, int block) {
  const int groups = (layer.in - 1) / block + 1;
  std::vector<double> v;
  for (int k = 0; k < layer.out; ++k)
    for (int i = 0; i < layer.in; ++i) {
      const auto g = size_t(k * groups + i / block);
      v.push_back(double(found.scale[g] * float(found.codes[size_t(k * layer.in + i)] - found.zero[g])));
    }
  return v;
}

inline std::vector<double> wide(const std::vector<float>& v) { return {v.begin(), v.end()}; }

inline NaiveCodes naive_gptq(const NaiveLayer& layer, int block, int bits, bool activation_order) {
  const auto m = size_t(layer.in);
  const int groups = (layer.in - 1) / block + 1;
  NaiveMatrix h = naive_hessian(layer);
  std::vector<size_t> order(m);
  std::iota(order.begin(), order.end(), size_t{0});
  if (activation_order) std::ranges::stable_sort(order, [&](size_t a, size_t b) { return h[a][a] > h[b][b]; });
  std::vector<bool> dead(m);
  double mean = 0;
  for (size_t i = 0; i < m; ++i) {
    if ((dead[i] = h[i][i] == 0)) h[i][i] = 1;
    mean += h[i][i] / double(m);
  }
  for (size_t i = 0; i < m; ++i) h[i][i] += 0.01 * mean;
  const NaiveMatrix inverse = naive_inverse(h);
  NaiveCodes found;
  found.codes.resize(m * size_t(layer.out)), found.steps.resize(found.codes.size());
  found.scale.resize(size_t(layer.out * groups)), found.zero.resize(found.scale.size());
  for (int k = 0; k < layer.out; ++k) {
    NaiveMatrix left = inverse;  // of the terms that are not yet rounded
    std::vector<double> w(m);
    for (size_t i = 0; i < m; ++i) w[i] = dead[i] ? 0 : double(layer.at(k, int(i)));
    const auto find_step = [&](size_t g) {
      std::vector<float> values;
      for (size_t i = g * size_t(block); i < std::min((g + 1) * size_t(block), m); ++i) values.push_back(float(w[i]));
      const NaiveStep step = naive_step(values, bits);
      found.scale[size_t(k * groups) + g] = step.scale, found.zero[size_t(k * groups) + g] = step.zero;
    };
    for (size_t g = 0; activation_order && g < size_t(groups); ++g) find_step(g);
    for (const size_t j : order) {
      const size_t group = j / size_t(block), g = size_t(k * groups) + group, at = size_t(k) * m + j;
      if (!activation_order && j % size_t(block) == 0) find_step(group);
      found.steps[at] = w[j] / double(found.scale[g]);
      found.codes[at] = naive_code(found.steps[at], found.zero[g], bits);
      const double v = double(found.scale[g] * float(found.codes[at] - found.zero[g]));
      const double error = (w[j] - v) / left[j][j];
      for (size_t i = 0; i < m; ++i) w[i] -= error * left[j][i];
      const std::vector<double> row = left[j];
      for (size_t a = 0; a < m; ++a)
        for (size_t b = 0; b < m; ++b) left[a][b] -= row[a] * row[b] / row[j];
    }
  }
  return found;
}

inline NaiveCodes naive_nearest(const NaiveLayer& layer, int block, int bits) {
  NaiveCodes found;
  for (int k = 0; k < layer.out; ++k)
    for (int first = 0; first < layer.in; first += block) {
      const int end = std::min(first + block, layer.in);
      std::vector<float> values;
      for (int i = first; i < end; ++i) values.push_back(layer.at(k, i));
      const NaiveStep step = naive_step(values, bits);
      found.scale.push_back(step.scale), found.zero.push_back(step.zero);
      for (const float v : values) {
        found.steps.push_back(double(v / step.scale));
        found.codes.push_back(naive_code(found.steps.back(), step.zero, bits));
      }
    }
  return found;
}

struct NaiveAwq {
  NaiveCodes codes;
  std::vector<float> factor;  // 1 / s
  double error = 0;
};

// Returns the best of ratio = 0, 1/20, .., 1, by the error of the outputs.
inline NaiveAwq naive_awq(const NaiveLayer& layer, int block) {
  std::vector<double> mean(size_t(layer.in));
  for (const std::vector<double>& x : layer.x)
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += std::abs(x[i]) / double(layer.x.size());
  NaiveAwq best;
  for (int step = 0; step <= 20; ++step) {
    NaiveAwq trial;
    std::vector<double> s;
    for (const double v : mean) s.push_back(std::max(std::pow(v < 1e-8 ? 1 : v, step / 20.0), 1e-4));
    const double middle = std::sqrt(*std::ranges::max_element(s) * *std::ranges::min_element(s));
    for (const double v : s) trial.factor.push_back(float(middle / v));
    NaiveLayer scaled = layer;
    for (size_t i = 0; i < scaled.w.size(); ++i) scaled.w[i] /= trial.factor[i % size_t(layer.in)];
    trial.codes = naive_nearest(scaled, block, 4);
    std::vector<double> v = naive_reals(layer, trial.codes, block);
    for (size_t i = 0; i < v.size(); ++i) v[i] = double(float(v[i]) * trial.factor[i % size_t(layer.in)]);
    trial.error = naive_error(layer, v);
    if (step == 0 || trial.error < best.error) best = trial;
  }
  return best;
}

inline tools::InputMoments moments_of(const NaiveLayer& layer) {
  tools::InputMoments moments = {
      .rows = int64_t(layer.x.size()), .terms = layer.in, .hessian = {{}}, .mean_magnitude = {}};
  for (const std::vector<double>& row : naive_hessian(layer))
    moments.hessian[0].insert(moments.hessian[0].end(), row.begin(), row.end());
  moments.mean_magnitude.assign(size_t(layer.in), 0);
  for (const std::vector<double>& x : layer.x)
    for (size_t i = 0; i < x.size(); ++i) moments.mean_magnitude[i] += std::abs(x[i]) / double(layer.x.size());
  return moments;
}

inline tools::FitProblem problem_of(const NaiveLayer& layer, const tools::InputMoments& moments, int block, int bits) {
  return {.w = layer.w,
          .layout = {layer.out, layer.in, layer.in, 1},
          .moments = moments,
          .block = block,
          .bits = bits,
          .name = "test"};
}

}  // namespace nacre::test
