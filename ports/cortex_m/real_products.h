// float32 conv2d and its gradients, for training. A few outputs are made at a time, with their sums in FPU registers.
// Every sum has the reference's order and roundings, so the results are equal to the bit.
//
//   conv2d              blocks of 4 output channels, and of 2 pixels where rows of x are pixels of y (1x1)
//   conv2d_gradient_x   dx_npqc: blocks of 8 channels c, over taps and filters
//   conv2d_gradient_w   dw_kijc: blocks of 4 filters k and 4 channels c of a tap (i, j), over all pixels
#pragma once

#include <type_traits>
#include <utility>

#include "engine/kernels/adapter.h"
#include "engine/ops/conv.h"
#include "engine/ops/conv_gradient.h"

namespace nacre::cortex_m {

// Returns whether each output reads only the input at its own position.
constexpr bool is_point(const Window& window) {
  const auto axis = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.in == a.out;
  };
  return axis(window.h) && axis(window.w);
}

// Calls f(0), f(1) .. with integral constants: loops without a counter, so that arrays stay in registers.
template <int kCount, class F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Calls f(first, integral constant of the count) for blocks of kMost, then for each remaining one alone.
template <int kMost, class F>
void each_block(int from, int end, const F& f) {
  for (; end - from >= kMost; from += kMost) f(from, std::integral_constant<int, kMost>());
  for (; from < end; ++from) f(from, std::integral_constant<int, 1>());
}

struct RealConvolution : Conv2d {
  static constexpr RealConvolution from(const Words& words, const Operands& operands) {
    return {Conv2d::from(words, operands)};
  }

  void run(const float* x, const float* w, Optional<const float> b, float* y) const {
    if (is_point(window)) return multiply(x, w, b, y);
    int e = 0;
    each_pixel([&](const Pixel& pixel) {
      each_filter([&](int k, auto filters) { window_sums<filters.value>(x, w, b, y + e + k, pixel, k); });
      e += out_c;
    });
  }

 private:
  // Calls f(k, count) for blocks of filters of one group.
  template <class F>
  void each_filter(const F& f) const {
    for (int k = 0; k < out_c; k += group_out) each_block<4>(k, k + group_out, f);
  }

  template <int kFilters>
  void window_sums(const float* x, const float* w, Optional<const float> b, float* y, const Pixel& pixel, int k) const {
    float sum[size_t(kFilters)] = {};
    each_run(pixel, k, [&](int xi, int wi, int length) { add<1, kFilters>(x + xi, 0, w + wi, length, &sum); });
    for (int i = 0; i < kFilters; ++i) y[i] = epilogue.real<float>(sum[i], b, k + i);
  }

  void multiply(const float* x, const float* w, Optional<const float> b, float* y) const {
    each_block<2>(0, batch * window.h.out * window.w.out, [&](int pixel, auto pixels) {
      each_filter([&](int k, auto filters) {
        constexpr int kPixels = pixels.value, kFilters = filters.value;
        float sum[size_t(kPixels)][size_t(kFilters)] = {};
        add<kPixels, kFilters>(x + pixel * in_c + k / group_out * group_in, in_c, w + k * group_in, group_in, sum);
        for (int p = 0; p < kPixels; ++p)
          for (int i = 0; i < kFilters; ++i) y[(pixel + p) * out_c + k + i] = epilogue.real<float>(sum[p][i], b, k + i);
      });
    });
  }

  // Adds x_{p stride + c} w_{i w_channel + c} to sum_pi for each c below `length`, in order.
  template <int kPixels, int kFilters>
  void add(const float* x, int stride, const float* w, int length, float (*sum)[size_t(kFilters)]) const {
    float s[size_t(kPixels * kFilters)];
    const float *from[size_t(kPixels)], *filter[size_t(kFilters)];
    unrolled<kPixels>([&](auto p) { from[p] = x + p * stride; });
    unrolled<kFilters>([&](auto i) { filter[i] = w + i * w_channel; });
    unrolled<kPixels * kFilters>([&](auto i) { s[i] = sum[i / kFilters][i % kFilters]; });
    for (int c = 0; c < length; ++c) {
      float v[size_t(kPixels)], f[size_t(kFilters)];
      unrolled<kPixels>([&](auto p) { v[p] = *from[p]++; });
      unrolled<kFilters>([&](auto i) { f[i] = *filter[i]++; });
      unrolled<kPixels * kFilters>([&](auto i) { s[i] += v[i / kFilters] * f[i % kFilters]; });
    }
    unrolled<kPixels * kFilters>([&](auto i) { sum[i / kFilters][i % kFilters] = s[i]; });
  }
};

struct RealGradientX : Conv2dGradientX {
  static constexpr RealGradientX from(const Words& words, const Operands& operands) {
    return {Conv2dGradientX::from(words, operands)};
  }

  void run(const float* dy, const float* w, float* dx) const {
    for (int n = 0; n < batch; ++n)
      for (int p = 0; p < window.h.in; ++p)
        for (int q = 0; q < window.w.in; ++q)
          for (int k = 0; k < out_c; k += group_out)
            each_block<8>(0, group_in, [&](int c, auto channels) {
              float sum[channels.value] = {};
              each_use(n, p, q, [&](int pixel, int tap) {
                add<channels.value>(dy + pixel * out_c + k, w + k * w_channel + tap * w_column + c, sum);
              });
              for (const float s : sum) *dx++ = s;
            });
  }

 private:
  // Adds dy_k w_kc to sum_c for each filter k of a group, in order.
  template <int kChannels>
  void add(const float* dy, const float* w, float* sum) const {
    float s[size_t(kChannels)];
    unrolled<kChannels>([&](auto c) { s[c] = sum[c]; });
    for (int k = 0; k < group_out; ++k, w += w_channel) {
      const float d = *dy++;
      unrolled<kChannels>([&](auto c) { s[c] += d * w[c]; });
    }
    unrolled<kChannels>([&](auto c) { sum[c] = s[c]; });
  }
};

struct RealGradientW : Conv2dGradientW {
  static constexpr RealGradientW from(const Words& words, const Operands& operands) {
    return {Conv2dGradientW::from(words, operands)};
  }

  void run(const float* dy, const float* x, Update<float> dw) const {
    for (int group = 0; group < out_c; group += group_out)
      for (int i = 0; i < window.h.kernel; ++i)
        for (int j = 0; j < window.w.kernel; ++j)
          each_block<4>(group, group + group_out, [&](int k, auto filters) {
            each_block<4>(0, group_in, [&](int c, auto channels) {
              const float* const from = x + group / group_out * group_in + c;
              float* const to = dw.data + k * w_channel + (i * window.w.kernel + j) * w_column + c;
              add<filters.value, channels.value>(dy + k, from, i, j, to);
            });
          });
  }

 private:
  // Adds dy_k x_c to dw_kc for each pixel of y whose tap (i, j) is inside x, in order.
  template <int kFilters, int kChannels>
  void add(const float* dy, const float* x, int i, int j, float* dw) const {
    float sum[size_t(kFilters * kChannels)];
    unrolled<kFilters * kChannels>([&](auto e) { sum[e] = dw[e / kChannels * w_channel + e % kChannels]; });
    const WindowAxis &rows = window.h, &columns = window.w;
    for (int n = 0; n < batch; ++n)
      for (int h = 0; h < rows.out; ++h) {
        const int p = rows.position(h, i);
        if (!rows.inside(p)) continue;
        const float* d = dy + (n * rows.out + h) * columns.out * out_c;
        for (int o = 0; o < columns.out; ++o, d += out_c) {
          const int q = columns.position(o, j);
          if (!columns.inside(q)) continue;
          const float* const from = x + ((n * rows.in + p) * columns.in + q) * in_c;
          float v[size_t(kChannels)];
          unrolled<kChannels>([&](auto c) { v[c] = from[c]; });
          unrolled<kFilters>([&](auto k) {
            const float s = d[k];
            unrolled<kChannels>([&](auto c) { sum[k * kChannels + c] += s * v[c]; });
          });
        }
      }
    unrolled<kFilters * kChannels>([&](auto e) { dw[e / kChannels * w_channel + e % kChannels] = sum[e]; });
  }
};

}  // namespace nacre::cortex_m
