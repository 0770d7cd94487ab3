// Post-training static quantization with TensorFlow Lite's full-integer scheme. Layers whose policy asks for
// int8/static get quantizers on their activations, int8 codes for their weights and int32 codes for their bias.
// apply_policy then makes the same integer nodes of them as of an int8 file.
//
//   activations   int8, one scale and zero point a tensor, from the calibrated range (quantizers.h)
//   weights       int8 in [-127, 127], a scale per output channel
//   bias          int32, scale_k = scale_x scale_wk
//   same codes    average and max pool, resize, reshape, transpose, concat, pad, slice, copy: one quantizer in and out
//   fixed         softmax and sigmoid (1/256, -128), tanh (1/128, 0)
//
// A copy stands between these layers and the others. Only the int8 side sees rounded values, and the inputs and outputs
// of the network stay real. An op that cannot run in int8 stays real and is listed in graph.fallbacks. A value that a
// quantized source gave a quantizer keeps it and needs no range. Layers under float8 with a history get the largest
// magnitudes (amaxes) of their inputs, and layers under gptq or awq the moments of theirs.
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
  // If true, dense weights have a scale per output, as TensorFlow Lite's converter makes them today. If false, one per
  // tensor, as its _experimental_disable_per_channel_quantization_for_dense_layers gives and the MLPerf Tiny files
  // have.
  bool dense_per_channel = true;
  // Remedy in the error of a missing range: says how the user of this command can supply ranges.
  std::string range_remedy =
      "give samples with " + option("calibrate", "FILE") + ", or a policy with dynamic scales, int8_from_float32";
};

// Thrown if a calibration lacks the range of an activation that needs one.
struct NoRange : Error {
  using Error::Error;
};

// These functions return whether a policy reads a statistic of calibration. int8/static and int8/full read ranges.
// float8 with a history reads the largest magnitude of each sample. gptq and awq read the moments of a layer's inputs,
// which no range method changes.
bool reads_ranges(const Policy& policy);
bool reads_amaxes(const Policy& policy);
bool reads_moments(const Policy& policy);
bool reads_samples(const Policy& policy);  // true if any of the three above is

// Returns a function for CalibrationOptions::fitted: true for nodes whose layer has a policy that fits weights (gptq,
// awq). resolve_policies has run on `resolved`.
std::function<bool(const Node&)> fitted_by(const Graph& resolved);

// Quantizes the graph, after simplify and before apply_policy. `calibration` is null if no samples were given. Throws
// an Error naming the layer or the value if a range is missing, or if weights are not finite.
//
// An activation that already has a quantizer keeps it. If a constant stored in float32 has a quantizer, its codes are
// made with that. So the scales of another file can be taken over.
void quantize_static(Graph& graph, const Calibration* calibration, const StaticOptions& options = {});

// An activation that quantize_static gives a quantizer, and its group: the activations of a group share one quantizer.
// Quantization-aware training simulates them.
struct StaticValue {
  std::string name;
  int group = 0;
  // True if an integer node writes the value, so that every reader reads rounded numbers. If false, only integer nodes
  // do.
  bool by_codes = false;
  bool moved = false;     // true if a reshape, a max pool, .. made the value from numbers of its group, unchanged
  bool observed = false;  // true if the group's range is the range of this value
};
struct StaticGroup {
  std::optional<Quantizer> fixed;  // quantizer that the source or the op prescribes
};
struct StaticValues {
  std::vector<StaticValue> values;
  std::vector<StaticGroup> groups;
};
StaticValues static_values(const Graph& graph, const StaticOptions& options = {});

}  // namespace nacre::tools
