#include <stdexcept>

#include "tests/op_rows.h"

namespace nacre::test {

std::vector<Expected> elementwise(const Problem& p) {
  Index a = p.in[0].dims, b = p.in[1].dims, dims;
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) dims.push_back(a[i] == 1 ? b[i] : a[i]);
  return {expect(dims, [&](const Index& index) -> Result {
    const int64_t i = broadcast_offset(p.in[0].dims, index), j = broadcast_offset(p.in[1].dims, index);
    const Real u = p.in[0].real(i), v = p.in[1].real(j);
    const int sign = p.entry.op == Op::kSub ? -1 : 1;
    const bool product = p.entry.op == Op::kMul;
    if (p.output() == ElementType::kInt32 || p.output() == ElementType::kInt64) {
      const int64_t a_i = p.in[0].integer(i), b_j = p.in[1].integer(j), y = product ? a_i * b_j : a_i + sign * b_j;
      return {p.output() == ElementType::kInt32 ? double(int32_t(y)) : double(y), 0};
    }
    if (!p.coded()) {
      const Real exact = product ? u * v : u + sign * v;
      return stored(p, clamped(p, 0, exact), p.epsilon() / 2 * std::abs(exact));
    }
    const auto x = int64_t(u) - p.word(3), z = int64_t(v) - p.word(4);
    const int64_t unit = int64_t{1} << p.word(6);
    const int64_t result = product ? scaled(p, 2, 0, x * z)
                                   : scaled(p, 2, 2, scaled(p, 2, 0, x * unit) + sign * scaled(p, 2, 1, z * unit));
    return clamped_code(p, 0, result + p.word(5));
  })};
}

std::vector<Expected> clamp(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const int64_t i = offset(p.in[0].dims, index);
    if (!p.coded()) return {round_to(p.output(), clamped(p, 0, p.in[0].real(i))), 0};
    const int64_t x = p.in[0].integer(i) - p.word(3);
    return clamped_code(p, 0, (p.has(1) ? scaled(p, 1, 0, x) : x) + p.word(4));
  })};
}

namespace {

// sigmoid and tanh of int16: interpolates between two points t_i and t_i+1 of the table, which are 2^bits units of z
// apart.
int64_t curve_code(const Problem& p, int64_t x) {
  const bool is_tanh = p.entry.op == Op::kTanh;
  const int64_t z = int64_t(std::floor(Real(x * p.word(0)) / Real(int64_t{1} << p.word(1)) + Real(0.5)));
  const int64_t apart = is_tanh ? 256 : 512, i = std::abs(z) / apart, rest = std::abs(z) % apart;
  const auto t = [&](int64_t at) { return p.in[1].integer(at); };
  const int64_t end = is_tanh ? int64_t{65535} * 256 : int64_t{32767} * 1024;
  const int64_t r = i >= 255 ? end : t(i) * (apart - rest) + t(i + 1) * rest;  // r / (65536 apart): on the line
  const Real y = is_tanh ? 2 * Real(r) / (65536 * 256) - 1 : Real(r) / (65536 * 512);
  const Real signed_y = z >= 0 ? y : is_tanh ? -y : 1 - y;
  // Rounds half up for z >= 0. Below 0 half a unit less a last bit is added, so half rounds down.
  const Real scaled_y = signed_y * 32768;
  return int64_t(z >= 0 ? std::floor(scaled_y + Real(0.5)) : std::ceil(scaled_y - Real(0.5)));
}

}  // namespace

std::vector<Expected> activation(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const Real x = p.in[0].real(offset(p.in[0].dims, index));
    if (p.coded() && p.entry.op != Op::kLeakyRelu) return {double(curve_code(p, int64_t(x))), 0};
    if (p.coded()) return saturated(p, scaled(p, 1, x < 0 ? 1 : 0, int64_t(x)));
    Real y = 0;
    switch (p.entry.op) {
      case Op::kLeakyRelu: y = x > 0 ? x : x * p.real_word(0); break;
      case Op::kSigmoid: y = 1 / (1 + std::exp(-x)); break;
      case Op::kTanh: y = std::tanh(x); break;
      default: y = x * std::clamp<Real>(x + 3, 0, 6) / 6;
    }
    // The function is at most an exponential (1 ulp) and three more operations, each within half an epsilon.
    // hard_swish also rounds x + 3: if the sum is small, that costs half an epsilon of 3.
    const Real cancelled = p.entry.op == Op::kHardSwish ? std::abs(x) * p.epsilon() : 0;
    return stored(p, y, 4 * p.epsilon() * std::abs(y) + cancelled);
  })};
}

namespace {

// Returns the elements of x that share every index but that of `axis`.
std::vector<double> along(const Array& x, Index index, size_t axis) {
  std::vector<double> values;
  for (index[axis] = 0; index[axis] < x.dims[axis]; ++index[axis]) values.push_back(x.real(offset(x.dims, index)));
  return values;
}

// Returns the code on the line through two of the table's 513 points, 128 int16 codes apart. Rounds to nearest, half
// up.
int64_t on_line(const Problem& p, int64_t first, int64_t code) {
  const int64_t place = std::clamp<int64_t>(code, -32768, 32767) + 32768, i = first + place / 128, rest = place % 128;
  const int64_t a = p.in[1].integer(i), b = p.in[1].integer(i + 1);
  return a + int64_t(std::floor(Real((b - a) * rest) / 128 + Real(0.5)));
}

}  // namespace

std::vector<Expected> lookup(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const int64_t code = p.in[0].integer(offset(p.in[0].dims, index));
    if (p.output() == ElementType::kInt16) return {double(on_line(p, 0, code)), 0};
    return {p.in[1].real(code + 128), 0};
  })};
}

namespace {

int64_t table_softmax_code(const Problem& p, const std::vector<double>& x, size_t i) {
  const auto peak = int64_t(*std::max_element(x.begin(), x.end()));
  const auto term = [&](double v) {
    return on_line(p, 0, exact_multiply(p.entry.rounding, int64_t(v) - peak, p.word(2), p.word(3)) + 32767);
  };
  int64_t sum = 0;
  for (const double v : x) sum += term(v);
  // sum = 2^bits (1 + f), f in [0, 1)
  const auto bits = int(std::floor(std::log2(double(sum))));
  const auto fraction = int64_t(std::floor(std::ldexp(Real(sum), 16 - bits) + Real(0.5)));
  const int64_t reciprocal = on_line(p, 513, fraction - 65536 - 32768);
  const Real code = std::floor(std::ldexp(Real(term(x[i]) * reciprocal), -bits) + Real(0.5));
  return std::clamp<int64_t>(int64_t(code), 0, 32767);
}

}  // namespace

std::vector<Expected> softmax(const Problem& p) {
  const auto axis = size_t(p.word(0));
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const std::vector<double> x = along(p.in[0], index, axis);
    const auto i = size_t(index[axis]);
    if (p.coded()) {
      if (p.output() == ElementType::kInt16 && p.in[0].element == ElementType::kInt16)
        return {double(table_softmax_code(p, x, i)), 0};
      const SoftmaxCodes codes = {p.word(2), p.word(3), p.word(4), int(element_bits(p.output()))};
      return {double(softmax_code(x, i, p.entry.rounding, codes)), 0};
    }
    const Real peak = *std::max_element(x.begin(), x.end()), beta = p.real_word(1);
    Real sum = 0, furthest = 0;
    for (const double v : x) {
      sum += std::exp((v - peak) * beta);
      furthest = std::max(furthest, (peak - v) * std::abs(beta));
    }
    const Real y = std::exp((x[i] - peak) * beta) / sum;
    // The argument of exp has a relative error of an epsilon. exp, the sum of `width` terms and a quotient follow.
    return stored(p, y, p.epsilon() * y * (4 + Real(x.size()) + 2 * furthest));
  })};
}

std::vector<Expected> batch_norm(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const int c = index.back();
    const Real scale = p.in[1].real(c), bias = p.in[2].real(c), mean = p.in[3].real(c), variance = p.in[4].real(c);
    const Real x = p.in[0].real(offset(p.in[0].dims, index)), factor = scale / std::sqrt(variance + p.real_word(0));
    return stored(p, (x - mean) * factor + bias,
                  5 * p.epsilon() * ((std::abs(x) + std::abs(mean)) * std::abs(factor) + std::abs(bias)));
  })};
}

std::vector<Expected> mean(const Problem& p) {
  const Index& x = p.in[0].dims;
  Index kept, dims;
  int64_t count = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool reduced = (p.word(0) >> i & 1) != 0;
    kept.push_back(reduced ? 1 : x[i]);
    count *= reduced ? x[i] : 1;
    if (!reduced || p.word(1) != 0) dims.push_back(kept.back());
  }
  std::vector<Real> sum(size_t(count_of(kept))), magnitude(sum.size());
  for (int64_t e = 0; e < count_of(x); ++e) {  // scatter
    const auto at = size_t(broadcast_offset(kept, index_of(x, e)));
    sum[at] += p.in[0].real(e);
    magnitude[at] += std::abs(p.in[0].real(e));
  }
  return {expect(dims, [&](const Index& index) -> Result {
    const auto at = size_t(offset(dims, index));
    if (!p.coded())
      return stored(p, sum[at] / Real(count), Real(count + 2) * p.epsilon() * magnitude[at] / Real(count));
    int64_t multiplier = p.has(1) ? p.in[1].integer(0) : int64_t{1} << 30, shift = p.has(1) ? p.in[1].integer(1) : 1;
    const int64_t room = std::min<int64_t>(int64_t(std::floor(std::log2(double(count)))), 31 + shift);
    multiplier = (multiplier << room) / count;  // as QuantizedMeanOrSum of TFLite's reference/reduce.h
    shift -= room;
    return saturated(
        p, exact_multiply(p.entry.rounding, int64_t(sum[at]) - p.word(2) * count, multiplier, shift) + p.word(3));
  })};
}

std::vector<Expected> oracle(const KernelEntry& entry, const std::vector<uint32_t>& words,
                             const std::vector<Array>& inputs) {
  const OpRow* const row = find_op_row(entry.op);
  if (row == nullptr || row->oracle == nullptr) throw std::out_of_range("an op without an oracle");
  return row->oracle({entry, words, inputs});
}

}  // namespace nacre::test
