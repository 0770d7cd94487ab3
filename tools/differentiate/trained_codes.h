// A network that is deployed in int8 trains its own codes: quantization-aware scaling (Lin et al. 2022,
// arXiv:2206.15472, section 2.1). Scales, zero points and multipliers stay. Only the codes of weights and biases
// change, so an export has the steps, the bytes and the arena of the network that was deployed.
//
//   state       a master per weight and bias, float32 in units of the code, at first the codes themselves
//   gradients   everything that depends on a trained code, as real numbers. fake_quantize rounds masters to the layer's
//               quantization step (it divides their gradient by it), and activations over their fixed range. Nodes
//               before these stay in int8.
//   infer       the deployed program itself. `derive` makes its codes from the masters: rounded, saturated
#pragma once

#include <span>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// Suffix of the state value that is trained in place of a constant with codes.
inline constexpr const char* kMaster = "/master";

// Makes the codes of the layers that `options` names trainable in `graph`, which will be differentiated, and in
// `infer`, the same network after apply_policy. Throws if no such layer runs in int8.
void train_codes(Graph& graph, Graph& infer, const TrainedParameters& options);

// Gives the constants of `simplified` that have a master in `state` its codes, under their own quantizers. Returns how
// many it set. Throws if a constant has no codes in the network's file, or has another shape.
int with_codes(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
