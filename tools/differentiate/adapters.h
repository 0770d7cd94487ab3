// LoRA adapters (Hu et al. 2021, arXiv:2106.09685): two small layers that train beside a frozen layer.
//
//   y = layer(x) + B((alpha / rank) A x)          dense:   A [rank, in],  B [out, rank]
//                                                 conv2d:  A [rank, h, w, in] with the layer's window,  B [out, 1, 1,
//                                                 rank]
//
//   A uniform in +-1 / sqrt(terms of its sums), from the seed; B zero: at first nothing changes
//
// The frozen layer keeps its policy. A and B have the policy's types without its quantization. They are added before a
// clamp of the layer, so that they can be merged:  W += (alpha / rank) B A.
#pragma once

#include <span>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

inline constexpr const char *kAdapterLayer = "/lora", *kAdapterA = "/lora_a", *kAdapterB = "/lora_b",
                            *kAdapterFactor = "/factor",
                            *kFrozen = "/frozen";  // suffix of a frozen layer's own output

// Adds adapters to the dense and ungrouped conv2d layers that `train` names. Returns the parameters to train: only the
// adapters. Throws if there is no such layer. `graph` is simplified, has its policies resolved, and has its parameters
// still as constants.
TrainedParameters add_adapters(Graph& graph, const AdapterOptions& adapters, const TrainedParameters& train,
                               uint64_t seed);

// Adds the adapters that `model` learned to the weights of `simplified`, as it was given to compile_training. The
// model holds the factor alpha / rank. Results are float32, products and sums float64. Codes of a quantized layer
// become real numbers, which the converter codes anew. Returns how many constants changed.
int merge_adapters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
