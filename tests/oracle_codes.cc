// The oracle of conversions between number formats. It computes exactly defined results to the bit, in another way
// than the engine: quotients and products in float64 or wider, which oracle_rounding.h then rounds.
#include <map>

#include "engine/numeric/policy.h"
#include "tests/oracle_problem.h"

namespace nacre::test {
namespace {

bool is_real(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBfloat16 ||
         type == ElementType::kFloat64;
}

// The rows of x: one for each index of its first word(0) axes. `dims` are those of an array with one element per row.
struct Rows {
  Index dims;
  int64_t count, width;

  explicit Rows(const Problem& p) : dims(p.in[0].dims.begin(), p.in[0].dims.begin() + p.word(0)) {
    count = count_of(dims);
    width = count_of(p.in[0].dims) / count;
    if (dims.empty()) dims = {1};
  }
  double amax(const Problem& p, int64_t row) const {
    double most = 0;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) most = std::max(most, std::abs(p.in[0].real(i)));
    return most;
  }
};

// Returns a + b, a b or a / b rounded once. A second rounding is harmless if the wider type has twice the bits and
// two more (Figueroa 1995). For float64 no such type exists, so the machine's operation is used.
double once(ElementType type, char operation, double a, double b) {
  if (type == ElementType::kFloat64) return operation == '+' ? a + b : operation == '*' ? a * b : a / b;
  return round_to(type, operation == '+'   ? Real(a) + Real(b)
                        : operation == '*' ? Real(a) * Real(b)
                                           : Real(a) / Real(b));
}

// Keras' abs-max quantizer. The scale is a reciprocal, and every operation is rounded to the type of x.
std::vector<Expected> abs_max(const Problem& p) {
  const ElementType type = p.in[0].element;
  const Rows rows(p);
  Expected q = {p.in[0].dims, {}, {}}, scale = {rows.dims, {}, {}};
  for (int64_t r = 0; r < rows.count; ++r) {
    const double s = once(type, '/', 127, once(type, '+', rows.amax(p, r), round_to(type, 1e-7)));
    scale.value.push_back(s);
    for (int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i)
      q.value.push_back(std::clamp(std::nearbyint(once(type, '*', p.in[0].real(i), s)), -127.0, 127.0));
  }
  q.tolerance.resize(q.value.size());
  scale.tolerance.resize(scale.value.size());
  return {q, scale};
}

// TransformerEngine's current scaling. The stored scale is 1 / factor: x is about code times scale.
std::vector<Expected> current_scaling(const Problem& p) {
  constexpr ElementType kF32 = ElementType::kFloat32;
  const Rows rows(p);
  Expected q = {p.in[0].dims, {}, {}}, scale = {rows.dims, {}, {}};
  for (int64_t r = 0; r < rows.count; ++r) {
    const double amax = rows.amax(p, r);
    const double factor = amax == 0 ? 1 : std::min<double>(once(kF32, '/', 448, amax), FLT_MAX);
    scale.value.push_back(once(kF32, '/', 1, factor));
    for (int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i)
      q.value.push_back(round_to(ElementType::kFloat8E4M3, once(kF32, '*', p.in[0].real(i), factor), true));
  }
  q.tolerance.resize(q.value.size());
  scale.tolerance.resize(scale.value.size());
  return {q, scale};
}

}  // namespace

std::vector<Expected> quantize(const Problem& p) {
  constexpr ElementType kF32 = ElementType::kFloat32;
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const int c = p.in[1].dims[0] == 1 ? 0 : index[size_t(p.word(0))];
    const int64_t at = offset(p.in[0].dims, index), zero = p.has(2) ? p.in[2].integer(c) : 0;
    const double scale = p.in[1].real(c), x = p.in[0].real(at);
    const bool reciprocal = p.word(1) == int(ScaleForm::kReciprocal);
    if (p.entry.op == Op::kDequantize) return {once(kF32, reciprocal ? '/' : '*', x - double(zero), scale), 0};
    const double real = once(p.in[0].element, reciprocal ? '*' : '/', x, scale);
    if (p.output() == ElementType::kFloat8E4M3 || p.output() == ElementType::kFloat8E5M2)
      return {round_to(p.output(), real, true), 0};
    const double code = p.entry.rounding == Rounding::kHalfAway ? std::round(real) : std::nearbyint(real);
    return saturated(p, int64_t(code) + zero);
  })};
}

std::vector<Expected> requantize(const Problem& p) {
  return {expect(p.in[0].dims, [&](const Index& index) {
    return saturated(p, scaled(p, 1, 0, p.in[0].integer(offset(p.in[0].dims, index)) - p.word(0)) + p.word(1));
  })};
}

std::vector<Expected> cast(const Problem& p) {
  const std::map<ElementType, std::pair<double, double>> ranges = {{ElementType::kInt8, {-128, 127}},
                                                                   {ElementType::kUint8, {0, 255}},
                                                                   {ElementType::kInt16, {-32768, 32767}},
                                                                   {ElementType::kUint32, {0, 0x1p32 - 1}},
                                                                   {ElementType::kInt32, {-0x1p31, 0x1p31 - 1}},
                                                                   {ElementType::kInt64, {-0x1p63, 0x1p63}}};
  return {expect(p.in[0].dims, [&](const Index& index) -> Result {
    const double x = p.in[0].real(offset(p.in[0].dims, index));
    if (is_real(p.output())) return {round_to(p.output(), x), 0};
    if (p.output() == ElementType::kBool) return {x != 0, 0};
    const auto [low, high] = ranges.at(p.output());
    if (p.in[0].element == ElementType::kFloat32) return {std::clamp(std::trunc(x), low, high), 0};
    const double period = high - low + 1,
                 wrapped = x - std::floor((x - low) / period) * period;  // modulo 2^bits
    return {p.output() == ElementType::kInt64 ? x : wrapped, 0};
  })};
}

// TFLite's codes may differ by one if the quotient is within float32's error of a half: |x / step| is at most 255,
// and step, its inverse and the product are each within half an epsilon.
std::vector<Expected> dynamic_quantize(const Problem& p) {
  if (p.entry.operands[1].element == ElementType::kFloat8E4M3) return current_scaling(p);
  if (p.entry.operand_count == 3) return abs_max(p);
  const Rows rows(p);
  Expected q = {p.in[0].dims, {}, {}}, scale = {rows.dims, {}, {}}, zero = scale;
  for (int64_t r = 0; r < rows.count; ++r) {
    double low = 0, high = 0;
    for (int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i)
      low = std::min(low, p.in[0].real(i)), high = std::max(high, p.in[0].real(i));
    double step = p.word(1) != 0 ? rows.amax(p, r) / 127 : (high - low) / 255, code = 0;
    if (step == 0) step = 1;
    else if (p.word(1) == 0) code = -low / step + 128 < high / step + 127 ? -128 - low / step : 127 - high / step;
    scale.value.push_back(step);
    scale.tolerance.push_back(kEpsilon * step);
    zero.value.push_back(std::clamp(std::round(code), -128.0, 127.0));
    zero.tolerance.push_back(0);
    for (int64_t i = r * rows.width; i < (r + 1) * rows.width; ++i) {
      const double real = p.in[0].real(i) / step;
      q.value.push_back(std::clamp(std::round(real + zero.value.back()), p.word(1) != 0 ? -127.0 : -128.0, 127.0));
      q.tolerance.push_back(std::abs(std::abs(real - std::trunc(real)) - 0.5) < 256 * kEpsilon ? 1 : 0);
    }
  }
  return {q, scale, zero};
}

}  // namespace nacre::test
