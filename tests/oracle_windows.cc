// The oracle of dense, convolutions, pools and resize: sums or maxima over materialised windows.
#include <algorithm>
#include <numbers>

#include "engine/ops/parameters.h"
#include "tests/oracle_problem.h"

namespace nacre::test {
namespace {

// The sum of the terms of a multiply-accumulate, before the epilogue of the kernel's form.
struct Dot {
  Real sum = 0, magnitude = 0;
  int64_t exact = 0;
  int terms = 0;

  // Adds a product. With groups of weights, `k` and `term` locate the weight. `row` is that of x, if x has a scale
  // per row.
  void add(const Problem& p, int64_t x, int64_t w, int64_t zero, int64_t k, int64_t term, int64_t row) {
    Real a = p.in[0].real(x), b = grouped(p) ? weight(p, w, k, term) : Real(p.in[1].real(w));
    if (each_rounds(p) && p.in[0].element == ElementType::kFloat8E4M3) {  // codes times scales, rounded to y's type
      const auto scale = [&](size_t slot, int64_t i) {
        return Real(p.in[slot].real(p.in[slot].elements() > 1 ? i : 0));
      };
      a = round_to(p.output(), a * scale(4, row));
      b = round_to(p.output(), b * scale(3, k));
    }
    sum += a * b;
    magnitude += std::abs(a * b);
    ++terms;
    if (p.coded()) exact += (p.in[0].integer(x) - zero) * p.in[1].integer(w);
  }

  // Returns whether the scales have a 16-bit type, to which every operation then rounds.
  static bool each_rounds(const Problem& p) {
    const ElementType scale = p.has(3) ? p.in[3].element : ElementType::kNone;
    return p.in[1].element != scale && (scale == ElementType::kFloat16 || scale == ElementType::kBfloat16);
  }
  static bool grouped(const Problem& p) { return p.has(4) && p.in[4].element == ElementType::kInt8; }
  static Real weight(const Problem& p, int64_t w, int64_t k, int64_t term) {  // rounded to the scales' type
    const int64_t block = p.word(p.entry.op == Op::kDense ? 6 : 15), g = k * p.in[3].dims[1] + term / block;
    return round_to(p.in[3].element, Real(p.in[3].real(g)) * Real(p.in[1].integer(w) - p.in[4].integer(g)));
  }
};

// Keras's int8 to the bit: each operation is rounded to the type of y, and the sum reaches bfloat16 by way of
// float32. For float64 the machine's operations are used, because long double would round twice.
Result keras_quotient(const Problem& p, const Dot& dot, int clamp, int k, int row) {
  const ElementType type = p.output();
  const double scale = p.in[3].real(p.in[3].dims[0] > 1 ? k : 0);
  const double x_scale = p.in[4].real(p.in[4].elements() > 1 ? row : 0);
  double y;
  if (type == ElementType::kFloat64) {
    y = double(dot.exact) / (scale * x_scale);
    if (p.has(2)) y += p.in[2].real(k);
  } else {
    const double sum = round_to(type, round_to(ElementType::kFloat32, Real(dot.exact)));
    y = round_to(type, Real(sum) / Real(round_to(type, Real(scale) * Real(x_scale))));
    if (p.has(2)) y = round_to(type, Real(y) + Real(p.in[2].real(k)));
  }
  return {round_to(type, clamped(p, clamp, y)), 0};
}

// Returns a value as an E4M3 code. The error is the value's over y_scale, a quotient's, and half of the code's last
// place.
Result float8_code(const Problem& p, Real value, Real error) {
  const Real u = value / Real(p.in[5].real(0)), off = error / Real(p.in[5].real(0)) + kEpsilon * std::abs(u);
  const Real half = quantum(ElementType::kFloat8E4M3, std::abs(u) + off) / 2;
  return {double(std::clamp<Real>(u, -448, 448)), double(off + half)};
}

// Applies scale and bias to the sum, one after the other. Each result is stored in a 16-bit type, so its error is the
// previous one, times the scale, plus half of its last place.
Result each_rounded(const Problem& p, const Dot& dot, int clamp, int k) {
  const bool in_sum = Dot::grouped(p) || p.in[0].element == ElementType::kFloat8E4M3;
  Real value = dot.sum, error = (dot.terms + 1) * p.epsilon() * dot.magnitude;
  error = stored(p, value, error).second;
  if (!in_sum) {
    const Real scale = p.in[3].real(p.in[3].dims[0] > 1 ? k : 0),
               factor = p.word(clamp == 0 ? 5 : 14) != 0 ? 1 / scale : scale;
    value *= factor;
    error = stored(p, value, error * std::abs(factor)).second;
  }
  if (p.has(2)) {
    value += p.in[2].real(k);
    error = stored(p, value, error).second;
  }
  return stored(p, clamped(p, clamp, value), error);  // a clamp's bound need not be a 16-bit number
}

// Rounds to nearest, half to even. NaN gives 0. Numbers far beyond all codes give one result.
int64_t float_even(float v) { return std::isnan(v) ? 0 : int64_t(std::nearbyint(std::clamp(v, -1e9f, 1e9f))); }

// Applies bias, scale and clamp of dense and conv by operand types. `clamp` is the index of the clamp's word; zero
// points follow it. `row` is that of x, if x_scale has one value per row.
Result epilogue(const Problem& p, const Dot& dot, int clamp, int k, int n, int row) {
  const auto scale_at = [&](int slot) { return p.in[size_t(slot)].dims[0] > 1 ? k : 0; };
  if (p.coded() && p.output() == p.in[0].element) {
    const int64_t sum = dot.exact + (p.has(2) ? p.in[2].integer(k) : 0), at = scale_at(3);
    const bool wide = p.has(2) && p.in[2].element == ElementType::kInt64 && p.entry.rounding != Rounding::kSingle;
    const int64_t code = wide ? exact_wide_multiply(sum, p.in[3].integer(2 * at), p.in[3].integer(2 * at + 1))
                         : p.entry.rounding == Rounding::kFloatEven ? float_even(float(sum) * float(p.in[3].real(at)))
                                                                    : scaled(p, 3, at, sum);
    return clamped_code(p, clamp, code + p.word(clamp + 4));
  }
  if (p.in[0].element == ElementType::kInt8 && p.output() == ElementType::kInt16) {
    const int64_t sum = dot.exact + (p.has(2) ? p.in[2].integer(k) : 0);
    return {double(std::clamp<int64_t>(scaled(p, 3, scale_at(3), sum), INT16_MIN, INT16_MAX)), 0};
  }
  if (p.coded() && p.in.size() == 5) return keras_quotient(p, dot, clamp, k, row);
  if (Dot::each_rounds(p)) return each_rounded(p, dot, clamp, k);
  Real value = dot.sum, magnitude = dot.magnitude, factor = 1;
  const bool float8 = p.in[0].element == ElementType::kFloat8E4M3;
  if (p.coded()) value = Real(dot.exact), magnitude = std::abs(value), factor = p.in[4].real(n);
  if (float8) factor = p.in[4].real(p.in[4].elements() > 1 ? row : 0);
  if (p.has(3) && !Dot::grouped(p)) factor *= p.in[3].real(scale_at(3));
  if (p.word(clamp == 0 ? 5 : 14) != 0) factor = 1 / factor;
  const Real bias = p.has(2) ? p.in[2].real(k) : 0;
  // `terms` products and sums, two scales, a bias: each adds at most half an epsilon of the magnitude so far.
  const Real bound = (dot.terms + 4) * p.epsilon() * (magnitude * std::abs(factor) + std::abs(bias));
  const Real y = clamped(p, clamp, value * factor + bias);
  return p.output() == ElementType::kFloat8E4M3 ? float8_code(p, y, bound) : stored(p, y, bound);
}

// ---- The fused form: engine/ops/fused_epilogue.h ----

bool is_fused(const Problem& p) {
  const OperandType* types = p.entry.operands;
  return !p.coded() && input_count(p.entry) == 4 && types[1].element == types[0].element &&
         types[3].element == types[0].element;
}

// Applies a function to x, which has the error `error`. The function's slope is at most `slope`, and its own error is
// that of the separate op.
Result function_of(const Problem& p, const Clamp& function, Real x, Real error) {
  const Real alpha = std::bit_cast<float>(function.low), most = std::abs(x) + error;
  const Real u = 2 * std::sqrt(2 / std::numbers::pi_v<Real>) * (x + Real(0.044715) * x * x * x);
  // `own` counts epsilons of y; `cancelled` epsilons of 1, because hard_swish rounds x + 3, or of the smallest normal
  // number, below which digits are lost.
  Real y = 0, slope = 1, own = 4, cancelled = 0;
  switch (function.kind) {
    case Clamp::kLeakyRelu: y = x > 0 ? x : alpha * x, slope = std::max<Real>(1, std::abs(alpha)); break;
    case Clamp::kSigmoid: y = 1 / (1 + std::exp(-x)), slope = 0.25; break;
    case Clamp::kTanh: y = std::tanh(x); break;
    case Clamp::kHardSwish: y = x * std::clamp<Real>(x + 3, 0, 6) / 6, slope = 1.5, cancelled = most; break;
    case Clamp::kSilu: y = x / (1 + std::exp(-x)), slope = 1.1, own = 4 * most + 4; break;
    case Clamp::kGelu: y = x / 2 * std::erfc(-x / std::sqrt(Real(2))), slope = 1.13, own = most * most + 5; break;
    default: y = x / (1 + std::exp(-u)), slope = 1.13, own = 8 * (most + most * most * most) + 4;
  }
  const Real smallest = p.in[0].element == ElementType::kFloat64 ? DBL_MIN : FLT_MIN;
  return stored(p, y, slope * error + p.epsilon() * (own * (std::abs(y) + slope * error) + cancelled + smallest));
}

// Every sum and every function is stored, and so rounded, before the next operation.
Result fused(const Problem& p, const Dot& dot, int clamp, int k, int64_t element) {
  const Clamp words = {uint32_t(p.word(clamp)), uint32_t(p.word(clamp + 1)), uint32_t(p.word(clamp + 2))};
  const bool function = words.kind > Clamp::kBounds;
  const Real bias = p.has(2) ? p.in[2].real(k) : 0;
  Real value = dot.sum + bias, error = (dot.terms + 4) * p.epsilon() * (dot.magnitude + std::abs(bias));
  if (p.has(3)) {
    error = stored(p, value, error).second;
    value += p.in[3].real(element);
    error += p.epsilon() * (std::abs(value) + error);
  }
  if (!function) return stored(p, clamped(p, clamp, value), error);
  return function_of(p, words, value, stored(p, value, error).second);
}

int64_t zero_of_x(const Problem& p, int clamp, int n) {
  return p.coded() && p.has(5) ? p.in[5].integer(n) : p.word(clamp + 3);
}

// Returns one axis of a window, materialised: source[o][t] is the position of tap t of output o, or -1 in the
// padding.
std::vector<std::vector<int>> taps(int in, int kernel, int stride, int dilation, int before, int after) {
  std::vector<int> padded(size_t(before), -1);
  for (int i = 0; i < in; ++i) padded.push_back(i);
  padded.insert(padded.end(), size_t(after), -1);
  std::vector<std::vector<int>> rows;
  for (size_t start = 0; start + size_t((kernel - 1) * dilation) < padded.size(); start += size_t(stride)) {
    rows.emplace_back();
    for (int t = 0; t < kernel; ++t) rows.back().push_back(padded[start + size_t(t * dilation)]);
  }
  return rows;
}

struct Taps {
  std::vector<std::vector<int>> h, w;
  Taps(const Problem& p, int kernel_h, int kernel_w)
      : h(taps(p.in[0].dims[1], kernel_h, p.word(0) + 1, p.word(2) + 1, p.word(4), p.word(6))),
        w(taps(p.in[0].dims[2], kernel_w, p.word(1) + 1, p.word(3) + 1, p.word(5), p.word(7))) {}

  // Calls f(row, column, i, j) for the taps of output (o, v) inside x.
  template <class F>
  void each(int o, int v, F f) const {
    for (size_t i = 0; i < h[size_t(o)].size(); ++i)
      for (size_t j = 0; j < w[size_t(v)].size(); ++j)
        if (h[size_t(o)][i] >= 0 && w[size_t(v)][j] >= 0) f(h[size_t(o)][i], w[size_t(v)][j], int(i), int(j));
  }
};

}  // namespace

std::vector<Expected> dense(const Problem& p) {
  Index dims = p.in[0].dims;
  const int width = dims.back(), out = p.in[1].dims[0];
  dims.back() = out;
  return {expect(dims, [&](Index index) {
    const int k = index.back(), n = dims.size() > 1 ? index[0] : 0;
    index.back() = 0;
    const auto row = int(offset(p.in[0].dims, index) / width);
    Dot dot;
    for (; index.back() < width; ++index.back())
      dot.add(p, offset(p.in[0].dims, index), offset(p.in[1].dims, {k, index.back()}), zero_of_x(p, 0, n), k,
              index.back(), row);
    if (is_fused(p)) return fused(p, dot, 0, k, int64_t{row} * out + k);
    return epilogue(p, dot, 0, k, n, row);
  })};
}

std::vector<Expected> conv(const Problem& p) {
  const bool depthwise = p.entry.op == Op::kDepthwiseConv2d;
  const Index &x = p.in[0].dims, &w = p.in[1].dims;
  const Taps window(p, w[depthwise ? 0 : 1], w[depthwise ? 1 : 2]);
  const int out_c = w[depthwise ? 2 : 0], groups = depthwise ? x[3] : p.word(13) + 1;
  const int group_in = x[3] / groups, group_out = out_c / groups;
  const Index dims = {x[0], int(window.h.size()), int(window.w.size()), out_c};
  return {expect(dims, [&](const Index& index) {
    const int n = index[0], k = index[3];
    Dot dot;
    window.each(index[1], index[2], [&](int row, int column, int i, int j) {
      for (int c = 0; c < x[3]; ++c) {
        if (c / group_in != k / group_out) continue;
        const Index tap = depthwise ? Index{i, j, k} : Index{k, i, j, c % group_in};
        const int w_tap = i * w[depthwise ? 1 : 2] + j;
        dot.add(p, offset(x, {n, row, column, c}), offset(w, tap), zero_of_x(p, 8, n), k,
                depthwise ? w_tap : w_tap * group_in + c % group_in, n);
      }
    });
    if (is_fused(p)) return fused(p, dot, 8, k, offset(dims, index));
    return epilogue(p, dot, 8, k, n, n);
  })};
}

std::vector<Expected> pool(const Problem& p) {
  const Index& x = p.in[0].dims;
  const int kernel_h = p.word(8) + 1, kernel_w = p.word(9) + 1;
  const Taps window(p, kernel_h, kernel_w);
  return {expect({x[0], int(window.h.size()), int(window.w.size()), x[3]}, [&](const Index& index) -> Result {
    std::vector<double> values;
    window.each(index[1], index[2], [&](int row, int column, int, int) {
      values.push_back(p.in[0].real(offset(x, {index[0], row, column, index[3]})));
    });
    const double most = *std::max_element(values.begin(), values.end());
    const Real sum = std::accumulate(values.begin(), values.end(), Real(0));
    const Real magnitude =
        std::accumulate(values.begin(), values.end(), Real(0), [](Real s, double v) { return s + std::abs(v); });
    const Real divisor = p.word(10) != 0 ? kernel_h * kernel_w : Real(values.size());
    if (p.entry.op == Op::kMaxPool) {
      if (p.coded()) return clamped_code(p, 11, int64_t(most));
      return {round_to(p.output(), clamped(p, 11, most)), 0};
    }
    if (p.coded()) return clamped_code(p, 11, int64_t(std::round(sum / divisor)));  // |sum| < 2^28: the ties are exact
    return stored(p, clamped(p, 11, sum / divisor), Real(values.size() + 2) * p.epsilon() * magnitude / divisor);
  })};
}

std::vector<Expected> resize(const Problem& p) {
  const Index& x = p.in[0].dims;
  const int out_h = p.in[1].dims[0], out_w = p.in[2].dims[0];
  const int taps_h = p.has(3) ? p.in[3].dims[1] : 1, taps_w = p.has(4) ? p.in[4].dims[1] : 1;
  const double one = p.coded() ? 1024 : 1;
  return {expect({x[0], out_h, out_w, x[3]}, [&](const Index& index) -> Result {
    Real sum = 0, magnitude = 0;
    for (int i = 0; i < taps_h; ++i)
      for (int j = 0; j < taps_w; ++j) {
        const int row = int(p.in[1].integer(index[1])) + i, column = int(p.in[2].integer(index[2])) + j;
        const Real u = p.has(3) ? p.in[3].real(index[1] * taps_h + i) : one,
                   v = p.has(4) ? p.in[4].real(index[2] * taps_w + j) : one;
        const Real term = u * v * p.in[0].real(offset(x, {index[0], row, column, index[3]}));
        sum += term;
        magnitude += std::abs(term);
      }
    if (p.coded()) return saturated(p, int64_t(std::round(sum / (one * one))));  // exact: |sum| < 2^39
    if (!p.has(3) && !p.has(4)) return {round_to(p.output(), double(sum)), 0};
    return stored(p, sum, Real(taps_h * taps_w + 1) * p.epsilon() * magnitude);
  })};
}

}  // namespace nacre::test
