// LoRA adapters (Hu et al. 2021, arXiv:2106.09685): beside a frozen layer two small ones that are trained.
//
//   y = layer(x) + B((alpha / rank) A x)          dense:   A [rank, in],  B [out, rank]
//                                                 conv2d:  A [rank, h, w, in] with the layer's window,  B [out, 1, 1,
//                                                 rank]
//
//   A uniform in +-1 / sqrt(terms of its sums), from the seed; B zero: at first nothing changes
//
// The frozen layer keeps its policy; A and B have its types without its quantization. Before a clamp of the layer, so
// that they can be merged:  W += (alpha / rank) B A.
#pragma once

#include <span>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

inline constexpr const char *kAdapterLayer = "/lora", *kAdapterA = "/lora_a", *kAdapterB = "/lora_b",
                            *kAdapterFactor = "/factor",
                            *kFrozen = "/frozen";  // of a frozen layer's own output

// Adds adapters to the dense and ungrouped conv2d layers that `train` names, and returns what is trained then: the
// adapters alone. Throws if there is no such layer. `graph`: simplified, policies resolved, parameters still constants.
TrainedParameters add_adapters(Graph& graph, const AdapterOptions& adapters, const TrainedParameters& train,
                               uint64_t seed);

// Adds what the adapters of `model` learned to the weights of `simplified`, as it was given to compile_training; alpha
// / rank is the factor that stands in the model. In float32, products and sums in float64: codes of a quantized layer
// become real numbers, which the converter codes anew. Returns how many constants changed.
int merge_adapters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
