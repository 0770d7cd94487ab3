// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include <algorithm>
#include <bit>

#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/optimizer/forms.h"

// The functions are flattened: if vectors are plain C++ (simd/vec.h), a call of one of their functions costs more
// than its work.
namespace nacre::inline NACRE_ISA {

// Computes the gradient that the formulas of engine/ops/optimize.h call g.
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
    if (clips) g = V::max(negative_limit, V::min(limit, g));  // NaN stays NaN
    return decays ? V::add(g, V::mul(decay, p)) : g;
  }
};

// Returns the divisor of rmsprop and adagrad: sqrt(square + epsilon) if in_root, else sqrt(square) + epsilon.
template <class V>
[[gnu::always_inline]] inline typename V::F divisor_of(typename V::F square, typename V::F epsilon, bool in_root) {
  return in_root ? V::sqrt(V::add(square, epsilon)) : V::add(V::sqrt(square), epsilon);
}

template <class P>
[[gnu::flatten]] void SgdForm<P>::run(const float* gradients, const float* report, const float* rate,
                                      Update<P> parameter, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]);
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        const auto p = load<V>(parameter.data + i, lanes), g = gradient(load<V>(gradients + i, lanes), p);
        store<V>(parameter.data + i, V::sub(p, V::mul(r, g)), lanes);
      });
}

template <bool kNesterov, class P, class M>
[[gnu::flatten]] void MomentumForm<kNesterov, P, M>::run(const float* gradients, const float* report, const float* rate,
                                                         Update<P> parameter, Update<M> velocity, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), keep = V::set(mu);
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        const auto p = load<V>(parameter.data + i, lanes), g = gradient(load<V>(gradients + i, lanes), p);
        const auto u = V::add(V::mul(keep, load<V>(velocity.data + i, lanes)), g);
        store<V>(velocity.data + i, u, lanes);
        store<V>(parameter.data + i, V::sub(p, V::mul(r, kNesterov ? V::add(g, V::mul(keep, u)) : u)), lanes);
      });
}

template <bool kDecoupled, class P, class M>
[[gnu::flatten]] void AdamForm<kDecoupled, P, M>::run(const float* gradients, const float* report, const float* rate,
                                                      const uint32_t* step, Update<P> parameter, Update<M> m,
                                                      Update<M> v, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0], kDecoupled);
  const auto keep = V::set(kDecoupled ? kept<float>(rate[0]) : 1.0f);
  const auto first = V::set(1 - beta1), b2 = V::set(beta2), second = V::set(1 - beta2);
  const float root_of_step = root<float>(step[0]);
  const auto size = V::set(step_size<float>(rate[0], step[0])), corrected = V::set(root_of_step);
  const auto smallest = V::set(least(root_of_step));
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        auto p = load<V>(parameter.data + i, lanes);
        if constexpr (kDecoupled) p = V::mul(p, keep);
        const auto g = gradient(load<V>(gradients + i, lanes), p), before = load<V>(m.data + i, lanes);
        const auto mean = V::add(before, V::mul(first, V::sub(g, before)));
        const auto square = V::add(V::mul(b2, load<V>(v.data + i, lanes)), V::mul(V::mul(second, g), g));
        store<V>(m.data + i, mean, lanes);
        store<V>(v.data + i, square, lanes);
        const auto root_of_square = V::div(V::sqrt(square), corrected);
        store<V>(parameter.data + i, V::sub(p, V::div(V::mul(size, mean), V::add(root_of_square, smallest))), lanes);
      });
}

template <class P, class M>
[[gnu::flatten]] void RmspropForm<P, M>::run(const float* gradients, const float* report, const float* rate,
                                             Update<P> parameter, Update<M> mean_square, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), keep = V::set(alpha), take = V::set(1 - alpha), least = V::set(epsilon);
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        const auto p = load<V>(parameter.data + i, lanes), g = gradient(load<V>(gradients + i, lanes), p);
        const auto square = V::add(V::mul(keep, load<V>(mean_square.data + i, lanes)), V::mul(V::mul(take, g), g));
        store<V>(mean_square.data + i, square, lanes);
        store<V>(parameter.data + i, V::sub(p, V::div(V::mul(r, g), divisor_of<V>(square, least, in_root))), lanes);
      });
}

template <class P, class M>
[[gnu::flatten]] void AdagradForm<P, M>::run(const float* gradients, const float* report, const float* rate,
                                             Update<P> parameter, Update<M> sum, const Args&) const {
  using V = Vector;
  const GradientOf<V> gradient(*this, report[0]);
  const auto r = V::set(rate[0]), least = V::set(epsilon);
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        const auto p = load<V>(parameter.data + i, lanes), g = gradient(load<V>(gradients + i, lanes), p);
        const auto squares = V::add(load<V>(sum.data + i, lanes), V::mul(g, g));
        store<V>(sum.data + i, squares, lanes);
        store<V>(parameter.data + i, V::sub(p, V::div(V::mul(r, g), divisor_of<V>(squares, least, in_root))), lanes);
      });
}

template <class T>
[[gnu::flatten]] void AccumulateForm<T>::run(const T* x, Update<float> sum, const Args&) const {
  using V = Vector;
  each_vector<V>(
      elements, [&](int i, auto lanes) __attribute__((always_inline)) {
        store<V>(sum.data + i, V::add(load<V>(sum.data + i, lanes), load<V>(x + i, lanes)), lanes);
      });
}

// Computes the largest |x| and sum_i (x_i 2^-e)^2, where e is the exponent of the largest, in one pass over memory.
// Each block is read twice, the second time from the nearest cache. If a block has a larger number than all before,
// the earlier sums are scaled down to it. That loses only bits below the smallest float32. The sums are compensated in
// each lane of kVectors vectors, then over the lanes. ops/commit.h gives their error.
template <class V>
class LargestAndSquares {
 public:
  void add(const float* x, int n) {
    constexpr int kBlock = 64 * kWidth;
    for (int i = 0; i < n; i += kBlock) add_block(x + i, std::min(kBlock, n - i));
  }

  float largest() const { return std::bit_cast<float>(largest_); }

  // Returns the sum of squares, scaled by Verdict::scale_of(largest()).
  float squares() const {
    float all = 0, rest = 0, lane[V::kLanes], lost[V::kLanes];
    for (int v = 0; v < kVectors; ++v) {
      V::store(lane, sum_[v]);
      V::store(lost, lost_[v]);
      for (int j = 0; j < V::kLanes; ++j) {
        const float term = lane[j] + (rest + lost[j]), next = all + term;
        rest = term - (next - all);
        all = next;
      }
    }
    return all;
  }

 private:
  using F = typename V::F;
  static constexpr int kVectors = 6, kWidth = kVectors * V::kLanes;
  static constexpr int32_t kInfinityBits = 0x7F800000;

  void add_block(const float* x, int n) {
    const int32_t most = largest_bits(x, n);
    if (most > largest_) {
      largest_ = most;
      if (most < kInfinityBits) scale_to(Verdict::scale_of(largest()));
    }
    if (largest_ > 0 && largest_ < kInfinityBits) add_squares(x, n);
  }

  // Returns the bits of the largest |x|, compared as integers: infinity is above every number and NaN above infinity.
  static int32_t largest_bits(const float* x, int n) {
    constexpr int kMost = 4;
    typename V::I most[kMost];
    for (auto& v : most) v = V::set(int32_t{0});
    const auto raise = [&](int v, F numbers) { most[v] = V::max(most[v], V::as_integers(V::abs(numbers))); };
    int i = 0;
    for (; i + kMost * V::kLanes <= n; i += kMost * V::kLanes)
#pragma GCC unroll 4
      for (int v = 0; v < kMost; ++v) raise(v, V::load(x + i + v * V::kLanes));
    for (; i < n; i += V::kLanes) raise(0, V::load(x + i, V::most(n - i)));
    int32_t lane[V::kLanes], largest = 0;
    V::store(lane, V::max(V::max(most[0], most[1]), V::max(most[2], most[3])));
    for (const int32_t bits : lane) largest = bits > largest ? bits : largest;
    return largest;
  }

  // The sums are of squares, so they are multiplied by the ratio twice. The ratio may be 0: then the earlier numbers
  // are negligible beside those that follow.
  void scale_to(float scale) {
    const F ratio = V::set(scale_ == 0 ? 1.0f : scale / scale_);
    for (int v = 0; v < kVectors; ++v) {
      sum_[v] = V::mul(V::mul(sum_[v], ratio), ratio);
      lost_[v] = V::mul(V::mul(lost_[v], ratio), ratio);
    }
    scale_ = scale;
  }

  void add_squares(const float* x, int n) {
    const F unit = V::set(scale_);
    F sum[kVectors], lost[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = sum_[v], lost[v] = lost_[v];
    const auto add = [&](int v, F numbers) {
      const F scaled = V::mul(numbers, unit), term = V::fma(scaled, scaled, lost[v]), next = V::add(sum[v], term);
      lost[v] = V::sub(term, V::sub(next, sum[v]));
      sum[v] = next;
    };
    int i = 0;
    for (; i + kWidth <= n; i += kWidth)
#pragma GCC unroll 6
      for (int v = 0; v < kVectors; ++v) add(v, V::load(x + i + v * V::kLanes));
    for (; i < n; i += V::kLanes) add(0, V::load(x + i, V::most(n - i)));
    for (int v = 0; v < kVectors; ++v) sum_[v] = sum[v], lost_[v] = lost[v];
  }

  F sum_[kVectors] = {}, lost_[kVectors] = {};
  int32_t largest_ = 0;  // the bits of the largest |x|
  float scale_ = 0;      // scale of the sums; 0 if nothing was added yet
};

[[gnu::flatten]] inline void VerdictForm::run(const float* gradients, const float* loss, const float* count,
                                              const float* loss_scale, uint32_t* apply, uint32_t* amax, float* report,
                                              const Args&) const {
  LargestAndSquares<Vector> all;
  all.add(gradients, elements);
  judge(all.largest(), [&](float) { return all.squares(); }, loss, count, loss_scale, apply, amax, report);
}

}  // namespace nacre::inline NACRE_ISA
