// Code of the kernel forms that forms.h declares, over a vector type V (engine/simd). ports/vector/family.cc includes
// it and is compiled for several instruction sets.
#pragma once

#include "engine/kernels/fast/gradient/run.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/sequence/forms.h"
#include "engine/kernels/fast/transpose_block.h"
#include "engine/simd/math.h"

// Functions are flattened and lambdas inlined, because a call costs more than its work if vectors are plain C++.
namespace nacre::inline NACRE_ISA {

// Computes sums [batch, columns] = rows [batch, terms] times a float32 matrix [terms, columns], plus start values.
template <class V>
struct StateProduct {
  int batch, terms, columns, step;
  float *matrix, *start;

  [[gnu::noinline]] static StateProduct of(int batch, int terms, int columns, Pieces& scratch) {
    StateProduct made = {batch, terms, columns, rounded_up(columns, V::kLanes), nullptr, nullptr};
    made.matrix = scratch.take<float>(size_t(terms) * size_t(made.step));
    made.start = scratch.take<float>(size_t(made.step));
    fill_numbers(made.start, 0.0f, made.step);
    return made;
  }
  // Copies w [columns, terms] transposed, and bias [columns], or 0 if `bias` is null.
  template <class T>
  [[gnu::noinline]] void put_forward(const T* w, const T* bias) const {
    transpose_floats<V>(w, terms, columns, terms, matrix, step);
    if (bias != nullptr) put_numbers<V>(start, bias, columns);
  }
  // Copies w [terms, columns]; the sums begin at 0.
  template <class T>
  [[gnu::noinline]] void put_backward(const T* w) const {
    for (int i = 0; i < terms; ++i) put_numbers<V>(matrix + i * step, w + ptrdiff_t(i) * columns, columns);
  }
  // Computes the sums; if `rows` is null, they are the start values.
  [[gnu::noinline]] void run(const float* rows, float* sums) const {
    if (rows == nullptr) {
      for (int n = 0; n < batch; ++n) put_numbers<V>(sums + n * columns, start, columns);
      return;
    }
    const RealProduct<V, float> product = {columns, matrix, V::kLanes, start, low_of({}), high_of({}), step};
    product.run(rows, TileRows{terms, 1, terms, 0}, batch, sums, columns);
  }
};

template <class V, class T>
[[gnu::noinline]] void put_state(float* to, const T* state, int count) {
  if (state != nullptr) put_numbers<V>(to, state, count);
  else fill_numbers(to, 0.0f, count);
}

// Stores v as T, and returns it as it would be read back.
template <class V, class T>
[[gnu::always_inline]] inline typename V::F kept_as(T* to, typename V::F v, auto lanes) {
  store<V>(to, v, lanes);
  if constexpr (std::is_same_v<T, float>) return v;
  else return load<V>(to, lanes);
}

// ---- lstm

template <int kLanes, class T>
[[gnu::flatten]] void FastLstmTraining<kLanes, T>::run(const T* x, const T* w, Optional<const T> bias,
                                                       Optional<const T> h0, Optional<const T> c0, T* y, T* gates,
                                                       T* cells, const Args& args) const {
  using V = Vector;
  using Math = VectorMath<V>;
  const int h = size.width, batch = size.batch;
  const auto states = size_t(batch) * size_t(h);
  Pieces scratch = {args.scratch.data()};
  const auto product = StateProduct<V>::of(batch, h, 4 * h, scratch);
  float* const sums = scratch.take<float>(4 * states);
  float *const previous = scratch.take<float>(states), *const cell = scratch.take<float>(states);
  product.put_forward(w, bias.data);
  put_state<V>(previous, h0.data, int(states));
  put_state<V>(cell, c0.data, int(states));
  for (int t = 0; t < size.time; ++t) {
    product.run(t > 0 || h0 ? previous : nullptr, sums);
    for (int n = 0; n < batch; ++n) {
      const ptrdiff_t at = ptrdiff_t(n) * size.time + t;
      const T* const in = x + at * 4 * h;
      const float* const sum = sums + ptrdiff_t(n) * 4 * h;
      float *const c = cell + ptrdiff_t(n) * h, *const before = previous + ptrdiff_t(n) * h;
      each_vector<V>(
          h, [&](int j, auto lanes) __attribute__((always_inline)) {
            const auto a = [&](int k) {
              return V::add(load<V>(in + k * h + j, lanes), load<V>(sum + k * h + j, lanes));
            };
            const V::F i = Math::sigmoid(a(0)), f = Math::sigmoid(a(1)), g = Math::tanh(a(2)), o = Math::sigmoid(a(3));
            const V::F next = V::add(V::mul(f, load<V>(c + j, lanes)), V::mul(i, g));
            store<V>(c + j, next, lanes);
            store<V>(before + j, kept_as<V>(y + at * h + j, V::mul(o, Math::tanh(next)), lanes), lanes);
            T* const kept = gates + at * 4 * h + j;
            store<V>(kept, i, lanes), store<V>(kept + h, f, lanes);
            store<V>(kept + 2 * h, g, lanes), store<V>(kept + 3 * h, o, lanes);
            store<V>(cells + at * h + j, next, lanes);
          });
    }
  }
}

template <int kLanes, class T>
[[gnu::flatten]] void FastLstmGradientOf<kLanes, T>::sequence(const T* gates, const T* cells, const T* w, const T* c0,
                                                              const T* dy, T* dx, States out, std::byte* memory) const {
  using V = Vector;
  const int h = size.width, batch = size.batch;
  const auto states = size_t(batch) * size_t(h);
  const V::F zero = V::set(0.0f), one = V::set(1.0f);
  Pieces scratch = {memory};
  const auto product = StateProduct<V>::of(batch, 4 * h, h, scratch);
  float *const dh = scratch.take<float>(states), *const dc = scratch.take<float>(states);
  float* const da = scratch.take<float>(4 * states);
  product.put_backward(w);
  fill_numbers(dh, 0.0f, int(states));
  fill_numbers(dc, 0.0f, int(states));
  for (int t = size.time - 1; t >= 0; --t) {
    for (int n = 0; n < batch; ++n) {
      const ptrdiff_t at = ptrdiff_t(n) * size.time + t;
      const T *const gate = gates + at * 4 * h, *const cell = cells + at * h;
      const T* const before = t > 0 ? cell - h : c0 != nullptr ? c0 + ptrdiff_t(n) * h : nullptr;
      T* const to = dx + at * 4 * h;
      float *const sum_h = dh + ptrdiff_t(n) * h, *const sum_c = dc + ptrdiff_t(n) * h;
      float* const kept = da + ptrdiff_t(n) * 4 * h;
      each_vector<V>(
          h, [&](int j, auto lanes) __attribute__((always_inline)) {
            const auto of = [&](int k) { return load<V>(gate + k * h + j, lanes); };
            const V::F i = of(0), f = of(1), g = of(2), o = of(3);
            const V::F squashed = VectorMath<V>::tanh(load<V>(cell + j, lanes));
            const V::F d = V::add(load<V>(dy + at * h + j, lanes), load<V>(sum_h + j, lanes));
            const V::F bent = V::sub(one, V::mul(squashed, squashed));
            const V::F inner = V::add(V::mul(V::mul(d, o), bent), load<V>(sum_c + j, lanes));
            const auto put = [&](int k, V::F v) {
              store<V>(kept + k * h + j, kept_as<V>(to + k * h + j, v, lanes), lanes);
            };
            const auto slope = [&](V::F gate_of) { return V::mul(gate_of, V::sub(one, gate_of)); };
            put(0, V::mul(V::mul(inner, g), slope(i)));
            put(1, before == nullptr ? zero : V::mul(V::mul(inner, load<V>(before + j, lanes)), slope(f)));
            put(2, V::mul(V::mul(inner, i), V::sub(one, V::mul(g, g))));
            put(3, V::mul(V::mul(d, squashed), slope(o)));
            store<V>(sum_c + j, V::mul(inner, f), lanes);
          });
    }
    product.run(da, dh);
  }
  if (out.dh0 == nullptr) return;
  store_numbers<V>(out.dh0, dh, int(states));
  store_numbers<V>(out.dc0, dc, int(states));
}

// A block of steps of dx and of y_{t-1}, in float32.
template <class V, class T>
struct StepRows {
  const Sequence& size;
  int block;
  float *panel, *da, *previous;

  static StepRows of(const Sequence& size, int gates, Pieces& scratch) {
    const int block = block_of_steps(size);
    const auto rows = size_t(block), width = size_t(size.width);
    float* const panel = scratch.take<float>(rows * 2 * V::kLanes);
    float* const da = scratch.take<float>(rows * size_t(gates) * width);
    return {size, block, panel, da, scratch.take<float>(rows * width)};
  }
  // Calls f(first step, how many) for each block, with the rows of these steps in da and previous.
  template <class F>
  void each(int gates, const T* dx, const T* y, const T* h0, const F& f) const {
    const int steps = size.batch * size.time, h = size.width;
    for (int first = 0; first < steps; first += block) {
      const int count = std::min(block, steps - first);
      put_numbers<V>(da, dx + ptrdiff_t(first) * gates * h, count * gates * h);
      for (int i = 0; i < count; ++i) {
        const int step = first + i, n = step / size.time;
        const T* const before = step % size.time > 0 ? y + ptrdiff_t(step - 1) * h
                                : h0 != nullptr      ? h0 + ptrdiff_t(n) * h
                                                     : nullptr;
        put_state<V>(previous + i * h, before, h);
      }
      f(first, count);
    }
  }
  void add(const float* a, int out, int a_step, const float* b, int count, float* c) const {
    const int h = size.width;
    OuterProduct<V>{out, h, a_step, h, h, panel}.run(a, b, count, c);
  }
};

template <int kLanes, class T>
void FastLstmGradientW<kLanes, T>::run(const T* dx, const T* y, Optional<const T> h0, Update<float> dw,
                                       const Args& args) const {
  using V = Vector;
  Pieces scratch = {args.scratch.data()};
  const auto rows = StepRows<V, T>::of(size, 4, scratch);
  rows.each(4, dx, y, h0.data,
            [&](int, int count) { rows.add(rows.da, 4 * size.width, 4 * size.width, rows.previous, count, dw.data); });
}

// ---- gru

template <int kLanes, class T>
[[gnu::flatten]] void FastGruTraining<kLanes, T>::run(const T* x, const T* w, Optional<const T> bias,
                                                      Optional<const T> h0, T* y, T* gates, const Args& args) const {
  using V = Vector;
  using Math = VectorMath<V>;
  const int h = size.width, batch = size.batch, kept = saved(reset_after);
  const auto states = size_t(batch) * size_t(h);
  const V::F one = V::set(1.0f);
  Pieces scratch = {args.scratch.data()};
  const auto gate_product = StateProduct<V>::of(batch, h, 2 * h, scratch);
  float* const gate_sums = scratch.take<float>(2 * states);
  const auto product = StateProduct<V>::of(batch, h, h, scratch);
  float* const sums = scratch.take<float>(states);
  float *const previous = scratch.take<float>(states), *const reset = scratch.take<float>(states);
  float *const update = scratch.take<float>(states), *const scaled = scratch.take<float>(states);
  gate_product.put_forward(w, bias.data);
  product.put_forward(w + ptrdiff_t(2) * h * h, bias ? bias.data + 2 * h : nullptr);
  put_state<V>(previous, h0.data, int(states));
  for (int t = 0; t < size.time; ++t) {
    const bool begun = t > 0 || h0;
    gate_product.run(begun ? previous : nullptr, gate_sums);
    for (int n = 0; n < batch; ++n) {
      const ptrdiff_t at = ptrdiff_t(n) * size.time + t, state = ptrdiff_t(n) * h;
      each_vector<V>(
          h, [&](int j, auto lanes) __attribute__((always_inline)) {
            const auto gate = [&](int k) {
              const V::F in = load<V>(x + at * 3 * h + k * h + j, lanes);
              return Math::sigmoid(V::add(in, load<V>(gate_sums + state * 2 + k * h + j, lanes)));
            };
            const V::F z = gate(0), r = gate(1);
            store<V>(update + state + j, z, lanes);
            store<V>(reset + state + j, r, lanes);
            store<V>(scaled + state + j, V::mul(r, load<V>(previous + state + j, lanes)), lanes);
            store<V>(gates + at * kept * h + j, z, lanes), store<V>(gates + (at * kept + 1) * h + j, r, lanes);
          });
    }
    product.run(begun ? (reset_after ? previous : scaled) : nullptr, sums);
    for (int n = 0; n < batch; ++n) {
      const ptrdiff_t at = ptrdiff_t(n) * size.time + t, state = ptrdiff_t(n) * h;
      each_vector<V>(
          h, [&](int j, auto lanes) __attribute__((always_inline)) {
            const V::F q = load<V>(sums + state + j, lanes), z = load<V>(update + state + j, lanes);
            const V::F inner = reset_after ? V::mul(load<V>(reset + state + j, lanes), q) : q;
            const V::F candidate = Math::tanh(V::add(load<V>(x + (at * 3 + 2) * h + j, lanes), inner));
            const V::F before = load<V>(previous + state + j, lanes);
            const V::F next = V::add(V::mul(V::sub(one, z), candidate), V::mul(z, before));
            store<V>(previous + state + j, kept_as<V>(y + at * h + j, next, lanes), lanes);
            store<V>(gates + (at * kept + 2) * h + j, candidate, lanes);
            if (reset_after) store<V>(gates + (at * kept + 3) * h + j, q, lanes);
          });
    }
  }
}

template <int kLanes, class T>
[[gnu::flatten]] void FastGruGradientOf<kLanes, T>::sequence(const T* gates, const T* y, const T* w, const T* h0,
                                                             const T* dy, T* dx, T* dh0, std::byte* memory) const {
  using V = Vector;
  const int h = size.width, batch = size.batch, saved = Gru::saved(reset_after);
  const auto states = size_t(batch) * size_t(h);
  const V::F zero = V::set(0.0f), one = V::set(1.0f);
  Pieces scratch = {memory};
  const auto gate_product = StateProduct<V>::of(batch, 2 * h, h, scratch);
  const auto product = StateProduct<V>::of(batch, h, h, scratch);
  float *const dh = scratch.take<float>(states), *const v = scratch.take<float>(states);
  float *const dq = scratch.take<float>(states), *const sums = scratch.take<float>(states);
  float* const da = scratch.take<float>(2 * states);  // of gates z and r
  gate_product.put_backward(w);
  product.put_backward(w + ptrdiff_t(2) * h * h);
  fill_numbers(dh, 0.0f, int(states));
  const auto each_state = [&](int t, const auto& f) __attribute__((always_inline)) {
    for (int n = 0; n < batch; ++n) {
      const ptrdiff_t at = ptrdiff_t(n) * size.time + t;
      const T* const before = t > 0 ? y + (at - 1) * h : h0 != nullptr ? h0 + ptrdiff_t(n) * h : nullptr;
      each_vector<V>(
          h, [&](int j, auto lanes) __attribute__((always_inline)) {
            const V::F previous = before != nullptr ? load<V>(before + j, lanes) : zero;
            f(gates + at * saved * h + j, dx + at * 3 * h + j, at * h + j, ptrdiff_t(n) * h + j, previous, lanes);
          });
    }
  };
  for (int t = size.time - 1; t >= 0; --t) {
    each_state(
        t, [&](const T* gate, T* to, ptrdiff_t at, ptrdiff_t state, V::F before, auto lanes)
               __attribute__((always_inline)) {
                 const V::F z = load<V>(gate, lanes), r = load<V>(gate + h, lanes);
                 const V::F c = load<V>(gate + 2 * h, lanes), rest = V::sub(one, z);
                 const V::F d = V::add(load<V>(dy + at, lanes), load<V>(dh + state, lanes));
                 const V::F of_z = V::mul(V::mul(V::mul(d, V::sub(before, c)), z), rest);
                 store<V>(da + state + state / h * h, kept_as<V>(to, of_z, lanes), lanes);
                 const V::F of_n = V::mul(V::mul(d, rest), V::sub(one, V::mul(c, c)));
                 const V::F kept = kept_as<V>(to + 2 * h, of_n, lanes);
                 store<V>(dq + state, reset_after ? V::mul(kept, r) : kept, lanes);
                 store<V>(dh + state, V::mul(d, z), lanes);
               });
    product.run(dq, v);
    each_state(
        t, [&](const T* gate, T* to, ptrdiff_t, ptrdiff_t state, V::F before, auto lanes)
               __attribute__((always_inline)) {
                 const V::F r = load<V>(gate + h, lanes), slope = V::mul(r, V::sub(one, r));
                 const V::F back = load<V>(v + state, lanes);
                 V::F of_r = V::mul(back, before);
                 if (reset_after) of_r = V::mul(load<V>(to + 2 * h, lanes), load<V>(gate + 3 * h, lanes));
                 store<V>(da + state + state / h * h + h, kept_as<V>(to + h, V::mul(slope, of_r), lanes), lanes);
                 const V::F d = load<V>(dh + state, lanes);
                 store<V>(dh + state, V::add(d, reset_after ? back : V::mul(back, r)), lanes);
               });
    gate_product.run(da, sums);
    each_vector<V>(
        int(states), [&](int i, auto lanes) __attribute__((always_inline)) {
          store<V>(dh + i, V::add(load<V>(dh + i, lanes), load<V>(sums + i, lanes)), lanes);
        });
  }
  if (dh0 != nullptr) store_numbers<V>(dh0, dh, int(states));
}

template <int kLanes, class T>
void FastGruGradientW<kLanes, T>::run(const T* dx, const T* gates, const T* y, Optional<const T> h0, Update<float> dw,
                                      const Args& args) const {
  using V = Vector;
  const int h = size.width, saved = Gru::saved(reset_after);
  Pieces scratch = {args.scratch.data()};
  const auto rows = StepRows<V, T>::of(size, 3, scratch);
  float* const scaled = scratch.take<float>(size_t(rows.block) * size_t(h));
  rows.each(3, dx, y, h0.data, [&](int first, int count) {
    for (int i = 0; i < count; ++i) {  // replaces da_n by r da_n, or else makes r y_{t-1} in `scaled`
      const T* const r = gates + (ptrdiff_t(first + i) * saved + 1) * h;
      float* const of_n = rows.da + (i * 3 + 2) * h;
      each_vector<V>(h, [&](int j, auto lanes) {
        const V::F reset = load<V>(r + j, lanes);
        if (reset_after) store<V>(of_n + j, V::mul(load<V>(of_n + j, lanes), reset), lanes);
        else store<V>(scaled + i * h + j, V::mul(load<V>(rows.previous + i * h + j, lanes), reset), lanes);
      });
    }
    rows.add(rows.da, 2 * h, 3 * h, rows.previous, count, dw.data);
    rows.add(rows.da + 2 * h, h, 3 * h, reset_after ? rows.previous : scaled, count, dw.data + ptrdiff_t(2) * h * h);
  });
}

template <class T>
[[gnu::flatten]] void FastGruGradientBias<T>::run(const T* dx, const T* gates, Update<float> dbias) const {
  using V = Vector;
  const int h = size.width;
  for (int step = 0; step < size.batch * size.time; ++step, dx += 3 * h) {
    const T* const r = gates + (ptrdiff_t(step) * Gru::saved(reset_after) + 1) * h;
    const auto add = [&](int k, V::F term, auto lanes) {
      store<V>(dbias.data + k, V::add(load<V>(dbias.data + k, lanes), term), lanes);
    };
    each_vector<V>(
        2 * h, [&](int k, auto lanes) __attribute__((always_inline)) { add(k, load<V>(dx + k, lanes), lanes); });
    each_vector<V>(
        h, [&](int j, auto lanes) __attribute__((always_inline)) {
          const V::F d = load<V>(dx + 2 * h + j, lanes);
          add(2 * h + j, reset_after ? V::mul(d, load<V>(r + j, lanes)) : d, lanes);
        });
  }
}

}  // namespace nacre::inline NACRE_ISA
