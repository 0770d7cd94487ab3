// Compares Dense with Keras on JAX and on torch, as the converter makes it and the engine runs it, under policies whose
// every operation rounds, float8 from 16 bits, both rules of int4 groups, and int8 from float64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tests/claims/executor.h"
#include "tests/claims/keras_network.h"
#include "tests/claims/keras_parity.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr int64_t kRows = 8, kOutputs = 12, kBlock = 8;

// Makes the layer from the numbers of tests/peers/keras_rounding.py.
KerasLayer rounding_layer(const Json& record) {
  const std::string kind = record.at("kind");
  KerasLayer layer;
  layer.rows = kRows, layer.in = record.at("in"), layer.out = kOutputs;
  layer.x_dims = {layer.rows, layer.in};
  Uniform stream(record.at("seed"));
  const auto drawn = [&](int64_t elements, auto number) {
    std::vector<float> values = stream.tensor(size_t(elements), 0);
    for (float& v : values) v = number(v);
    return values;
  };
  const auto coarse = [](float u) { return std::trunc(u * 31) / 16; };
  const auto plain = [&](float u) { return kind == "fine" ? u : coarse(u); };
  const auto twice = [&](float u) { return 2 * plain(u); };
  if (kind == "grid") {
    layer.kernel = drawn(layer.in * layer.out, [](float u) { return std::trunc(8 * u + 8); });
    std::vector<float> low = drawn(layer.out, [](float u) { return std::trunc(7 * u + 7) - 14; });
    low[0] = 13, low[1] = -28;
    for (int64_t i = 0; i < layer.in; ++i)
      for (int64_t k = 0; k < layer.out; ++k) {
        float& w = layer.kernel[size_t(i * layer.out + k)];
        if (i % kBlock < 2) w = i % kBlock == 0 ? 0.0f : 15.0f;
        w += low[size_t(k)];
      }
  } else {
    layer.kernel = drawn(layer.in * layer.out, plain);
  }
  if (record.at("bias").get<bool>()) layer.bias = drawn(layer.out, twice);
  const auto of_grid = [](float u) { return std::trunc(29 * u) / 16; };
  layer.x = kind == "grid" ? drawn(layer.rows * layer.in, of_grid) : drawn(layer.rows * layer.in, plain);
  if (kind == "grid") layer.x[0] = 1.75f;
  return layer;
}

struct Made {
  ElementType type;
  std::vector<double> y;
};

Made run_layer(const KerasLayer& layer, bool relu, const CompileOptions& given) {
  CompileOptions options = given;
  Calibration calibration;  // for float8: x is the only sample
  float amax = 0;
  for (const float v : layer.x) amax = std::max(amax, std::abs(v));
  calibration.ranges["x"].amaxes = {amax};
  calibration.ranges["x"].range = {-amax, amax};
  calibration.samples = 1;
  options.calibration = &calibration;
  options.io_types = IoTypes::kPolicy;
  Graph graph = dense_network(layer, relu);
  apply(options, graph);
  if (!graph.fallbacks.empty()) throw Error(kFailed, "dense", graph.fallbacks[0]);
  const ElementType x_type = graph.values[size_t(graph.inputs[0].value)].type;
  const std::map<std::string, Bytes> tensors = execute(graph, {in_type(x_type, layer.x)});
  const Value& y = graph.values[size_t(graph.outputs[0].value)];
  return {y.type, as_reals(y.type, tensors.at(y.name))};
}

// Returns the distance of two numbers of `type` in units of the larger one's last place.
double ulps(ElementType type, double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const int digits = type == ElementType::kFloat16    ? 11
                     : type == ElementType::kBfloat16 ? 8
                     : type == ElementType::kFloat32  ? 24
                                                      : 53;
  const int lowest = type == ElementType::kFloat16 ? -24 : type == ElementType::kFloat64 ? -1074 : -149;
  const double most = std::max(std::abs(a), std::abs(b));
  return std::abs(a - b) / std::ldexp(1.0, std::max(std::ilogb(most) + 1 - digits, lowest));
}

// In float32, K - 1 additions of terms and one of the bias round, here and in Keras, each by at most 2^-24 of the sum
// of magnitudes S. So the results are at most 2 K 2^-24 S apart. For 16-bit types that is below half a last place of
// S, and rounding the sum once makes it none or one last place.
double order_bound(int terms, double size) { return 2 * terms * 0x1p-24 * size; }

}  // namespace

std::string nacre_policy(const std::string& keras) {
  const size_t plus = keras.find('+');
  std::string text = keras.substr(0, plus);
  const bool float8 = text.starts_with("float8"), narrow = text.ends_with("float16");  // bfloat16 is narrow too
  if (plus != std::string::npos) text += ";group_range=" + keras.substr(plus + 1);
  return narrow && !float8 ? text + ";rounding=each" : text;
}

RoundingParity compare_rounding(const Json& table, const std::string& keras, const std::string& policy) {
  PolicyArguments arguments;
  arguments.policy = policy;
  CompileOptions options;
  options.policies = parse_policy_options(arguments);
  const Json &layers = table.at("layers"), &records = table.at("policies").at(keras);
  RoundingParity parity;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Made made = run_layer(rounding_layer(layers[i]), layers[i].at("relu").get<bool>(), options);
    const Json& record = records[i];
    const std::vector<double> jax = as_reals(made.type, decode_base64(record.at("y"))),
                              torch = record.contains("torch") ? as_reals(made.type, decode_base64(record.at("torch")))
                                                               : jax;
    const Bytes exact = decode_base64(record.at("exact"));
    const std::vector<float> size =
        record.contains("size") ? elements_of<float>(decode_base64(record.at("size"))) : std::vector<float>();
    if (jax.size() != made.y.size() || torch.size() != made.y.size())
      throw Error(kFailed, keras, "has another number of outputs than the table");
    for (size_t n = 0; n < jax.size(); ++n) {
      const bool is_exact = (exact[n / 8] >> (n % 8) & 1) != 0;
      const auto distance = [&](double keras_y) {
        if (size.empty()) return ulps(made.type, made.y[n], keras_y);
        return std::abs(made.y[n] - keras_y) / order_bound(layers[i].at("in").get<int>(), size[n]);
      };
      parity.note(is_exact, distance(jax[n]), distance(torch[n]));
    }
    ++parity.layers;
  }
  return parity;
}

}  // namespace nacre::tools
