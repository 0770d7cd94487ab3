// Claim: compares the errors of the quantizers of weights: codes nearest to the weights, per channel and in groups;
// GPTQ and AWQ, which are fitted to samples; int8 of weights only, and of activations too.
//
// Each layer has a relative error of its outputs, on the inputs that the float network gives it for the calibration
// samples. The float kernels compute it from the weights that the compiled program's codes, scales, zero points and
// factors stand for, not from the products that the fits use. Whole programs have the error of the output, on
// calibration samples and on others. For the sample network, test images that it recognizes are counted too. The
// encoder's weights, and all inputs but the sample's, follow from a seed.
//
// The claim is shown if in every layer GPTQ's codes, and AWQ's, are at most as wrong as the nearest codes of the same
// groups.
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

#include "engine/numeric/absmax.h"
#include "engine/numeric/int4.h"
#include "tests/claims/claims.h"
#include "tests/claims/policy_networks.h"
#include "tests/claims/sampled_networks.h"
#include "tools/calibration/float_network.h"
#include "tools/files/npy.h"
#include "tools/passes/policy/quantize_weights.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Method {
  const char *name, *policy;
  int nearest = -1;  // a method whose codes this one's may not be worse than
};
constexpr Method kMethods[] = {
    {"int8/weights", "int8/weights_from_float32"},
    {"int8", "int8_from_float32"},
    {"int4", "int4_from_float32"},
    {"int4/all", "int4/1048576_from_float32"},
    {"gptq/4/-1", "gptq/4/-1_from_float32", 3},
    {"int4/32", "int4/32_from_float32"},
    {"gptq/4/32", "gptq/4/32_from_float32", 5},
    {"gptq/4/32 ordered", "gptq/4/32_from_float32;activation_order=1", 5},
    {"awq/4/32", "awq/4/32_from_float32", 5},
};
constexpr size_t kMethodCount = std::size(kMethods);

std::vector<uint8_t> bytes_of_floats(const std::vector<float>& x) {
  std::vector<uint8_t> bytes(x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

NpyArray stacked(const Sampled& network) {
  const Value& input = network.graph.values[size_t(network.graph.inputs.at(0).value)];
  NpyArray array{ElementType::kFloat32, input.dims, {}, network.name};
  array.dims[0] = int64_t(network.calibrated.size());
  for (const std::vector<float>& sample : network.calibrated) {
    const std::vector<uint8_t> bytes = bytes_of_floats(sample);
    array.data.append(bytes);
  }
  return array;
}

double norm2(const std::vector<float>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0, [](double sum, float v) { return sum + double(v) * double(v); });
}

// ---- The weights that a program has ----

struct ProgramWeights {
  std::vector<float> w, factor;  // factor multiplies x, per channel; empty: 1
  bool rounds_x = false;         // whether x is rounded to int8, per row
};

const Node* matmul_of(const Graph& graph, int layer) {
  const auto found =
      std::ranges::find_if(graph.nodes, [&](const Node& node) { return node.layer == layer && is_matmul(node.op); });
  return found == graph.nodes.end() ? nullptr : &*found;
}

std::vector<int8_t> codes_of(const Value& w) {
  std::vector<int8_t> codes(size_t(w.elements()));
  if (w.stored == ElementType::kInt8) std::memcpy(codes.data(), w.data->data(), codes.size());
  else unpack_int4({reinterpret_cast<const Int4Pair*>(w.data->data()), w.data->size()}, codes);
  return codes;
}

ProgramWeights weights_of(const Graph& compiled, const Node& node, const Method& method) {
  const auto value = [&](size_t slot) -> const Value& { return compiled.values[size_t(node.inputs.at(slot))]; };
  const Value& w = value(1);
  const WeightLayout layout = layout_of(node.op, w.dims);
  const std::vector<int8_t> codes = codes_of(w);
  const std::vector<float> scale = reals(value(3));
  ProgramWeights result;
  result.w.resize(codes.size());
  result.rounds_x = std::string(method.name) == "int8";
  const int64_t block = get_integer(node, "block");
  const bool divides = result.rounds_x || get_integer(node, "form") == 1;
  const std::vector<int64_t> zero = block > 0 ? integers(value(4)) : std::vector<int64_t>();
  for (int64_t k = 0; k < layout.channels; ++k)
    for (int64_t r = 0; r < layout.terms; ++r) {
      const size_t at = layout.at(k, r);
      const auto g = size_t(block > 0 ? k * ((layout.terms - 1) / block + 1) + r / block : scale.size() == 1 ? 0 : k);
      if (block > 0) result.w[at] = scale[g] * float(codes[at] - zero[g]);
      else result.w[at] = divides ? float(codes[at]) / scale[g] : float(codes[at]) * scale[g];
    }
  for (const Node& before : compiled.nodes)
    if (before.op == Op::kMul && before.layer == node.layer && before.outputs[0] == node.inputs[0])
      result.factor = reals(compiled.values[size_t(before.inputs[1])]);
  return result;
}

// Rounds the rows to which Keras's int8 gives a scale each: for dense, rows of the last axis; else samples.
void round_rows(std::vector<float>& x, size_t row) {
  std::vector<int8_t> q(row);
  for (size_t first = 0; first < x.size(); first += row) {
    const std::span<float> part = std::span(x).subspan(first, row);
    const float scale = absmax_quantize(std::span<const float>(part), std::span(q), kInt8Range);
    for (size_t i = 0; i < row; ++i) part[i] = float(q[i]) / scale;
  }
}

// ---- The outputs of one layer, by the float kernels ----

std::vector<float> products(const Graph& graph, const Node& node, const std::vector<float>& x,
                            const std::vector<float>& w) {
  Graph alone;
  alone.source = graph.source;
  const auto constant = [&](size_t slot, const std::vector<float>& numbers) {
    return alone.constant(slot == 0 ? "x" : "w", graph.values[size_t(node.inputs[slot])].dims, numbers);
  };
  Node step = node;
  step.layer = kNone;
  step.inputs = {constant(0, x), constant(1, w)};
  const Value& y = graph.values[size_t(node.outputs[0])];
  Value output;
  output.name = "y";
  output.dims = y.dims;
  step.outputs = {alone.add(std::move(output))};
  for (const char* bound : {"low", "high"}) set_real(step, bound, 0);
  set_integer(step, "clamp", 0);
  const std::vector<uint8_t> bytes = evaluate(alone, step).at(0);
  std::vector<float> result(bytes.size() / sizeof(float));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

struct LayerError {
  std::string name;
  int64_t terms = 0;
  double error[kMethodCount] = {};  // relative, squared
};

// The layer's x, for every calibration sample.
using Inputs = std::map<std::string, std::vector<std::vector<float>>>;

LayerError errors_of_layer(const Graph& graph, const Node& node, const std::vector<std::vector<float>>& inputs,
                           const std::vector<Compiled>& compiled) {
  const std::vector<float> w = reals(graph.values[size_t(node.inputs[1])]);
  LayerError found = {.name = graph.layers[size_t(node.layer)].name,
                      .terms = layout_of(node.op, graph.values[size_t(node.inputs[1])].dims).terms};
  double whole = 0;
  std::vector<std::vector<float>> exact;
  for (const std::vector<float>& x : inputs) whole += norm2(exact.emplace_back(products(graph, node, x, w)));
  for (size_t m = 0; m < kMethodCount; ++m) {
    const Node* step = matmul_of(compiled[m].graph, node.layer);
    if (step == nullptr) throw Error(kFailed, found.name, "has no matmul in the program");
    ProgramWeights has = weights_of(compiled[m].graph, *step, kMethods[m]);
    if (!has.rounds_x && has.factor.empty())  // only the error, in full precision
      for (size_t i = 0; i < w.size(); ++i) has.w[i] -= w[i];
    double sum = 0;
    for (size_t sample = 0; sample < inputs.size(); ++sample) {
      std::vector<float> x = inputs[sample];
      const bool difference = has.rounds_x || !has.factor.empty();
      if (has.rounds_x) round_rows(x, node.op == Op::kDense ? size_t(found.terms) : x.size());
      for (size_t i = 0; i < x.size() && !has.factor.empty(); ++i) x[i] *= has.factor[i % has.factor.size()];
      std::vector<float> y = products(graph, node, x, has.w);
      for (size_t i = 0; i < y.size() && difference; ++i) y[i] -= exact[sample][i];
      sum += norm2(y);
    }
    found.error[m] = sum / whole;
  }
  return found;
}

Inputs float_inputs(const Graph& graph, const Samples& samples) {
  FloatNetwork network(graph);
  Inputs inputs;
  for (int64_t sample = 0; sample < samples.count; ++sample) {
    network.run(samples, sample);
    for (const FloatNetwork::Tap& tap : network.taps()) {
      const std::span<const float> x = network.value(tap);
      inputs[tap.name].emplace_back(x.begin(), x.end());
    }
  }
  return inputs;
}

// ---- Whole programs ----

class ProgramRun {
 public:
  explicit ProgramRun(const Compiled& compiled, const std::string& name)
      : model_(compiled.bytes, name, ""), bound_(model_, 0) {}

  std::vector<float> operator()(const std::vector<float>& x) {
    std::memcpy(bound_.program().input(0).data(), x.data(), x.size() * sizeof(float));
    model_.require(bound_.program().run());
    const std::span<const std::byte> y = bound_.program().output(0);
    std::vector<float> values(y.size() / sizeof(float));
    std::memcpy(values.data(), y.data(), y.size());
    return values;
  }

 private:
  LoadedModel model_;
  BoundProgram bound_;
};

double output_error(ProgramRun& program, ProgramRun& exact, const std::vector<std::vector<float>>& samples) {
  double error = 0, whole = 0;
  for (const std::vector<float>& x : samples) {
    std::vector<float> y = program(x);
    const std::vector<float> expected = exact(x);
    whole += norm2(expected);
    for (size_t i = 0; i < y.size(); ++i) y[i] -= expected[i];
    error += norm2(y);
  }
  return std::sqrt(error / whole);
}

std::string recognized(ProgramRun& program, const Sampled& network) {
  if (network.images.empty()) return "";
  size_t right = 0;
  for (size_t i = 0; i < network.images.size(); ++i) {
    const std::vector<float> y = program(network.images[i]);
    right += std::ranges::max_element(y) - y.begin() == network.labels[i];
  }
  return fmt::format("{:.2f} %", 100 * double(right) / double(network.images.size()));
}

struct Tally {
  int networks = 0, layers = 0, compared = 0, worse = 0;
  double sum[kMethodCount] = {};  // sums of the layers' relative errors
};

Compiled compiled_under(const Graph& graph, const Calibration& calibration, const char* policy) {
  CompileOptions options;
  options.policies = parse_policy_options(everywhere(policy));
  options.calibration = &calibration;
  return compile(graph, options);
}

void compare(const Sampled& network, Tally& tally) {
  const Samples samples = make_samples(network.graph, {stacked(network)});
  const Calibration calibration =
      calibrate(network.graph, samples, {.fitted = [](const Node& node) { return node.layer != kNone; }});
  std::vector<Compiled> compiled;
  for (const Method& method : kMethods) compiled.push_back(compiled_under(network.graph, calibration, method.policy));
  const Inputs inputs = float_inputs(network.graph, samples);
  std::vector<LayerError> layers;
  for (const Node& node : network.graph.nodes)
    if (is_matmul(node.op))
      layers.push_back(
          errors_of_layer(network.graph, node, inputs.at(network.graph.values[size_t(node.inputs[0])].name), compiled));
  std::printf("%s: %zu layers, calibrated on %zu samples; relative errors\n", network.name.c_str(), layers.size(),
              network.calibrated.size());
  std::printf("  %-18s %10s %10s %12s %12s %10s  %s\n", "", "layers max", "mean", "output, same", "others", "bytes",
              network.images.empty() ? "" : "recognized");
  const Compiled plain = compiled_under(network.graph, calibration, "float32");
  ProgramRun exact(plain, network.name);
  const std::vector<std::vector<float>> same(network.calibrated.begin(),
                                             network.calibrated.begin() + std::ptrdiff_t(network.others.size()));
  std::printf("  %-18s %10s %10s %12s %12s %10zu  %s\n", "float32", "", "", "", "", plain.bytes.size(),
              recognized(exact, network).c_str());
  for (size_t m = 0; m < kMethodCount; ++m) {
    double most = 0, sum = 0;
    for (const LayerError& layer : layers) {
      most = std::max(most, std::sqrt(layer.error[m]));
      sum += std::sqrt(layer.error[m]);
    }
    tally.sum[m] += sum;
    ProgramRun program(compiled[m], network.name);
    std::printf("  %-18s %10.5f %10.5f %12.5f %12.5f %10zu  %s\n", kMethods[m].name, most, sum / double(layers.size()),
                output_error(program, exact, same), output_error(program, exact, network.others),
                compiled[m].bytes.size(), recognized(program, network).c_str());
  }
  for (const LayerError& layer : layers)
    for (size_t m = 0; m < kMethodCount; ++m) {
      if (kMethods[m].nearest < 0) continue;
      ++tally.compared;
      // Both are sums of float32 products. Each output is off by at most `terms` roundings of the sum of magnitudes,
      // which is at most sqrt(terms) times the norm.
      const double nearest = std::sqrt(layer.error[kMethods[m].nearest]), fitted = std::sqrt(layer.error[m]);
      if (fitted <= nearest + std::pow(double(layer.terms), 1.5) * FLT_EPSILON * nearest) continue;
      ++tally.worse;
      std::printf("WORSE %s %s: %s %.9f, %s %.9f\n", network.name.c_str(), layer.name.c_str(), kMethods[m].name, fitted,
                  kMethods[kMethods[m].nearest].name, nearest);
    }
  tally.layers += int(layers.size());
  ++tally.networks;
}

int claim() {
  Tally tally;
  int missing = 0;
  const std::optional<Sampled> networks[] = {sampled_digits(), sampled_shared("IC", "pretrainedResnet.tflite", 0, 255),
                                             sampled_shared("KWS", "kws_ref_model_float32.tflite", -123, 26),
                                             sampled_encoder()};
  for (const std::optional<Sampled>& network : networks) {
    if (network) compare(*network, tally);
    else ++missing;
  }
  std::string means;
  for (size_t m = 0; m < kMethodCount; ++m)
    means += fmt::format("{}{} {:.4f}", m == 0 ? "" : ", ", kMethods[m].name, tally.sum[m] / tally.layers);
  if (tally.worse > 0) {
    std::printf("CLAIM quantizers_compared NOT SHOWN: %d of %d fits are worse than the nearest codes\n", tally.worse,
                tally.compared);
    return 1;
  }
  std::printf(
      "CLAIM quantizers_compared shown: %d layers of %d networks (%d missing) by %zu quantizers; %d fits, none "
      "worse on its samples than the nearest codes of the same groups; mean relative error of a layer: %s\n",
      tally.layers, tally.networks, missing, kMethodCount, tally.compared, means.c_str());
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(quantizers_compared) {
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM quantizers_compared NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
