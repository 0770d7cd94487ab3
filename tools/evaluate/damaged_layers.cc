#include "tools/evaluate/damaged_layers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/compile/compile.h"
#include "tools/evaluate/comparison.h"

namespace nacre::tools {
namespace {

NpzArrays few_of(const Graph& graph, const Samples& samples) {
  NpzArrays arrays;
  for (size_t i = 0; i < samples.inputs.size(); ++i) {
    const NpyArray& all = samples.inputs[i];  // it may lie in a file: only the first samples are read
    const int64_t count = std::min<int64_t>(samples.count, kDamageSamples);
    const uint8_t* const first = all.data.data();
    const size_t bytes = all.data.size() / size_t(samples.count) * size_t(count);
    NpyArray few = {.type = all.type, .dims = all.dims, .data = {first, first + bytes}, .place = all.place};
    few.dims[0] = count;
    arrays.emplace_back(graph.inputs[i].name, std::move(few));
  }
  return arrays;
}

bool has_codes(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& v) { return v.quantizer.has_value(); });
}

}  // namespace

std::vector<DamagedLayer> damaged_layers(const Graph& simplified, const LoadedModel& model, const Samples& samples,
                                         const Calibration& calibration) {
  uint32_t program = 0;
  if (has_codes(simplified) || samples.count < 1) return {};
  if (!model.model().find(Entry::kInfer, "host", &program).ok()) return {};
  Graph real = simplified;
  for (Layer& layer : real.layers) layer.policy = {}, layer.asked = true, layer.source_policy.clear();
  const Compiled compiled = compile(std::move(real), {});
  const LoadedModel reals(compiled.bytes, simplified.source, "");
  const ProgramReport a(reals, reals.infer_program()), b(model, program);
  const Comparison comparison = compare_programs(a, b, few_of(simplified, samples), true, {.kernels = "reference"});
  std::map<std::string, double> worst;
  for (const ComparedTensor& t : comparison.tensors) {
    const std::string value = source_name(reals.tensor_name(t.a));
    const double sqnr = t.error.sqnr_db();
    const uint32_t layer = model.model().steps()[model.model().program(program).first_step + t.step_b].layer;
    if (layer == kNoIndex || calibration.masks.low.contains(value) || !(sqnr < kDamageBound)) continue;
    const LayerName of = model.layer(layer);
    if (of.policy.quantization != Quantization::kInt8Static) continue;
    const auto [at, fresh] = worst.emplace(of.name, sqnr);
    if (!fresh) at->second = std::min(at->second, sqnr);
  }
  std::vector<DamagedLayer> layers;
  for (const auto& [name, sqnr] : worst) layers.push_back({name, sqnr});
  std::ranges::stable_sort(layers, {}, &DamagedLayer::sqnr_db);
  return layers;
}

}  // namespace nacre::tools
