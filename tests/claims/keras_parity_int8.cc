// Compares Dense under int8_from_S, as the converter makes it and the engine runs it, with Keras.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/numeric/small_float.h"
#include "tests/claims/executor.h"
#include "tests/claims/keras_network.h"
#include "tests/claims/keras_parity.h"
#include "tools/base/error.h"

namespace nacre::tools {
namespace {

// The numbers that the engine computed for one layer, as float32. bfloat16 converts to it exactly.
struct Run {
  std::vector<int8_t> kernel, x;  // kernel as [out, in]
  std::vector<float> kernel_scale, x_scale, y;
  std::vector<int32_t> sums;
};

std::vector<int32_t> products(const Run& run, const KerasLayer& layer) {
  std::vector<int32_t> sums;
  for (int64_t r = 0; r < layer.rows; ++r)
    for (int64_t k = 0; k < layer.out; ++k) {
      int32_t sum = 0;
      for (int64_t i = 0; i < layer.in; ++i)
        sum += int32_t{run.x[size_t(r * layer.in + i)]} * run.kernel[size_t(k * layer.in + i)];
      sums.push_back(sum);
    }
  return sums;
}

Run run_layer(const Json& record, const KerasLayer& layer, const PolicyRequest& request) {
  Graph graph = dense_network(layer, record.at("relu").get<bool>());
  CompileOptions options;
  options.policies = request;
  apply(options, graph);
  if (!graph.fallbacks.empty()) throw Error(kFailed, "dense", graph.fallbacks[0]);
  const std::map<std::string, Bytes> tensors = execute(graph, {bytes_of(layer.x)});
  const Node* dense = nullptr;
  for (const Node& node : graph.nodes) dense = node.op == Op::kDense ? &node : dense;
  if (dense == nullptr || dense->inputs.size() < 5) throw Error(kFailed, "dense", "no step with codes and two scales");
  const auto operand = [&](size_t slot) -> const Value& { return graph.values[size_t(dense->inputs[slot])]; };
  const Value &q = operand(0), &w = operand(1), &scale = operand(3), &x_scale = operand(4);
  const Value& y = graph.values[size_t(graph.outputs[0].value)];
  if (q.type != ElementType::kInt8 || w.type != ElementType::kInt8) throw Error(kFailed, "dense", "not on int8 codes");
  Run run = {elements_of<int8_t>(*w.data),          elements_of<int8_t>(tensors.at(q.name)),
             as_floats(scale.type, *scale.data),    as_floats(x_scale.type, tensors.at(x_scale.name)),
             as_floats(y.type, tensors.at(y.name)), {}};
  run.sums = products(run, layer);
  return run;
}

// Returns the position of v among all floats of its type in order; -0 is next to +0.
int64_t place(float v, bool bfloat16) {
  const auto bits = int64_t(std::bit_cast<uint32_t>(v));
  const int64_t size = (bits & 0x7FFFFFFF) >> (bfloat16 ? 16 : 0);
  return bits >> 31 ? -size : size;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class T>
bool same_digest(const Json& digest, const std::vector<T>& values) {
  for (size_t i = 0; i < digest[1].size(); ++i)
    if (i >= values.size() || digest[1][i].get<int>() != int(values[i])) return false;
  return digest[0] == crc32c_of(values);
}

std::vector<int8_t> as_keras(const Run& run, const KerasLayer& layer) {  // returns [in, out]
  std::vector<int8_t> kernel;
  for (int64_t i = 0; i < layer.in; ++i)
    for (int64_t k = 0; k < layer.out; ++k) kernel.push_back(run.kernel[size_t(k * layer.in + i)]);
  return kernel;
}

void compare(const Json& expected, const Run& run, const KerasLayer& layer, bool bfloat16, Int8Parity& parity) {
  const auto floats = [&](const char* name, bool narrow) {
    return as_floats(narrow ? ElementType::kBfloat16 : ElementType::kFloat32, decode_base64(expected.at(name)));
  };
  // Keras stores the kernel's scale in float32 and casts it at each use.
  std::vector<float> kernel_scale = floats("kernel_scale", false);
  if (bfloat16)
    for (float& v : kernel_scale) v = float(Bfloat16(v));
  parity.kernel.note(same_digest(expected.at("kernel"), as_keras(run, layer)));
  parity.kernel_scale.note(same_bits(run.kernel_scale, kernel_scale));
  parity.x.note(same_digest(expected.at("x"), run.x));
  parity.x_scale.note(same_bits(run.x_scale, floats("x_scale", bfloat16)));
  parity.sums.note(same_digest(expected.at("sums"), run.sums));
  const std::vector<float> y = floats("y", bfloat16);
  for (size_t i = 0; i < y.size(); ++i) {
    // A value between two bfloat16 numbers is no bfloat16 result.
    const bool held = i < run.y.size() && (!bfloat16 || float(Bfloat16(run.y[i])) == run.y[i]);
    const int64_t ulps = held ? std::abs(place(run.y[i], bfloat16) - place(y[i], bfloat16)) : int64_t{1} << 32;
    parity.exact += held && same_bits({run.y[i]}, {y[i]}) ? 1 : 0;
    parity.within += ulps <= 1 ? 1 : 0;
  }
  parity.outputs += int64_t(y.size());
}

}  // namespace

Int8Parity compare_int8(const Json& table, const std::string& policy, const Int8Change& change) {
  PolicyArguments arguments;
  arguments.policy = policy;
  const PolicyRequest request = parse_policy_options(arguments);
  const bool bfloat16 = request.base->compute == ElementType::kBfloat16;
  Int8Parity parity;
  for (const Json& record : table.at("layers")) {
    KerasLayer layer = int8_layer(record);
    layer.kernel[0] *= change.kernel;
    layer.x[0] *= change.x;
    const Run run = run_layer(record, layer, request);
    compare(record.at(bfloat16 ? "bfloat16" : "float32"), run, layer, bfloat16, parity);
    ++parity.layers;
  }
  return parity;
}

}  // namespace nacre::tools
