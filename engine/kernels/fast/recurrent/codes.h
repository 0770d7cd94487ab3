// Code of stream_lstm in int8 (forms.h), over a vector type V (engine/simd). It gives the reference kernel's bytes.
//
// y_{t-1} is kept as codes plus kFoursOffset, in 8 bits, as V::fours takes them. For row r of w
//
//   sum_i w_ri (code_i - zero_h) = sum_i w_ri (code_i + kFoursOffset) - (zero_h + kFoursOffset) sum_i w_ri
//
// The second term is in the table. The sums of kLanes rows become one vector, that of a gate of kLanes units.
#pragma once

#include <cstdint>

#include "engine/kernels/fast/code_scale.h"
#include "engine/kernels/fast/loops.h"
#include "engine/kernels/fast/parallel.h"
#include "engine/kernels/fast/pieces.h"
#include "engine/kernels/fast/recurrent/forms.h"
#include "engine/simd/fixed16.h"

namespace nacre::inline NACRE_ISA {

// LiteRT's functions and products in 16 bits: StreamLstm::Computed over vectors.
template <class V>
struct ComputedGates {
  using I = typename V::I;
  using Fixed = VectorFixed16<V>;

  I sum(I product, I x) const { return Fixed::saturated(V::add(product, x)); }
  I logistic(I a) const { return Fixed::logistic(a); }
  I tanh(I v, int integer_bits) const { return Fixed::tanh(v, integer_bits); }
  I shifted(I p, int bits) const { return Fixed::wrapped(V::rounding_shift(p, V::set(int32_t{bits}))); }
};

// StreamLstm::Tabled over vectors, with the functions of ops/curve.h. Points are looked up one lane after another.
template <class V>
struct TabledGates {
  using I = typename V::I;
  using Fixed = VectorFixed16<V>;
  const int32_t* table;

  I sum(I product, I x) const { return Fixed::saturated(V::add(Fixed::saturated(product), x)); }
  I logistic(I a) const {
    const I z = thrice(a), r = point<9>(z, 0x7FFF << 10);
    return signed_part(z, V::add(r, V::set(1 << 9)), V::sub(V::set((1 << 25) + (1 << 9) - 1), r), 10);
  }
  I tanh(I v, int integer_bits) const {
    const int right = 3 - integer_bits;
    const I units = thrice(v),
            z = right > 0 ? V::shift_right(V::add(units, V::set(1 << (right - 1))), right)
                          : V::shift_left(units, V::set(-right)),
            r = point<8>(z, 0xFFFF << 8);
    return signed_part(z, V::sub(r, V::set((1 << 23) - (1 << 7))), V::sub(V::set((1 << 23) + (1 << 7) - 1), r), 8);
  }
  I shifted(I p, int bits) const {
    const int32_t pair[] = {1 << 30, 1 - bits};
    return Fixed::saturated(PairScale<V>(Rounding::kDouble, pair)(p));
  }

 private:
  static I thrice(I v) { return V::add(V::add(v, v), v); }  // in units of 1 / 12288
  static I signed_part(I z, I positive, I negative, int bits) {
    return Fixed::wrapped(V::shift_right(Fixed::select(Fixed::less(z, 0), negative, positive), bits));
  }

  // Returns r of |z| in 1 / 2^kBits of a distance between points, or `most` beyond the last line.
  template <int kBits>
  I point(I z, int32_t most) const {
    constexpr int32_t kLast = Curve::kPoints - 1;
    const I magnitude = V::max(z, V::sub(V::set(int32_t{0}), z)), line = V::shift_right(magnitude, kBits);
    const I fraction = V::sub(magnitude, V::shift_left(line, V::set(int32_t{kBits})));
    alignas(64) int32_t at[V::kLanes], from[V::kLanes], to[V::kLanes];
    V::store(at, V::min(line, V::set(kLast - 1)));
    for (int i = 0; i < V::kLanes; ++i) from[i] = table[at[i]], to[i] = table[at[i] + 1];
    const I first = V::load_integers(from), rise = V::sub(V::load_integers(to), first);
    const I r = V::add(V::shift_left(first, V::set(int32_t{kBits})), V::mul(fraction, rise));
    return Fixed::select(Fixed::less(line, kLast), r, V::set(most));
  }
};

// The sums of a step: row r has start_r + sum_i w_ri state_i. `state` has codes plus kFoursOffset.
template <class V>
struct CodeRowSums {
  using I = typename V::I;
  using F = typename V::F;
  using State = std::conditional_t<V::kFoursOffset != 0, uint8_t, int8_t>;

  const int8_t* w;
  const int32_t* start;
  const uint8_t* state;
  int width;

  // Returns the sums of `count` rows from `row` on, count <= kLanes.
  [[gnu::noinline]] I operator()(int row, int count) const {
    const int8_t* const first = w + ptrdiff_t(row) * width;
    F sums[V::kLanes];
    for (int r = 0; r < V::kLanes; ++r) sums[r] = V::as_float(r < count ? sum(first + ptrdiff_t(r) * width) : zero());
    V::transpose(sums);
    I total = count == V::kLanes ? V::load_integers(start + row) : V::load_integers(start + row, count);
    for (int i = 0; i < V::kLanes; ++i) total = V::add(total, V::as_integers(sums[i]));
    return total;
  }

 private:
  static I zero() { return V::set(int32_t{0}); }

  [[gnu::always_inline]] I sum(const int8_t* p) const {
    I sum = zero();
    int i = 0;
    for (; i + 4 * V::kLanes <= width; i += 4 * V::kLanes)
      sum = V::dot(sum, V::fours(state + i), V::weight_fours(p + i));
    each_vector<V>(width - i, [&](int j, auto n) {
      const I codes = load_codes<V>(reinterpret_cast<const State*>(state + i + j), n);
      sum = V::add(sum, V::mul(codes, load_codes<V>(p + i + j, n)));
    });
    return sum;
  }
};

// Takes each sample through all its steps.
template <class V, class Form, class Functions>
void stream_lstm_codes(const Form& form, const int16_t* x, const int8_t* w, int8_t* h, int16_t* c, int8_t* y,
                       const Functions& functions, const Args& args) {
  using I = typename V::I;
  using Fixed = VectorFixed16<V>;
  const StreamLstm& op = form.op;
  const int width = op.size.width, time = op.size.time;
  const I lowest = V::set(op.clip == 0 ? int32_t{INT16_MIN} : -int32_t(op.clip)),
          highest = V::set(op.clip == 0 ? int32_t{INT16_MAX} : int32_t(op.clip));
  const auto scale = [&](int k) {
    const int32_t pair[] = {op.scales[k].multiplier, op.scales[k].shift};
    return PairScale<V>(Rounding::kDouble, pair);
  };
  Pieces all = {args.scratch.data()};
  const auto* const start = reinterpret_cast<const int32_t*>(table_of(form, args, all));
  const ptrdiff_t used = all.at - args.scratch.data();
  in_parts(args, op.work(), [&](Part part, std::span<std::byte> scratch) {
    Pieces pieces = {scratch.data() + used};
    auto* const state = pieces.take<uint8_t>(size_t(width));
    auto* const cells = pieces.take<int32_t>(size_t(width));
    const CodeRowSums<V> sums = {w, start, state, width};
    for (int n = 0; n < op.size.batch; ++n) {
      if (!part.takes()) continue;
      for (int j = 0; j < width; ++j) {  // h is stored less its zero point
        state[j] = uint8_t(uint32_t(h[n * width + j]) + uint32_t(op.h_zero + V::kFoursOffset));
        cells[j] = c[n * width + j];
      }
      for (int t = 0; t < time; ++t) {
        const ptrdiff_t step = ptrdiff_t(n) * time + t;
        const int16_t* const in = x + step * 4 * width;
        int8_t* const out = y + step * width;
        each_vector<V>(width, [&](int j, auto lanes) {
          const auto gate = [&](int k) {
            const int row = k * width + j;
            return functions.sum(scale(k)(sums(row, V::most(width - j))), load_words<V>(in + row, lanes));
          };
          const I kept = V::mul(functions.logistic(gate(1)), load_codes<V>(cells + j, lanes));
          const I added = V::mul(functions.logistic(gate(0)), functions.tanh(gate(2), 3));
          const I sum = V::add(functions.shifted(kept, 15), functions.shifted(added, 30 - op.cell_fraction));
          const I cell = V::max(lowest, V::min(highest, Fixed::saturated(sum)));
          store_codes<V>(cells + j, cell, lanes);
          const I product = V::mul(functions.logistic(gate(3)), functions.tanh(cell, 15 - op.cell_fraction));
          store_codes<V>(out + j, V::add(scale(4)(product), V::set(int32_t{op.y_zero})), lanes);
        });
        for (int j = 0; j < width; ++j) state[j] = uint8_t(uint32_t(out[j]) + uint32_t(V::kFoursOffset));
      }
      for (int j = 0; j < width; ++j) {
        h[n * width + j] = int8_t(uint8_t(uint32_t(state[j]) - uint32_t(op.h_zero + V::kFoursOffset)));
        c[n * width + j] = int16_t(cells[j]);
      }
    }
  });
}

template <int kFoursOffset>
void FastStreamLstmCodes<kFoursOffset>::run(const int16_t* x, const int8_t* w, Optional<const int32_t>,
                                            Update<int8_t> h, Update<int16_t> c, int8_t* y, const Args& args) const {
  stream_lstm_codes<Vector>(*this, x, w, h.data, c.data, y, ComputedGates<Vector>(), args);
}

template <int kFoursOffset>
void FastStreamLstmTabled<kFoursOffset>::run(const int16_t* x, const int8_t* w, Optional<const int32_t>,
                                             Update<int8_t> h, Update<int16_t> c, const int32_t* table, int8_t* y,
                                             const Args& args) const {
  stream_lstm_codes<Vector>(*this, x, w, h.data, c.data, y, TabledGates<Vector>{table}, args);
}

}  // namespace nacre::inline NACRE_ISA
