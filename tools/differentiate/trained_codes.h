// A network that is deployed in int8 trains its own codes: quantization-aware scaling (Lin et al. 2022,
// arXiv:2206.15472, section 2.1). Scales, zero points and multipliers stay; weights and biases get other codes, so that
// what is exported has the steps, the bytes and the arena of the network that was deployed.
//
//   state       a master per weight and bias, float32 in units of the code, at first the codes themselves
//   gradients   what depends on a trained code as real numbers: fake_quantize with the layer's step on masters, whose
//               gradient it divides by the step, and with the tensor's fixed range on activations; int8 steps before
//               them stay
//   infer       the deployed program itself, whose codes `derive` makes of the masters: rounded, saturated
#pragma once

#include <span>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

// of a constant with codes: the state value that is trained in its place
inline constexpr const char* kMaster = "/master";

// Makes the codes of the layers that `options` names trainable: in `graph`, which is to be differentiated, and in
// `infer`, the same network after apply_policy. Throws where no layer that was named runs in int8.
void train_codes(Graph& graph, Graph& infer, const TrainedParameters& options);

// The constants of `simplified` that have a master in `state` get its codes, under the quantizers they have. Returns
// how many. Throws where one has no codes in the network's file, or another shape.
int with_codes(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state);

}  // namespace nacre::tools
