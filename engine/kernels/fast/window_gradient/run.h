// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). Functions are flattened and
// lambdas inlined, because a call costs more than its work if vectors are plain C++.
#pragma once

#include "engine/kernels/fast/column_blocks.h"
#include "engine/kernels/fast/window_gradient/forms.h"
#include "engine/simd/vec.h"

namespace nacre::inline NACRE_ISA {

// Calls f(output, tap) for each output along an axis whose window has `position`, as element `tap` of the window. It
// does not divide if the stride is 1.
template <class F>
[[gnu::always_inline]] inline void each_output_of(const WindowAxis& axis, int position, const F& f) {
  int offset = position + axis.before;
  for (int tap = 0; tap < axis.kernel; ++tap, offset -= axis.dilation) {
    int output = offset;
    if (axis.stride != 1) {
      if (offset % axis.stride != 0) continue;
      output = offset / axis.stride;
    }
    if (output >= 0 && output < axis.out) f(output, tap);
  }
}

// One pixel of x in one window that contains it. For each such window term(this, channel, block, sums) adds to dx.
struct PixelInWindow {
  int p, q, h, v;  // pixel (p, q) of x, output (h, v)
  ptrdiff_t x, y;  // where their channels begin
  int tap;         // index of the pixel in the window, row by row
};
template <class V, class T, class Term>
[[gnu::always_inline]] inline void each_pixel_of_x(const Window& window, int batch, int channels, T* dx,
                                                   const Term& term) {
  using F = typename V::F;
  for (int n = 0; n < batch; ++n)
    for (int p = 0; p < window.h.in; ++p)
      for (int q = 0; q < window.w.in; ++q) {
        const ptrdiff_t x = ((ptrdiff_t(n) * window.h.in + p) * window.w.in + q) * channels;
        each_column_block<V>(
            channels, [&](int first, auto block) __attribute__((always_inline)) {
              F sum[decltype(block)::kVectors];
              block.each([&](int v) { sum[v] = V::set(0.0f); });
              each_output_of(window.h, p, [&](int h, int i) {
                each_output_of(window.w, q, [&](int v, int j) {
                  const ptrdiff_t y = ((ptrdiff_t(n) * window.h.out + h) * window.w.out + v) * channels;
                  term(PixelInWindow{p, q, h, v, x + first, y + first, i * window.w.kernel + j}, first, block, sum);
                });
              });
              block.each([&](int v) { block.store(dx + x + first, v, sum[v]); });
            });
      }
}

template <class T>
[[gnu::flatten]] void DepthwiseGradientXForm<T>::run(const T* dy, const T* w, T* dx, const Args&) const {
  using V = Vector;
  each_pixel_of_x<V>(window, batch, in_c, dx, [&](const PixelInWindow& at, int first, auto block, auto& sum) {
    const T* const filter = w + ptrdiff_t(at.tap) * in_c + first;
    block.each([&](int v) { sum[v] = V::add(sum[v], V::mul(block.load(dy + at.y, v), block.load(filter, v))); });
  });
}

// For each element (tap) of the window, goes over the outputs whose tap lies in x, in the order of the reference.
template <class T>
[[gnu::flatten]] void DepthwiseGradientWForm<T>::run(const T* dy, const T* x, Update<float> dw, const Args&) const {
  using V = Vector;
  using F = typename V::F;
  const WindowAxis &high = window.h, &wide = window.w;
  const auto add_tap = [&](int i, int j, int first, auto block, auto& sum) __attribute__((always_inline)) {
    for (int n = 0; n < batch; ++n)
      for (int h = 0; h < high.out; ++h) {
        const int p = high.position(h, i);
        if (!high.inside(p)) continue;
        const T* d = dy + (ptrdiff_t(n) * high.out + h) * wide.out * in_c + first;
        const T* const row = x + (ptrdiff_t(n) * high.in + p) * wide.in * in_c + first;
        for (int v = 0; v < wide.out; ++v, d += in_c) {
          const int q = wide.position(v, j);
          if (!wide.inside(q)) continue;
          const T* const from = row + ptrdiff_t(q) * in_c;
          block.each([&](int c) { sum[c] = V::add(sum[c], V::mul(block.load(d, c), block.load(from, c))); });
        }
      }
  };
  for (int i = 0; i < high.kernel; ++i)
    for (int j = 0; j < wide.kernel; ++j)
      each_column_block<V>(
          in_c, [&](int first, auto block) __attribute__((always_inline)) {
            float* const to = dw.data + (ptrdiff_t(i) * wide.kernel + j) * in_c + first;
            F sum[decltype(block)::kVectors];
            block.each([&](int c) { sum[c] = block.load(to, c); });
            add_tap(i, j, first, block, sum);
            block.each([&](int c) { block.store(to, c, sum[c]); });
          });
}

template <class T>
[[gnu::flatten]] void AveragePoolGradientForm<T>::run(const T* dy, T* dx, const Args&) const {
  using V = Vector;
  each_pixel_of_x<V>(window, batch, channels, dx, [&](const PixelInWindow& at, int, auto block, auto& sum) {
    const WindowAxis::Taps rows = window.h.taps(at.h), columns = window.w.taps(at.v);
    const auto size = V::set(float(divisor((rows.end - rows.first) * (columns.end - columns.first))));
    block.each([&](int v) { sum[v] = V::add(sum[v], V::div(block.load(dy + at.y, v), size)); });
  });
}

// A window adds dy to dx of the pixel that is its maximum. The first of equal pixels counts, and NaN counts above all
// numbers (Pool::replaces).
template <class T>
[[gnu::flatten]] void MaxPoolGradientForm<T>::run(const T* dy, const T* x, T* dx, const Args&) const {
  using V = Vector;
  using F = typename V::F;
  const F zero = V::set(0.0f), one = V::set(1.0f);
  const auto number = [&](F v) { return V::less(V::min(zero, v), one); };  // not NaN
  each_pixel_of_x<V>(window, batch, channels, dx, [&](const PixelInWindow& at, int, auto block, auto& sum) {
    constexpr int kVectors = decltype(block)::kVectors;
    const WindowAxis::Taps rows = window.h.taps(at.h), columns = window.w.taps(at.v);
    F value[kVectors], kept[kVectors];
    block.each([&](int v) {
      value[v] = block.load(x + at.x, v);
      kept[v] = block.load(dy + at.y, v);
    });
    for (int i = rows.first; i < rows.end; ++i)
      for (int j = columns.first; j < columns.end; ++j) {
        const int p = window.h.position(at.h, i), q = window.w.position(at.v, j);
        if (p == at.p && q == at.q) continue;
        const T* const from = x + at.x + (ptrdiff_t(p - at.p) * window.w.in + q - at.q) * channels;
        const bool before = p < at.p || (p == at.p && q < at.q);
        block.each([&](int v) {
          const F other = block.load(from, v);
          if (before)
            kept[v] = V::select(V::less(other, value[v]), kept[v], V::select(number(value[v]), zero, kept[v]));
          else kept[v] = V::select(V::less(value[v], other), zero, V::select(number(other), kept[v], zero));
        });
      }
    block.each([&](int v) { sum[v] = V::add(sum[v], kept[v]); });
  });
}

}  // namespace nacre::inline NACRE_ISA
