// The oracle of dense, conv and pools: sums of products over materialised windows.
#include "tests/oracle_problem.h"

namespace nacre::tests {
namespace {

// Terms of a multiply-accumulate, and what its form makes of them.
struct Dot {
  double sum = 0, magnitude = 0;
  int64_t exact = 0;
  int terms = 0;

  void add(const Problem& p, int64_t x, int64_t w, int64_t zero) {
    const double a = p.in[0].real(x), b = p.in[1].real(w);
    sum += a * b;
    magnitude += std::abs(a * b);
    ++terms;
    if (p.coded()) exact += (p.in[0].integer(x) - zero) * p.in[1].integer(w);
  }
};

// Bias, scale and clamp of dense and conv by operand types. `clamp` is the word of the clamp; zeros follow it.
Result epilogue(const Problem& p, const Dot& dot, int clamp, int k, int n) {
  const auto scale_at = [&](int slot) { return p.in[size_t(slot)].dims[0] > 1 ? k : 0; };
  if (p.coded() && p.output() == ElementType::kInt8) {
    const int64_t sum = dot.exact + (p.has(2) ? p.in[2].integer(k) : 0), row = scale_at(3);
    const int64_t code = p.entry.rounding == Rounding::kFloatEven
                             ? int64_t(std::nearbyint(float(sum) * float(p.in[3].real(row))))
                             : scaled(p, 3, row, sum);
    return clamped_code(p, clamp, code + p.word(clamp + 4));
  }
  double value = dot.sum, magnitude = dot.magnitude, factor = 1;
  if (p.coded()) value = double(dot.exact), magnitude = std::abs(value), factor = p.in[4].real(n);
  if (p.has(3)) factor *= p.in[3].real(scale_at(3));
  const double bias = p.has(2) ? p.in[2].real(k) : 0;
  // `terms` products and sums, a scale, a bias: each adds at most half an epsilon of the magnitude so far.
  const double bound = (dot.terms + 4) * kEpsilon * (magnitude * std::abs(factor) + std::abs(bias));
  return clamped(p, clamp, {value * factor + bias, bound});
}

int64_t zero_of_x(const Problem& p, int clamp, int n) {
  return p.has(5) ? p.in[5].integer(n) : p.word(clamp + 3);
}

// One axis of a window, materialised: source[o][t] = position of tap t of output o, or -1 in the padding.
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

  // f(row, column, i, j) for the taps of output (o, v) inside x.
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
    Dot dot;
    for (index.back() = 0; index.back() < width; ++index.back())
      dot.add(p, offset(p.in[0].dims, index), offset(p.in[1].dims, {k, index.back()}), zero_of_x(p, 0, n));
    return epilogue(p, dot, 0, k, n);
  })};
}

std::vector<Expected> conv(const Problem& p) {
  const bool depthwise = p.entry.op == Op::kDepthwiseConv2d;
  const Index &x = p.in[0].dims, &w = p.in[1].dims;
  const Taps window(p, w[depthwise ? 0 : 1], w[depthwise ? 1 : 2]);
  const int out_c = w[depthwise ? 2 : 0], groups = depthwise ? x[3] : p.word(13) + 1;
  const int group_in = x[3] / groups, group_out = out_c / groups;
  return {expect({x[0], int(window.h.size()), int(window.w.size()), out_c}, [&](const Index& index) {
    const int n = index[0], k = index[3];
    Dot dot;
    window.each(index[1], index[2], [&](int row, int column, int i, int j) {
      for (int c = 0; c < x[3]; ++c) {
        if (c / group_in != k / group_out) continue;
        const Index tap = depthwise ? Index{i, j, k} : Index{k, i, j, c % group_in};
        dot.add(p, offset(x, {n, row, column, c}), offset(w, tap), zero_of_x(p, 8, n));
      }
    });
    return epilogue(p, dot, 8, k, n);
  })};
}

std::vector<Expected> pool(const Problem& p) {
  const Index& x = p.in[0].dims;
  const int kernel_h = p.word(8) + 1, kernel_w = p.word(9) + 1;
  const Taps window(p, kernel_h, kernel_w);
  return {expect({x[0], int(window.h.size()), int(window.w.size()), x[3]}, [&](const Index& index) {
    std::vector<double> values;
    window.each(index[1], index[2], [&](int row, int column, int, int) {
      values.push_back(p.in[0].real(offset(x, {index[0], row, column, index[3]})));
    });
    const double most = *std::max_element(values.begin(), values.end()),
                 sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double magnitude =
        std::accumulate(values.begin(), values.end(), 0.0, [](double s, double v) { return s + std::abs(v); });
    const double divisor = p.word(10) != 0 ? kernel_h * kernel_w : double(values.size());
    if (p.entry.op == Op::kMaxPool)
      return p.coded() ? clamped_code(p, 11, int64_t(most)) : clamped(p, 11, {most, 0});
    if (p.coded())
      return clamped_code(p, 11, int64_t(std::round(sum / divisor)));  // exact: |sum| < 2^20, halves are
    return clamped(p, 11, {sum / divisor, (double(values.size()) + 2) * kEpsilon * magnitude / divisor});
  })};
}

}  // namespace nacre::tests
