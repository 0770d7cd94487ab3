// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include <bit>
#include <limits>

#include "engine/kernels/fast/recurrent/codes.h"
#include "engine/kernels/fast/recurrent/filters.h"
#include "engine/kernels/fast/recurrent/forms.h"
#include "engine/kernels/fast/row_major/run.h"
#include "engine/kernels/fast/scaled_sums.h"
#include "engine/simd/math.h"

namespace nacre::inline NACRE_ISA {

struct BlockMemory {
  float *bias, *states, *more, *sums;

  BlockMemory(std::byte* scratch, int width, int gates) {
    constexpr int kSamples = RecurrentBlock::kSamples;
    Pieces pieces = {scratch};
    bias = pieces.take<float>(size_t(gates * width));
    states = pieces.take<float>(size_t(kSamples * width));
    more = pieces.take<float>(size_t(kSamples * width));
    sums = pieces.take<float>(size_t(kSamples * gates * width));
  }
};

template <class V, class T>
void floats_or_zeros(float* to, const T* from, int count) {
  if (from != nullptr) return to_floats<V>(to, from, count);
  for (int i = 0; i < count; ++i) to[i] = 0;
}

// Calls f(first sample, samples, memory) for every block of samples, with the biases and first states in `memory`.
template <class T, class F>
void each_sample_block(const Sequence& size, int gates, const T* bias, const T* h0, const Args& args, const F& f) {
  in_parts(args, size.work(gates), [&](Part part, std::span<std::byte> scratch) {
    const BlockMemory memory(scratch.data(), size.width, gates);
    floats_or_zeros<Vector>(memory.bias, bias, gates * size.width);
    for (int n = 0; n < size.batch; n += RecurrentBlock::kSamples) {
      if (!part.takes()) continue;
      const int left = size.batch - n, samples = left < RecurrentBlock::kSamples ? left : RecurrentBlock::kSamples;
      floats_or_zeros<Vector>(memory.states, h0 == nullptr ? nullptr : h0 + n * size.width, samples * size.width);
      f(n, samples, memory);
    }
  });
}

// Computes sums_rk = bias_k + sum_j w_kj states_rj for each row k of w. A row of sums is `step` wide.
template <class V, class T>
[[gnu::noinline]] void recur(const T* w, const float* states, const float* bias, int samples, int width, int rows,
                             int step, float* sums) {
  each_dot_row<V>(states, w, bias, samples, width, rows, [&](int r, int k, float sum) { sums[r * step + k] = sum; });
}

// Takes a block of samples through all steps of an LSTM. In `memory` are h and c of the time before the first step,
// afterwards those of the last. c_t = min(max(c_t, -most), most).
template <class V, class T>
void lstm_steps(const Sequence& size, const T* x, const T* w, int first, int samples, const BlockMemory& memory,
                float most, T* y) {
  using Math = VectorMath<V>;
  const int h = size.width;
  const typename V::F high = V::set(most), low = V::set(-most);
  for (int t = 0; t < size.time; ++t) {
    recur<V>(w, memory.states, memory.bias, samples, h, 4 * h, 4 * h, memory.sums);
    for (int n = 0; n < samples; ++n) {
      const ptrdiff_t step = ptrdiff_t(first + n) * size.time + t;
      const T* const in = x + step * 4 * h;
      T* const out = y + step * h;
      const float* const sums = memory.sums + n * 4 * h;
      float *const cells = memory.more + n * h, *const state = memory.states + n * h;
      each_vector<V>(h, [&](int j, auto lanes) {
        const auto gate = [&](int k) {
          return V::add(load<V>(in + k * h + j, lanes), load<V>(sums + k * h + j, lanes));
        };
        const typename V::F kept = V::mul(Math::sigmoid(gate(1)), load<V>(cells + j, lanes));
        const typename V::F sum = V::fma(Math::sigmoid(gate(0)), Math::tanh(gate(2)), kept);
        const typename V::F cell = V::min(high, V::max(low, sum));
        store<V>(cells + j, cell, lanes);
        const typename V::F value = rounded_to<V, T>(V::mul(Math::sigmoid(gate(3)), Math::tanh(cell)));
        store<V>(state + j, value, lanes);
        store<V>(out + j, value, lanes);
      });
    }
  }
}

template <class T>
void FastLstm<T>::run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, Optional<const T> c0, T* y,
                      const Args& args) const {
  const int h = op.size.width;
  each_sample_block(op.size, 4, bias.data, h0.data, args, [&](int first, int samples, const BlockMemory& memory) {
    floats_or_zeros<Vector>(memory.more, c0 ? c0.data + first * h : nullptr, samples * h);
    lstm_steps<Vector>(op.size, x, w, first, samples, memory, std::numeric_limits<float>::infinity(), y);
  });
}

template <class T>
void FastStreamLstm<T>::run(const T* x, const T* w, Optional<const T> bias, Update<T> h, Update<float> c, T* y,
                            const Args& args) const {
  using V = Vector;
  const int width = op.size.width;
  const float most = op.clip == 0 ? std::numeric_limits<float>::infinity() : std::bit_cast<float>(op.clip);
  each_sample_block(op.size, 4, bias.data, h.data, args, [&](int first, int samples, const BlockMemory& memory) {
    to_floats<V>(memory.more, c.data + first * width, samples * width);
    lstm_steps<V>(op.size, x, w, first, samples, memory, most, y);
    from_floats<V>(h.data + first * width, memory.states, samples * width);
    from_floats<V>(c.data + first * width, memory.more, samples * width);
  });
}

// With reset_after the sums of gate n are w_n y_{t-1} + b_n. Else they are w_n (r y_{t-1}) + b_n, made after gate r.
template <class T>
void FastGru<T>::run(const T* x, const T* w, Optional<const T> bias, Optional<const T> h0, T* y,
                     const Args& args) const {
  using V = Vector;
  using Math = VectorMath<V>;
  const int h = op.size.width, time = op.size.time;
  const bool after = op.reset_after;
  each_sample_block(op.size, 3, bias.data, h0.data, args, [&](int first, int samples, const BlockMemory& memory) {
    for (int t = 0; t < time; ++t) {
      recur<V>(w, memory.states, memory.bias, samples, h, after ? 3 * h : 2 * h, 3 * h, memory.sums);
      const auto each = [&](const auto& f) {
        for (int n = 0; n < samples; ++n) {
          const ptrdiff_t step = ptrdiff_t(first + n) * time + t;
          each_vector<V>(h, [&](int j, auto lanes) {
            const auto at = [&](int k) { return memory.sums + (n * 3 + k) * h + j; };
            const auto gate = [&](int k) {
              return V::add(load<V>(x + (step * 3 + k) * h + j, lanes), load<V>(at(k), lanes));
            };
            f(n * h + j, step, j, at, gate, lanes);
          });
        }
      };
      if (!after) {
        each([&](int i, ptrdiff_t, int, const auto&, const auto& gate, auto lanes) {
          store<V>(memory.more + i, V::mul(Math::sigmoid(gate(1)), load<V>(memory.states + i, lanes)), lanes);
        });
        recur<V>(w + ptrdiff_t(2) * h * h, memory.more, memory.bias + 2 * h, samples, h, h, 3 * h, memory.sums + 2 * h);
      }
      each([&](int i, ptrdiff_t step, int j, const auto& at, const auto& gate, auto lanes) {
        V::F candidate = gate(2);
        if (after)
          candidate = V::fma(Math::sigmoid(gate(1)), load<V>(at(2), lanes), load<V>(x + (step * 3 + 2) * h + j, lanes));
        const V::F n = Math::tanh(candidate), z = Math::sigmoid(gate(0)), before = load<V>(memory.states + i, lanes);
        const V::F mixed = V::add(V::mul(V::sub(V::set(1.0f), z), n), V::mul(z, before));
        const V::F value = rounded_to<V, T>(mixed);
        store<V>(memory.states + i, value, lanes);
        store<V>(y + step * h + j, value, lanes);
      });
    }
  });
}

}  // namespace nacre::inline NACRE_ISA
