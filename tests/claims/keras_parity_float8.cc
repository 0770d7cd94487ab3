// Compares delayed float8 scaling in Keras's order, and one dense through the float8 kernels, with Keras.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/kernels/reference.h"
#include "engine/numeric/amax_history.h"
#include "engine/numeric/small_float.h"
#include "tests/claims/keras_parity.h"
#include "tests/one_step.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr float kE4M3Max = float(Float8E4M3::of_bits(Float8E4M3::kMax));

// Columns of a record; tests/peers/keras_numbers.py describes them.
enum Column { kXExponent, kKernelExponent, kSpecial, kXScale, kKernelScale, kXHistory, kKernelHistory, kY, kQx, kQw };

test::Array array_of(const std::vector<int64_t>& dims, const std::vector<float>& values) {
  test::Array array = test::make_array(ElementType::kFloat32, std::vector<int32_t>(dims.begin(), dims.end()));
  array.bytes = bytes_of(values);
  return array;
}

test::Array run(const KernelEntry& entry, const std::vector<test::Array>& inputs) {
  test::Execution execution = test::execute(entry, {}, inputs);
  if (execution.code != Code::kOk) throw Error(kFailed, "float8", sentence(execution.code));
  return execution.outputs.at(0);
}

// Replaces every NaN by one bit pattern, which the table has.
std::vector<float> plain_nan(std::vector<float> values) {
  for (float& v : values)
    if (v != v) v = std::bit_cast<float>(0x7FC00000u);
  return values;
}

// One of the two tensors of a layer: its state, and what a step computes from it.
class Operand {
 public:
  Operand(size_t history, const Float8Change& change)
      : rule_{.format_max = kE4M3Max,
              .order = change.transformer_engine ? UpdateOrder::kTransformerEngine : UpdateOrder::kKeras,
              .fused = false,
              .guard = false},
        amaxes_(history), guarded_amaxes_(history) {}

  void quantize(const std::vector<int64_t>& dims, const std::vector<float>& values) {
    used_ = scale_;
    codes_ = run(reference::kQuantizeE4M3, {array_of(dims, values), array_of({1}, {used_})});
    const test::Array reals = run(reference::kDequantizeE4M3, {codes_, array_of({1}, {used_})});
    reals_ = plain_nan(elements_of<float>(reals.bytes));
  }

  void update(const std::vector<float>& values) {
    const float amax = amax_value(amax_bits(std::span(values)));
    AmaxHistory{amaxes_, &scale_, nullptr}.update(amax, rule_);
    DelayedScaling guarded = rule_;
    guarded.guard = true;
    AmaxHistory{guarded_amaxes_, &guarded_scale_, nullptr}.update(amax, guarded);
  }

  bool guard_differs() const { return std::bit_cast<uint32_t>(scale_) != std::bit_cast<uint32_t>(guarded_scale_); }
  const test::Array& codes() const { return codes_; }
  const std::vector<float>& reals() const { return reals_; }
  float used_scale() const { return used_; }

  bool scale_is(const Json& bits) const {
    char text[9];
    std::snprintf(text, sizeof text, "%08X", unsigned(std::bit_cast<uint32_t>(scale_)));
    return bits == text;
  }
  bool history_is(const Json& expected) const {
    const std::vector<float> amaxes = plain_nan(amaxes_);
    if (amaxes.size() > 16) return expected == crc32c_of(amaxes);
    return decode_base64(expected) == bytes_of(amaxes);
  }

 private:
  DelayedScaling rule_;
  std::vector<float> amaxes_, guarded_amaxes_;
  float scale_ = 1, guarded_scale_ = 1, used_ = 1;
  test::Array codes_;
  std::vector<float> reals_;  // codes times the scale
};

struct Layer {
  std::vector<int64_t> x_dims;
  int64_t in, out;
  std::vector<float> bias;
};

// |ours - Keras's| <= 4 eps sqrt(K) S, S = sum_i |x_i w_i| + |b|, eps = 2^-23, x and w as quantized. Both are float32,
// and each rounding is at most eps / 2 of something <= S. Keras: both operands, their product, K - 1 additions, the
// bias: (K + 3) eps / 2 S. Here products of codes are exact, then K - 1 additions, the product of the scales, its
// product with the sum, the bias: (K + 2) eps / 2 S. At worst (K + 2.5) eps S together, below 4 sqrt(K) eps S up to
// K = 10; beyond, roundings would have to be one-sided to come near, and independent ones add as sqrt(K).
void compare_outputs(const Layer& layer, const Operand& x, const Operand& w, const std::vector<float>& y,
                     const std::vector<float>& keras, Float8Parity& parity) {
  const double factor = 4 * double(std::numeric_limits<float>::epsilon()) * std::sqrt(double(layer.in));
  for (size_t n = 0; n < keras.size(); ++n) {
    const size_t r = n / size_t(layer.out), k = n % size_t(layer.out);
    double terms = std::abs(double(layer.bias[k]));
    for (size_t i = 0; i < size_t(layer.in); ++i)
      terms += std::abs(double(x.reals()[r * size_t(layer.in) + i]) * double(w.reals()[k * size_t(layer.in) + i]));
    const double difference = std::abs(double(y.at(n)) - double(keras[n]));
    const bool both_nan = y[n] != y[n] && keras[n] != keras[n];
    parity.within += both_nan || difference <= factor * terms ? 1 : 0;
    if (difference > 0) parity.worst = std::max(parity.worst, difference / (factor * terms));
    ++parity.outputs;
  }
}

std::vector<float> step_tensor(Uniform& stream, size_t elements, const Json& exponent) {
  std::vector<float> values = stream.tensor(elements, exponent.is_null() ? 0 : exponent.get<int>());
  if (exponent.is_null()) std::fill(values.begin(), values.end(), 0.0f);
  return values;
}

void compare_step(const Layer& layer, const Json& step, Uniform& stream, Operand& x, Operand& w, Float8Parity& parity) {
  const std::vector<float> kernel = step_tensor(stream, size_t(layer.in * layer.out), step[kKernelExponent]);
  size_t elements = 1;
  for (const int64_t dim : layer.x_dims) elements *= size_t(dim);
  std::vector<float> values = step_tensor(stream, elements, step[kXExponent]);
  if (!step[kSpecial].is_null()) values[1] = step[kSpecial] == "inf" ? INFINITY : NAN;

  x.quantize(layer.x_dims, values);
  w.quantize({layer.out, layer.in}, transposed(kernel, layer.in, layer.out));
  const test::Array y =
      run(reference::kDenseFloat8F32, {x.codes(), w.codes(), array_of({layer.out}, layer.bias),
                                       array_of({1}, {w.used_scale()}), array_of({1}, {x.used_scale()})});
  parity.quantized.note(step[kQx] == crc32c_of(x.reals()));
  parity.quantized.note(step[kQw] == crc32c_of(transposed(w.reals(), layer.out, layer.in)));
  compare_outputs(layer, x, w, elements_of<float>(y.bytes), elements_of<float>(decode_base64(step[kY])), parity);

  x.update(values);
  w.update(kernel);
  parity.states.note(x.scale_is(step[kXScale]));
  parity.states.note(w.scale_is(step[kKernelScale]));
  parity.states.note(x.history_is(step[kXHistory]));
  parity.states.note(w.history_is(step[kKernelHistory]));
  parity.guarded += (x.guard_differs() ? 1 : 0) + (w.guard_differs() ? 1 : 0);
  parity.scales += 2;
  ++parity.steps;
}

}  // namespace

Float8Parity compare_float8(const Json& table, const Float8Change& change) {
  Float8Parity parity;
  for (const Json& record : table.at("layers")) {
    Uniform stream(record.at("seed"));
    const std::vector<int64_t> kernel = record.at("kernel");
    Layer layer = {record.at("x"), kernel.at(0), kernel.at(1), stream.tensor(size_t(kernel.at(1)), 0)};
    // Keras rounds the bias of a float32 layer through bfloat16.
    for (float& b : layer.bias) b = change.plain_bias ? b : float(Bfloat16(b));
    const size_t history = record.at("amax_history_length");
    Operand x(history, change), w(history, change);
    for (const Json& step : record.at("steps")) compare_step(layer, step, stream, x, w, parity);
    ++parity.layers;
  }
  return parity;
}

}  // namespace nacre::tools
