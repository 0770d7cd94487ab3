// LoRA adapters (Hu et al. 2021, arXiv:2106.09685): two small layers that train beside a frozen layer.
//
//   y = layer(x) + B((alpha / rank) A x)          dense:   A [rank, in],  B [out, rank]
//                                                 conv2d:  A [rank, h, w, in] with the layer's window,  B [out, 1, 1,
//                                                 rank]
//
//   A starts uniform in +-1 / sqrt(terms of a sum), drawn from the seed; B starts at 0, so y is layer(x) at first
//
// The frozen layer keeps its policy. A and B have the policy's types without its quantization. Their result is added
// before a clamp of the layer, so that training can be merged into the layer's weights:  W += (alpha / rank) B A.
#pragma once

#include <span>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

inline constexpr const char *kAdapterLayer = "/lora", *kAdapterA = "/lora_a", *kAdapterB = "/lora_b",
                            *kAdapterFactor = "/factor",
                            *kFrozen = "/frozen";  // suffix of a frozen layer's own output

// Adds adapters to the dense and ungrouped conv2d layers that `train` names and the source does not freeze. Returns the
// parameters to train: only the adapters. Throws if there is no such layer. `graph` is simplified and has its policies
// resolved; its parameters are still constants.
TrainedParameters add_adapters(Graph& graph, const AdapterOptions& adapters, const TrainedParameters& train,
                               uint64_t seed);

// Adds the adapters that `model` learned to the weights of `simplified`, as it was given to compile_training. The
// model holds the factor alpha / rank. Results are float32, products and sums float64. Codes of a quantized layer
// become real numbers, which the converter codes anew. Returns how many constants changed.
int merge_adapters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
