// What the forms of fast_optimizer.h do, over vectors V. Included where kernels are compiled for an instruction set.
#pragma once

#include "engine/kernels/fast_optimizer.h"
#include "engine/kernels/vectors.h"

// Flattened: where the vectors are plain C++ (simd/vec.h), a call of one of their functions costs more than its work.
namespace nacre::inline NACRE_ISA {

// The gradient that the formulas call g.
template <class V>
struct GradientOf {
  using F = typename V::F;
  F factor, limit, negative_limit, decay;
  bool clips, decays;

  GradientOf(const Optimizer& optimizer, float factor_of_all, bool decoupled = false)
      : factor(V::set(factor_of_all)), limit(V::set(optimizer.clip_value)),
        negative_limit(V::set(-optimizer.clip_value)), decay(V::set(optimizer.weight_decay)),
        clips(optimizer.clip_value > 0), decays(optimizer.weight_decay != 0 && !decoupled) {}

  [[gnu::always_inline]] F operator()(F raw, F p) const {
    F g = V::mul(raw, factor);
    if (clips) g = V::max(negative_limit, V::min(limit, g));  // NaN passes
    return decays ? V::add(g, V::mul(decay, p)) : g;
  }
};

// p - a / (sqrt(square) + epsilon)
template <class V>
[[gnu::always_inline]] inline typename V::F stepped(typename V::F p, typename V::F a, typename V::F root,
                                                    typename V::F epsilon) {
  return V::sub(p, V::div(a, V::add(root, epsilon)));
}

template <class P>
[[gnu::flatten]] void SgdForm<P>::run(const float* gradients, const float* report, const float* rate,
                                      Update<P> parameter, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]);
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    const auto p = lanes.load(parameter.data + i), g = gradient(lanes.load(gradients + i), p);
    lanes.store(parameter.data + i, V::sub(p, V::mul(r, g)));
  });
}

template <bool kNesterov, class P, class M>
[[gnu::flatten]] void MomentumForm<kNesterov, P, M>::run(const float* gradients, const float* report, const float* rate,
                                                         Update<P> parameter, Update<M> velocity, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), keep = V::set(mu);
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    const auto p = lanes.load(parameter.data + i), g = gradient(lanes.load(gradients + i), p);
    const auto u = V::add(V::mul(keep, lanes.load(velocity.data + i)), g);
    lanes.store(velocity.data + i, u);
    lanes.store(parameter.data + i, V::sub(p, V::mul(r, kNesterov ? V::add(g, V::mul(keep, u)) : u)));
  });
}

template <bool kDecoupled, class P, class M>
[[gnu::flatten]] void AdamForm<kDecoupled, P, M>::run(const float* gradients, const float* report, const float* rate,
                                                      const uint32_t* step, Update<P> parameter, Update<M> m,
                                                      Update<M> v, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0], kDecoupled);
  const auto keep = V::set(kDecoupled ? kept<float>(rate[0]) : 1.0f);
  const auto first = V::set(1 - beta1), b2 = V::set(beta2), second = V::set(1 - beta2), least = V::set(epsilon);
  const auto size = V::set(step_size<float>(rate[0], step[0])), divisor = V::set(root<float>(step[0]));
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    auto p = lanes.load(parameter.data + i);
    if constexpr (kDecoupled) p = V::mul(p, keep);
    const auto g = gradient(lanes.load(gradients + i), p), before = lanes.load(m.data + i);
    const auto mean = V::add(before, V::mul(first, V::sub(g, before)));
    const auto square = V::add(V::mul(b2, lanes.load(v.data + i)), V::mul(V::mul(second, g), g));
    lanes.store(m.data + i, mean);
    lanes.store(v.data + i, square);
    lanes.store(parameter.data + i, stepped<V>(p, V::mul(size, mean), V::div(V::sqrt(square), divisor), least));
  });
}

template <class P, class M>
[[gnu::flatten]] void RmspropForm<P, M>::run(const float* gradients, const float* report, const float* rate,
                                             Update<P> parameter, Update<M> mean_square, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), keep = V::set(alpha), take = V::set(1 - alpha), least = V::set(epsilon);
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    const auto p = lanes.load(parameter.data + i), g = gradient(lanes.load(gradients + i), p);
    const auto square = V::add(V::mul(keep, lanes.load(mean_square.data + i)), V::mul(V::mul(take, g), g));
    lanes.store(mean_square.data + i, square);
    lanes.store(parameter.data + i, stepped<V>(p, V::mul(r, g), V::sqrt(square), least));
  });
}

template <class P, class M>
[[gnu::flatten]] void AdagradForm<P, M>::run(const float* gradients, const float* report, const float* rate,
                                             Update<P> parameter, Update<M> sum, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), least = V::set(epsilon);
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    const auto p = lanes.load(parameter.data + i), g = gradient(lanes.load(gradients + i), p);
    const auto squares = V::add(lanes.load(sum.data + i), V::mul(g, g));
    lanes.store(sum.data + i, squares);
    lanes.store(parameter.data + i, stepped<V>(p, V::mul(r, g), V::sqrt(squares), least));
  });
}

template <class T>
[[gnu::flatten]] void AccumulateForm<T>::run(const T* x, Update<float> sum, const Args&) const {
  using V = Vector;
  each_vector<V>(elements, [&](int i, auto lanes) __attribute__((always_inline)) {
    lanes.store(sum.data + i, V::add(lanes.load(sum.data + i), lanes.load(x + i)));
  });
}

// The bits of the largest |x|: as integers, so that infinity is above every number and NaN above infinity.
template <class V>
float largest_bits(const float* x, int n) {
  auto most = V::set(int32_t{0});
  const auto last_bit = V::set(int32_t{31});
  each_vector<V>(n, [&](int i, auto lanes) {
    const auto bits = V::as_integers(lanes.load(x + i));
    const auto sign = V::shift_left(V::shift_right(bits, 31), last_bit);
    most = V::max(most, V::sub(bits, sign));
  });
  int32_t lane[V::kLanes], largest = 0;
  V::store(lane, most);
  for (const int32_t bits : lane) largest = bits > largest ? bits : largest;
  return std::bit_cast<float>(largest);
}

// sum_i (x_i scale)^2, compensated: in each lane of four vectors, then over the lanes.
template <class V>
float compensated_squares(const float* x, int n, float scale) {
  using F = typename V::F;
  constexpr int kVectors = 4, kWidth = kVectors * V::kLanes;
  F sum[kVectors], lost[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = lost[v] = V::set(0.0f);
  const F unit = V::set(scale);
  const auto add = [&](int v, F numbers) {
    const F scaled = V::mul(numbers, unit), term = V::sub(V::mul(scaled, scaled), lost[v]), next = V::add(sum[v], term);
    lost[v] = V::sub(V::sub(next, sum[v]), term);
    sum[v] = next;
  };
  int i = 0;
  for (; i + kWidth <= n; i += kWidth)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) add(v, V::load(x + i + v * V::kLanes));
  for (; i < n; i += V::kLanes) add(0, V::load(x + i, V::most(n - i)));
  float all = 0, rest = 0, lane[V::kLanes], lane_lost[V::kLanes];
  for (int v = 0; v < kVectors; ++v) {
    V::store(lane, sum[v]);
    V::store(lane_lost, lost[v]);
    for (int j = 0; j < V::kLanes; ++j) {
      const float term = lane[j] - (rest + lane_lost[j]), next = all + term;
      rest = (next - all) - term;
      all = next;
    }
  }
  return all;
}

[[gnu::flatten]] inline void VerdictForm::run(const float* gradients, const float* loss, const float* count,
                                              const float* loss_scale, uint32_t* apply, uint32_t* amax, float* report,
                                              const Args&) const {
  using V = Vector;
  judge(
      largest_bits<V>(gradients, elements),
      [&](float scale) { return compensated_squares<V>(gradients, elements, scale); }, loss, count, loss_scale, apply,
      amax, report);
}

}  // namespace nacre::inline NACRE_ISA
