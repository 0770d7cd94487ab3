// Post-training static quantization, TensorFlow Lite's full-integer scheme: quantizers on the activations of every
// layer whose policy was asked to be int8/static, int8 codes for its weights, int32 for its bias. apply_policy then
// makes the integer steps that it makes of an int8 file.
//
//   activations   int8, one scale and zero point a tensor, from the calibrated range (quantizers.h)
//   weights       int8 in [-127, 127], a scale per output channel
//   bias          int32, scale_k = scale_x scale_wk
//   same codes    average and max pool, reshape, transpose, concat, pad, slice, copy: one quantizer in and out
//   fixed         softmax and sigmoid (1/256, -128), tanh (1/128, 0)
//
// Between these layers and others stands a copy: only the int8 side sees rounded values, and inputs and outputs of
// the network stay real. An op without an integer form stays real and is listed in graph.fallbacks. What a quantized
// source brought keeps its quantizers and needs no range. Layers under float8 get the amaxes of their inputs, those
// under gptq and awq the moments.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/calibration/calibrate.h"
#include "tools/graph/graph.h"
#include "tools/policies/policy_request.h"

namespace nacre::tools {

struct StaticOptions {
  // Scales of dense weights per output, as TensorFlow Lite's converter makes them today; false: one per tensor, its
  // _experimental_disable_per_channel_quantization_for_dense_layers, as the MLPerf Tiny files are.
  bool dense_per_channel = true;
  // Remedy where a range is missing: how the user of this command can supply it.
  std::string range_remedy =
      "give samples with " + option("calibrate", "FILE") + ", or a policy with dynamic scales, int8_from_float32";
};

// A calibration lacks the range of an activation that needs one.
struct NoRange : Error {
  using Error::Error;
};

// Statistics that a policy takes from calibration. int8/static reads ranges, and float8 the largest magnitude of each
// sample. A fit of weights reads the moments of its inputs, which no range method changes.
bool reads_ranges(const Policy& policy);
bool reads_amaxes(const Policy& policy);
bool reads_moments(const Policy& policy);
bool reads_samples(const Policy& policy);  // any of these

// The matmuls of a graph whose layer has a fit: CalibrationOptions::fitted. `resolved`: resolve_policies has run.
std::function<bool(const Node&)> fitted_by(const Graph& resolved);

// After simplify, before apply_policy. `calibration`: null where no data was given. A range that is missing, and
// weights that are not finite, are an Error naming the layer.
//
// A quantizer that an activation already has is kept, and one on a constant stored in float32 says how it is coded: so
// the scales of another file can be taken over.
void quantize_static(Graph& graph, const Calibration* calibration, const StaticOptions& options = {});

// The activations that quantize_static gives a quantizer, and which of them share one: what training simulates.
struct StaticValue {
  std::string name;
  int group = 0;
  // an integer step writes it: whoever reads it reads rounded numbers; else only integer steps do
  bool by_codes = false;
  bool moved = false;     // made of values of its group, which it neither changes nor leaves: reshape, max pool, ..
  bool observed = false;  // the range of the group is this value's
};
struct StaticGroup {
  std::optional<Quantizer> fixed;  // what the source or the op says
};
struct StaticValues {
  std::vector<StaticValue> values;
  std::vector<StaticGroup> groups;
};
StaticValues static_values(const Graph& graph, const StaticOptions& options = {});

}  // namespace nacre::tools
