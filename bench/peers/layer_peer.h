// A layer in another library, for layer_peers. It is called from C++ as that library's documentation does it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/one_layer.h"

namespace nacre::bench {

// The problem that every library solves: y = x * w + bias in a type, from float32 numbers. int8 codes are symmetric.
// x and y have one scale each; w has one per output channel, or one if the library supports no more.
struct LayerProblem {
  const Shape& shape;
  std::string type;  // "float32", "bfloat16", "int8"
  std::vector<float> x, w, bias;
  std::vector<float> y;             // the result in float32
  std::vector<float> y_magnitudes;  // the result for the magnitudes of x

  std::vector<int64_t> dims(const char* slot) const;
  int64_t attribute(const char* name, int64_t otherwise) const;
  int64_t channels() const { return int64_t(bias.size()); }  // channels of y
  bool depthwise() const { return shape.op == "depthwise_conv2d"; }
};

struct PeerLayer {
  std::string name, version;
  std::function<void()> run;
  std::function<std::vector<float>()> output;  // y after a run
  bool of_magnitudes = false;                  // whether it reads |x|, because it takes no numbers below 0
};

// Functions for symmetric int8 codes.
float scale_of(const std::vector<float>& values);                          // returns the largest magnitude / 127
std::vector<float> channel_scales(const LayerProblem& problem);            // the scales of w, one per output channel
std::vector<int8_t> codes(const std::vector<float>& values, float scale);  // rounded, within [-127, 127]
std::vector<int8_t> weight_codes(const LayerProblem& problem, const std::vector<float>& scales);  // in w's own order

// onednn_layers and xnnpack_layers return the library's ways to compute the problem; none if it lacks the type.
std::vector<PeerLayer> onednn_layers(const LayerProblem& problem);
std::string onednn_instructions();  // what it may use: "0x3ff", bits of dnnl_cpu_isa_t, and AMX
std::vector<PeerLayer> xnnpack_layers(const LayerProblem& problem);

}  // namespace nacre::bench
