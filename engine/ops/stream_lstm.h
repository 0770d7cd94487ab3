// Runs an LSTM whose state outlives a run. It is lstm.h from the state (h, c), and stores the final state for the next
// run: TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM. h and c are tensors of the stream region; setting them to zero is a
// reset.
//
//   x [batch, time, 4 h]   w [4 h, h]   bias? [4 h]   h [batch, h], c [batch, h] read and written   y [batch, time, h]
//
//   a_t = x_t + w y_{t-1} + bias                                               y_{-1} = h
//   i = sigmoid(a_i)   f = sigmoid(a_f)   g = tanh(a_g)   o = sigmoid(a_o)
//   c_t = clip(f c_{t-1} + i g)   y_t = o tanh(c_t)                            c_{-1} = c
//   clip(v) = v for cell_clip = 0, else min(max(v, -cell_clip), cell_clip)
//
// c has the accumulator type.
//
// int8: x is int16 in units of 2^-12 (dense with an int16 result makes it); c is int16 in units of 2^-cell_fraction;
// w, h and y are int8. h and y have one scale. NUMERICS.md section 3, (12l). h is stored less its zero point,
// wrapping, so that zeroed memory means h = 0. With a table (curve.h) the functions and products are TensorFlow Lite
// Micro's.
//
// No gradient flows back through it, because the state of an earlier run has none.
#pragma once

#include <limits>

#include "engine/base/isa.h"
#include "engine/numeric/fixed_point_functions_16.h"
#include "engine/ops/curve.h"
#include "engine/ops/independent.h"
#include "engine/ops/recurrent.h"

namespace nacre::inline NACRE_ISA {

struct StreamLstm {
  Sequence size;
  uint32_t clip;  // float32 bits, or a code of c
  int cell_fraction, h_zero, y_zero;
  FixedPoint scales[5];  // scales of w h for i, f, g, o in units of 2^-12; scale of o tanh(c) for y

  enum Word { kClip, kCellFraction, kHZero, kYZero, kScales, kWords = kScales + 10 };
  enum Operand { kX, kW, kBias, kH, kC, kTable };

  static constexpr StreamLstm from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX];
    StreamLstm op = {{.batch = x[0], .time = x[1], .width = operands[kW][1]},
                     words[kClip],
                     words.integer(kCellFraction),
                     words.integer(kHZero),
                     words.integer(kYZero),
                     {}};
    for (int i = 0; i < 5; ++i) op.scales[i] = {words.integer(kScales + 2 * i), words.integer(kScales + 2 * i + 1)};
    return op;
  }

  constexpr uint64_t work() const { return size.work(4); }

  template <class T>
  constexpr void forward(const T* x, const T* w, Optional<const T> bias, Update<T> h,
                         Update<typename Element<T>::Accumulator> c, T* y) const {
    using A = typename Element<T>::Accumulator;
    const A most = A(std::bit_cast<float>(clip));
    const int width = size.width;
    each_sample(h.data, y, [&](int n, int step, const T* before, T* out) {
      const T* const in = x + step * 4 * width;
      for (int j = 0; j < width; ++j) {
        A gate[4] = {};
        for (int k = 0; k < 4; ++k) {
          const A sum = A(in[k * width + j]) + recurrent<A>(w, before, k * width + j, width);
          const A a = bias ? sum + A(bias[k * width + j]) : sum;
          gate[k] = k == 2 ? std::tanh(a) : logistic(a);
        }
        const A cell = gate[1] * c.data[n * width + j] + gate[0] * gate[2];
        c.data[n * width + j] = clip == 0 ? cell : cell > most ? most : cell < -most ? -most : cell;
        out[j] = T(gate[3] * std::tanh(c.data[n * width + j]));
      }
    });
  }

  constexpr void forward_int8(const int16_t* x, const int8_t* w, Optional<const int32_t> bias, Update<int8_t> h,
                              Update<int16_t> c, int8_t* y) const {
    forward_codes({x, w, bias.data}, h, c, y, Computed());
  }
  constexpr void forward_tables(const int16_t* x, const int8_t* w, Optional<const int32_t> bias, Update<int8_t> h,
                                Update<int16_t> c, const int32_t* table, int8_t* y) const {
    forward_codes({x, w, bias.data}, h, c, y, Tabled{table});
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX];
    NACRE_TRY_CODE(check_sequence(operands, kX, kW, 4));
    const int width = operands[kW][1];
    if (operands.has(kBias) && !is(operands, kBias, 4 * width)) return Code::kShapeBias;
    if (operands.has(kTable) && !is(operands, kTable, Curve::kPoints)) return Code::kShapeWeights;
    for (const int state : {kH, kC})
      if (!is(operands, state, x[0], width)) return Code::kShapeInput;
    NACRE_TRY_CODE(operands.element(kX) == ElementType::kInt16 ? check_codes(words, width) : check_reals(words));
    y->push(x[0]);
    y->push(x[1]);
    y->push(width);
    return Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {
      {"cell_clip", Coding::kBound}, {"cell_fraction"}, {"h_zero"}, {"y_zero"}, {"scales", Coding::kInteger, 10}};
  static constexpr const char* kInputs[] = {"x", "w", "bias?", "&h", "&c", "table?"};
  static constexpr const char* kOutputs[] = {"y"};

  // Computes functions of gates, and products: logistic of Q3, tanh of Qn to Q0, p 2^-bits, all in 16 bits. Also adds
  // x and the recurrent product, before saturation as in LiteRT.
  struct Computed {
    constexpr int32_t logistic(int32_t a) const { return fixed16::logistic(a); }
    constexpr int32_t tanh(int32_t v, int n) const { return fixed16::tanh(v, n); }
    constexpr int32_t shifted(int32_t p, int bits) const { return fixed16::wrapped(rounding_shift_right(p, bits)); }
    constexpr int32_t sum(int32_t product, int16_t x) const { return fixed16::saturated(wrapping_add(product, x)); }
  };
  struct Tabled {  // z is in units of 1 / 12288
    const int32_t* table;

    constexpr int32_t logistic(int32_t a) const { return Curve::sigmoid_of(3 * int64_t{a}, table); }
    constexpr int32_t tanh(int32_t v, int n) const {
      const int64_t z = 3 * int64_t{v}, right = 3 - n;
      return Curve::tanh_of(right > 0 ? (z + (1 << (right - 1))) >> right : z * (1 << -right), table);
    }
    constexpr int32_t shifted(int32_t p, int bits) const {
      return fixed16::saturated(multiply<Rounding::kDouble>(p, {1 << 30, 1 - bits}));
    }
    constexpr int32_t sum(int32_t product, int16_t x) const {
      return fixed16::saturated(fixed16::saturated(product) + x);
    }
  };

 private:
  // Calls f(n, step, y_{t-1}, y_t) for every step of every sample. At the end h is the last y.
  template <class T, class F>
  constexpr void each_sample(T* h, T* y, F f) const {
    for (int n : independent(size.batch)) {
      const T* before = h + n * size.width;
      for (int t = 0; t < size.time; ++t) {
        const int step = n * size.time + t;
        T* const out = y + step * size.width;
        f(n, step, before, out);
        before = out;
      }
      for (int j = 0; j < size.width; ++j) h[n * size.width + j] = before[j];
    }
  }

  static constexpr int8_t moved(int8_t code, int by) { return int8_t(uint8_t(uint32_t(code) + uint32_t(by))); }
  static constexpr int8_t saturated_code(int32_t v) { return int8_t(v > 127 ? 127 : v < -128 ? -128 : v); }

  struct Given {
    const int16_t* x;
    const int8_t* w;
    const int32_t* bias;  // null if there is none
  };

  template <class Functions>
  constexpr void forward_codes(const Given& given, Update<int8_t> h, Update<int16_t> c, int8_t* y,
                               const Functions& functions) const {
    const int width = size.width;
    for (int n : independent(size.batch))
      for (int j = 0; j < width; ++j) h.data[n * width + j] = moved(h.data[n * width + j], h_zero);
    each_sample(h.data, y, [&](int n, int step, const int8_t* before, int8_t* out) {
      const Given now = {given.x + step * 4 * width, given.w, given.bias};
      for (int j = 0; j < width; ++j) {
        int32_t gate[4] = {};
        for (int k = 0; k < 4; ++k) {
          const int32_t a = functions.sum(recurrent_sum(now, before, k, j), now.x[k * width + j]);
          gate[k] = k == 2 ? functions.tanh(a, 3) : functions.logistic(a);
        }
        int16_t& cell = c.data[n * width + j];
        cell =
            clipped(functions.shifted(gate[1] * cell, 15) + functions.shifted(gate[0] * gate[2], 30 - cell_fraction));
        const int32_t product = gate[3] * functions.tanh(cell, 15 - cell_fraction);
        out[j] = saturated_code(wrapping_add(multiply<Rounding::kDouble>(product, scales[4]), y_zero));
      }
    });
    for (int n : independent(size.batch))
      for (int j = 0; j < width; ++j) h.data[n * width + j] = moved(h.data[n * width + j], -h_zero);
  }

  // Returns the recurrent part of gate k of unit j, in Q3.
  constexpr int32_t recurrent_sum(const Given& given, const int8_t* before, int k, int j) const {
    const int row = k * size.width + j;
    uint32_t sum = given.bias != nullptr ? uint32_t(given.bias[row]) : 0;
    for (int i = 0; i < size.width; ++i)
      sum += (uint32_t(before[i]) - uint32_t(h_zero)) * uint32_t(given.w[row * size.width + i]);
    return multiply<Rounding::kDouble>(int32_t(sum), scales[k]);
  }

  constexpr int16_t clipped(int32_t v) const {
    const int32_t sum = fixed16::saturated(v), most = int32_t(clip);
    return int16_t(most == 0 ? sum : sum > most ? most : sum < -most ? -most : sum);
  }

  static constexpr Code check_reals(const Words& words) {
    const float most = words.real(kClip);
    if (!(most >= 0 && most <= std::numeric_limits<float>::max())) return Code::kAttribute;
    if (words[kCellFraction] > 15) return Code::kAttribute;  // the source model would use it to code c
    for (int i = kHZero; i < kWords; ++i)
      if (words[i] != 0) return Code::kAttribute;
    return Code::kOk;
  }
  static constexpr Code check_codes(const Words& words, int width) {
    if (words[kClip] > uint32_t{INT16_MAX} || words[kCellFraction] < 9 || words[kCellFraction] > 15)
      return Code::kAttribute;
    NACRE_TRY_CODE(check_zero(words.integer(kHZero), ElementType::kInt8));
    NACRE_TRY_CODE(check_zero(words.integer(kYZero), ElementType::kInt8));
    return width > 65793 ? Code::kAccumulator : Code::kOk;  // the bound of check_terms
  }
};

inline constexpr OpRule kStreamLstmRule = {.op = Op::kStreamLstm,
                                           .name = "stream_lstm",
                                           .numerics = Numerics::kMatmul,
                                           .shapes = &StreamLstm::shapes,
                                           .attributes = StreamLstm::kAttributes,
                                           .inputs = StreamLstm::kInputs,
                                           .outputs = StreamLstm::kOutputs};

}  // namespace nacre::inline NACRE_ISA
