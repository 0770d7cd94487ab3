// Computes audio front ends in integers, equal to TensorFlow Lite Micro's signal library (signal/src) to the bit.
// They are one op, whose attribute `function` says which. It has no gradient. All operands are int32. A 16-bit number
// int16(..), or an unsigned one u32(..), is held in an int32, modulo 2^16 or 2^32. msb(v) counts the bits of u32(v),
// 0 for 0.
//
//   x [.., n]   w, a, y as follows
//
//   1 headroom      y [.., 1]          max(0, 15 - msb(max |int16(x_i)|))
//   2 fft           y [.., size + 2]   (re, im) of the bins 0 .. size / 2 of int16(x), zeros appended to `size` numbers
//                   w [3 size / 4]     int16(cos) + 2^16 int16(-sin) of 2 pi i / size, each times 2^15 - 1
//   3 filter_bank   y [.., size]       floor(root(sum_e w_e u32(x_bin(e))) / 2^a), the sum modulo 2^64; 0 for a
//                                      outside [0, 32)
//                   w [entries, 2]     bin + 2^16 channel, and a weight; channels in ascending order
//                   a [.., 1]
//   4 noise         y as x             floor((X w_i0 + u32(a) w_i1) / 2^bits), X = u32(2^shift x); with factor 1 at
//                                      most X
//                   w [n, 2]           smoothing and 1 - smoothing
//                   a as x             the estimate before
//   5 subtract      y as x             max(floor((X - min(X, u32(a))) / 2^shift), floor(u32(x) factor / 2^bits))
//                   a as x             the estimate of noise
//   6 gain          y as x             shrink(u32(floor(u32(x) g(a) / 2^shift))): PCAN, g interpolated in w
//                   w [125]
//                   a as x             the estimate of noise
//   7 log           y as x             min(2^15 - 1, round(factor ln v)) by a table, v = u32(2^shift x); 0 for v < 2
//                   w [129]            2^16 (log2(1 + i / 128) - i / 128)
//
// root is the nearest integer to the square root. It is at most 2^16 - 1 for sums below 2^32, and at most 2^32 - 1
// for others.
//
// fft is kissfft's in 16 bits (FIXED_POINT 16). It takes size / 2 complex numbers (x_2k, x_2k+1) in stages of 4; if
// one factor of 2 is left over, the innermost stage is of 2. A butterfly of p first multiplies its inputs by
// floor(32767 / p) / 2^15. Products are rounded half up. At the end each pair of complex numbers gives the bins k and
// size / 2 - k of the real transform.
//
// A filter bank entry that points outside its tensor, or is out of order, is refused at run time with Code::kIndex.
#pragma once

#include <bit>

#include "engine/base/isa.h"
#include "engine/ops/independent.h"
#include "engine/ops/parameters.h"

namespace nacre::inline NACRE_ISA {

struct Signal {
  int rows, width, made, entries;  // width of a row of x, `made` of a row of y
  uint32_t function, size, shift, bits, factor;

  enum Function : uint32_t { kHeadroom = 1, kFft, kFilterBank, kNoise, kSubtract, kGain, kLog };
  enum Word { kFunction, kSize, kShift, kBits, kFactor };
  enum Operand { kX, kW, kA };
  static constexpr int kGainTable = 125, kLogTable = 129;
  static constexpr uint32_t kLeastSize = 8, kMostSize = 1 << 14;

  static constexpr Signal from(const Words& words, const Operands& operands) {
    const Shape x = operands[kX], y = operands[operands.count - 1];
    return {.rows = x.product(0, x.rank - 1),
            .width = x.last(),
            .made = y.last(),
            .entries = operands.has(kW) ? operands[kW][0] : 0,
            .function = words[kFunction],
            .size = words[kSize],
            .shift = words[kShift],
            .bits = words[kBits],
            .factor = words[kFactor]};
  }

  constexpr uint64_t work() const {
    const uint64_t each = function == kFilterBank ? uint64_t(entries) + 64 * uint64_t(made) : 40 * uint64_t(made);
    return uint64_t(rows) * (uint64_t(width) + each);
  }

  constexpr Code forward(const int32_t* x, Optional<const int32_t> w, Optional<const int32_t> a, int32_t* y) const {
    if (function >= kNoise) {
      each_independent(rows, width, [&](int, int i, int e) { y[e] = int32_t(of_one(x[e], w.data, a.data, i, e)); });
      return Code::kOk;
    }
    for (int r : independent(rows)) {
      const int32_t* const row = x + r * width;
      if (function == kHeadroom) y[r] = headroom(row);
      else if (function == kFft) transform(row, w.data, y + r * made);
      else NACRE_TRY_CODE(filtered(row, w.data, uint32_t(a[r]), y + r * made));
    }
    return Code::kOk;
  }

  static constexpr Code shapes(const Words& words, const Operands& operands, Dims* y) {
    const Shape x = operands[kX];
    if (x.rank == 0) return Code::kShapeRank;
    const uint32_t function = words[kFunction], size = words[kSize];
    if (function < kHeadroom || function > kLog || words[kShift] >= (function == kGain ? 64u : 32u) ||
        words[kBits] >= 64)
      return Code::kAttribute;
    const bool takes_w = function != kHeadroom && function != kSubtract;
    const bool takes_a = function >= kFilterBank && function != kLog;
    if (operands.has(kW) != takes_w || operands.has(kA) != takes_a) return Code::kShapeInput;
    *y = dims_of(x);
    int32_t& last = y->size[x.rank - 1];
    if (function == kHeadroom) last = 1;
    if (function == kFft) {
      if (size < kLeastSize || size > kMostSize || (size & (size - 1)) != 0 || size < uint32_t(x.last()))
        return Code::kAttribute;
      last = int32_t(size) + 2;
    }
    if (function == kFilterBank) {
      if (size == 0 || size >= 1 << 15) return Code::kAttribute;
      last = int32_t(size);
    }
    if (int64_t{x.product(0, x.rank - 1)} * last > INT32_MAX) return Code::kElements;
    if (takes_a && !same(operands[kA], function == kFilterBank ? 1 : x.last(), x)) return Code::kShapeInput;
    return takes_w && !is_table(operands, function, int(size)) ? Code::kShapeWeights : Code::kOk;
  }

  static constexpr Attribute kAttributes[] = {{"function"}, {"size"}, {"shift"}, {"bits"}, {"factor"}};
  static constexpr const char* kInputs[] = {"x", "w?", "a?"};
  static constexpr const char* kOutputs[] = {"y"};

 private:
  struct Pair {  // a complex number of 16 bits
    int16_t re, im;
  };

  static constexpr bool same(Shape a, int last, Shape x) {
    if (a.rank != x.rank || a.last() != last) return false;
    for (int i = 0; i + 1 < x.rank; ++i)
      if (a[i] != x[i]) return false;
    return true;
  }
  static constexpr bool is_table(const Operands& operands, uint32_t function, int size) {
    switch (function) {
      case kFft: return is(operands, kW, size / 4 * 3);
      case kFilterBank: return operands[kW].rank == 2 && operands[kW][1] == 2;
      case kNoise: return is(operands, kW, operands[kX].last(), 2);
      case kGain: return is(operands, kW, kGainTable);
      default: return is(operands, kW, kLogTable);
    }
  }

  // ---- Functions of one number

  constexpr uint32_t of_one(int32_t x, const int32_t* w, const int32_t* a, int i, int e) const {
    const uint32_t v = uint32_t(x), scaled = v << (shift & 31);
    switch (function) {
      case kNoise: return noise(scaled, uint32_t(a[e]), w + 2 * i);
      case kSubtract: {
        const uint32_t estimate = uint32_t(a[e]), left = (scaled - (estimate < scaled ? estimate : scaled)) >> shift;
        const uint32_t least = uint32_t(uint64_t{v} * factor >> bits);
        return left > least ? left : least;
      }
      case kGain: return shrunk(uint32_t(uint64_t{v} * interpolated(uint32_t(a[e]), w) >> shift));
      default: return logarithm(scaled, w);
    }
  }

  constexpr uint32_t noise(uint32_t scaled, uint32_t before, const int32_t* w) const {
    const uint32_t y = uint32_t((uint64_t{scaled} * uint32_t(w[0]) + uint64_t{before} * uint32_t(w[1])) >> bits);
    return factor == 1 && y > scaled ? scaled : y;
  }

  // Interpolates in w. For each msb of v from 2 on, w holds 3 numbers and an unused one; before them it holds values
  // for 0, 1, 2. The result is w_0 + w_1 f + w_2 f^2, rounded to the nearest, where f is the 10 bits below the
  // highest one, in units of 2^-10.
  constexpr uint32_t interpolated(uint32_t v, const int32_t* w) const {
    if (v <= 2) return uint32_t(int16_t(w[v]));
    const int top = int(std::bit_width(v));
    w += 4 * top - 6;
    const uint32_t f = (top < 11 ? v << (11 - top) : v >> (top - 11)) & 0x3FF;
    uint32_t sum = uint32_t(int32_t(uint32_t(w[2]) * f) >> 5) + (uint32_t(w[1]) << 5);
    sum = uint32_t(int32_t(sum * f + (1u << 14)) >> 15);
    return uint32_t(int16_t(sum + uint32_t(w[0])));
  }

  // Returns y in units of 2^-6 for u = v / 2^12: u^2 / 4 if u is below 2, else u - 1.
  static constexpr uint32_t shrunk(uint32_t v) { return v < 2u << 12 ? v * v >> 20 : (v >> 6) - (1u << 6); }

  constexpr uint32_t logarithm(uint32_t v, const int32_t* w) const {
    constexpr uint32_t kHalf = 1u << 15, kLn2 = 45426;  // 2^16 ln 2
    if (v < 2) return 0;
    const int whole = int(std::bit_width(v)) - 1;
    const uint32_t above = v - (1u << whole), f = whole < 16 ? above << (16 - whole) : above >> (whole - 16);
    const uint32_t segment = f >> 9;
    const uint32_t rise = uint32_t(w[segment + 1]) - uint32_t(w[segment]);
    const uint32_t part = f + uint32_t(w[segment]) + uint32_t(int32_t(rise * (f - (segment << 9))) >> 16);
    const uint32_t natural = uint32_t((uint64_t{kLn2} * ((uint32_t(whole) << 16) + part) + kHalf) >> 16);
    const uint32_t y = (factor * natural + kHalf) >> 16;
    return y < INT16_MAX ? y : INT16_MAX;
  }

  // ---- Functions of rows

  constexpr int32_t headroom(const int32_t* x) const {
    uint32_t most = 0;
    for (int i = 0; i < width; ++i) {
      const int v = int16_t(x[i]);
      const auto size_of = uint32_t(v < 0 ? -v : v);
      if (size_of > most) most = size_of;
    }
    const int left = 15 - int(std::bit_width(most));
    return left > 0 ? left : 0;
  }

  constexpr Code filtered(const int32_t* x, const int32_t* w, uint32_t down, int32_t* y) const {
    int e = 0;
    for (int k = 0; k < made; ++k) {
      uint64_t sum = 0;
      for (; e < entries && w[2 * e] >> 16 == k; ++e) {
        const int bin = w[2 * e] & 0xFFFF;
        if (bin >= width) return Code::kIndex;
        sum += uint64_t(int64_t{w[2 * e + 1]}) * uint32_t(x[bin]);
      }
      y[k] = down < 32 ? int32_t(root(sum) >> down) : 0;
    }
    return e == entries ? Code::kOk : Code::kIndex;
  }

  static constexpr uint32_t root(uint64_t v) {
    if (v == 0) return 0;
    const uint64_t most = v >> 32 == 0 ? UINT16_MAX : UINT32_MAX;
    uint64_t y = 0;
    for (uint64_t bit = uint64_t{1} << ((int(std::bit_width(v)) - 1) & ~1); bit != 0; bit >>= 2) {
      const bool fits = v >= y + bit;
      if (fits) v -= y + bit;
      y = (y >> 1) + (fits ? bit : 0);
    }
    return uint32_t(v > y && y != most ? y + 1 : y);
  }

  // ---- The transform, in place in y

  static constexpr int16_t rounded(uint32_t v) { return int16_t(int32_t(v + (1u << 14)) >> 15); }
  static constexpr uint32_t times(int16_t a, int16_t b) { return uint32_t(int32_t{a} * b); }
  static constexpr Pair over(Pair a, int16_t p) {
    const auto by = int16_t(INT16_MAX / p);
    return {rounded(times(a.re, by)), rounded(times(a.im, by))};
  }
  static constexpr Pair product(Pair a, int32_t turn) {
    const auto re = int16_t(turn), im = int16_t(turn >> 16);
    return {rounded(times(a.re, re) - times(a.im, im)), rounded(times(a.re, im) + times(a.im, re))};
  }
  static constexpr Pair sum(Pair a, Pair b) { return {int16_t(a.re + b.re), int16_t(a.im + b.im)}; }
  static constexpr Pair difference(Pair a, Pair b) { return {int16_t(a.re - b.re), int16_t(a.im - b.im)}; }
  static constexpr Pair load(const int32_t* y, int k) { return {int16_t(y[2 * k]), int16_t(y[2 * k + 1])}; }
  static constexpr void store(int32_t* y, int k, Pair v) { y[2 * k] = v.re, y[2 * k + 1] = v.im; }

  constexpr void transform(const int32_t* x, const int32_t* w, int32_t* y) const {
    const int count = int(size / 2);
    const int last = std::countr_zero(size) % 2 == 0 ? 2 : 4;  // count = last 4^..
    for (int k = 0; k < count; ++k) store(y, k, sample(x, source(k, count)));
    int m = 1;
    for (int p = last; m < count; m *= p, p = 4) {
      const int step = int(size) / (p * m);  // distance in w of consecutive roots of this stage
      for (int b = 0; b < count; b += p * m)
        for (int j = 0; j < m; ++j) p == 4 ? four(y, b + j, m, w, j * step) : two(y, b + j, m, w, j * step);
    }
    separate(w, y, count);
  }

  constexpr Pair sample(const int32_t* x, int k) const {
    return {int16_t(2 * k < width ? x[2 * k] : 0), int16_t(2 * k + 1 < width ? x[2 * k + 1] : 0)};
  }

  // Returns which of the numbers stands at position k before the stages: the digits of k in base 4, and a last one in
  // base 2, reversed.
  static constexpr int source(int k, int count) {
    int at = 0;
    for (int stride = 1; count > 1;) {
      const int p = count % 4 == 0 ? 4 : 2;
      count /= p;
      at += k / count * stride;
      k %= count;
      stride *= p;
    }
    return at;
  }

  static constexpr void two(int32_t* y, int k, int m, const int32_t* w, int turn) {
    const Pair a = over(load(y, k), 2), b = product(over(load(y, k + m), 2), w[turn]);
    store(y, k + m, difference(a, b));
    store(y, k, sum(a, b));
  }

  static constexpr void four(int32_t* y, int k, int m, const int32_t* w, int turn) {
    const Pair a = over(load(y, k), 4), b = product(over(load(y, k + m), 4), w[turn]),
               c = product(over(load(y, k + 2 * m), 4), w[2 * turn]),
               d = product(over(load(y, k + 3 * m), 4), w[3 * turn]);
    const Pair ac = sum(a, c), less = difference(a, c), bd = sum(b, d), side = difference(b, d);
    const Pair turned = {side.im, int16_t(-side.re)};  // -i (b - d)
    store(y, k, sum(ac, bd));
    store(y, k + m, sum(less, turned));
    store(y, k + 2 * m, difference(ac, bd));
    store(y, k + 3 * m, difference(less, turned));
  }

  // Makes the spectrum of x from z, that of (x_2k, x_2k+1). With c = size / 2: e = (z_k + conj(z_c-k)) / 2, o = -i
  // e^(-2 pi i k / size) (z_k - conj(z_c-k)) / 2, y_k = (e + o) / 2, y_c-k = conj(e - o) / 2.
  static constexpr void separate(const int32_t* w, int32_t* y, int count) {
    const Pair zero = over(load(y, 0), 2);
    store(y, 0, {int16_t(zero.re + zero.im), 0});
    store(y, count, {int16_t(zero.re - zero.im), 0});
    for (int k = 1; k <= count / 2; ++k) {
      const Pair other = load(y, count - k);
      const Pair a = over(load(y, k), 2), b = over({other.re, int16_t(-other.im)}, 2);
      const Pair e = sum(a, b), o = product(difference(a, b), w[k + count / 2]);
      store(y, k, {int16_t((e.re + o.re) >> 1), int16_t((e.im + o.im) >> 1)});
      store(y, count - k, {int16_t((e.re - o.re) >> 1), int16_t((o.im - e.im) >> 1)});
    }
  }
};

inline constexpr OpRule kSignalRule = {.op = Op::kSignal,
                                       .name = "signal",
                                       .numerics = Numerics::kReduction,
                                       .shapes = &Signal::shapes,
                                       .attributes = Signal::kAttributes,
                                       .inputs = Signal::kInputs,
                                       .outputs = Signal::kOutputs};

}  // namespace nacre::inline NACRE_ISA
