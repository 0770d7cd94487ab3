// A layer in another library, called from C++ as that library's documentation does it: what layer_peers compares with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/one_layer.h"

namespace nacre::bench {

// The problem that every library solves: y = x * w + bias in a type, from numbers in float32. int8 codes are
// symmetric: x and y have one scale each; w has one per output channel, or one where the library knows no more.
struct LayerProblem {
  const Shape& shape;
  std::string type;  // "float32", "bfloat16", "int8"
  std::vector<float> x, w, bias;
  std::vector<float> y;             // what comes out in float32
  std::vector<float> y_magnitudes;  // what comes out of the magnitudes of x

  std::vector<int64_t> dims(const char* slot) const;
  int64_t attribute(const char* name, int64_t otherwise) const;
  int64_t channels() const { return int64_t(bias.size()); }  // of y
  bool depthwise() const { return shape.op == "depthwise_conv2d"; }
};

struct PeerLayer {
  std::string name, version;
  std::function<void()> run;
  std::function<std::vector<float>()> output;  // after a run
  bool of_magnitudes = false;                  // of x: a way that takes no numbers below 0
};

// Symmetric int8 codes.
float scale_of(const std::vector<float>& values);                          // largest magnitude / 127
std::vector<float> channel_scales(const LayerProblem& problem);            // of w, for each output channel
std::vector<int8_t> codes(const std::vector<float>& values, float scale);  // rounded, within [-127, 127]
std::vector<int8_t> weight_codes(const LayerProblem& problem, const std::vector<float>& scales);  // in w's own order

// Lists the ways in which a library computes the problem: one or several, none where it does not know the type.
std::vector<PeerLayer> onednn_layers(const LayerProblem& problem);
std::string onednn_instructions();  // that it may use: "0x3ff", bits of dnnl_cpu_isa_t, and what AMX is of them
std::vector<PeerLayer> xnnpack_layers(const LayerProblem& problem);

}  // namespace nacre::bench
