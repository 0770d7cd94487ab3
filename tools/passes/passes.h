// Declares passes of the converter, roughly in the order of `nacre convert` (tools/compile/stage.h has the order). A
// pass takes and leaves a graph for which check() holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

struct SimplifyOptions {
  bool fold_batch_norm = true;  // off for layers that train
  // For training: a constant that several steps read is one parameter. So no rule replaces it by another constant for
  // only one of them.
  bool keep_shared = false;
  // These make one step of those that compute an activation. Results may differ in their last bits.
  bool fold_gelu = true, fold_silu = true, fold_hard_swish = true;
  bool fold_bias = true;  // adds a sum behind a layer to its bias, even if that changes the order of rounding
};
inline constexpr SimplifyOptions kSimplifyToTrain = {.fold_batch_norm = false, .keep_shared = true};

// Folds constants, removes dead nodes, and folds batch norms and sums per channel into the preceding conv or dense.
// Removes transposes that cancel or move nothing, merges reshapes of reshapes, and makes one step of those
// that compute gelu, silu or hard_swish. Codes of a quantized layer keep their values.
void simplify(Graph& graph, const SimplifyOptions& options = {});

// Makes the model keep states. Each of `pairs` is IN=OUT, an input and an output of the graph, which the graph then no
// longer has. IN becomes a value of the stream region that starts as zeros. Every run leaves its OUT there, or the
// last rows of OUT. With IN=@position or IN=@mask the graph itself computes the input. Runs before simplify.
void keep_states(Graph& graph, const std::vector<std::string>& pairs);

// Resolves every layer's policy into types. Adds casts, integer forms of ops whose values carry quantizers, quantized
// weights, quantize and dequantize nodes at the borders, and 256-byte tables for unary int8 ops.
enum class IoTypes : uint8_t {
  kSource,  // inputs and outputs of the graph have the source's types
  kPolicy,  // they have the types of the steps beside them: int8 codes, float16
};
struct PolicyOptions {
  // Rounding of int8 steps. kNone stands for LiteRT's arithmetic where it differs from TensorFlow Lite Micro's:
  // kSingle in dense layers, else kDouble; sigmoid, tanh and softmax by float32 functions.
  Rounding rounding = Rounding::kDouble;
  IoTypes io_types = IoTypes::kSource;
};
void apply_policy(Graph& graph, const PolicyOptions& options = {});

// Adds the clamp that the nodes of `where` applied only by the saturation of their codes. onnxruntime's quantizer
// drops a Relu or Clip before codes whose lowest is the zero point (QDQRemovableActivation,
// quantization/operators/activation.py). Call this before removing the quantizers.
void keep_saturation(Graph& graph, const std::function<bool(const Node&)>& where);

// Pads the features and channels of dense layers and convolutions of 16 and 8 bits with zeros, up to counts that Tensor
// Cores take. Runs after apply_policy, and only on graphs that infer.
void pad_features(Graph& graph);

// The machine that a program is compiled for.
struct Target {
  std::string name = "host";
  std::vector<Bank> banks = {};  // if empty, one bank without limit
  bool keep_inputs = false;      // inputs stay valid across runs
  // Kernel sets in the order in which bind tries them: the target's port, then its fallbacks. If empty, the reference
  // kernels. The sets decide which steps are fused, packed and done in place.
  std::vector<const KernelSet*> kernels = {};
};

// Fuses clamps (relu, relu6, clip), activations, residual sums, casts and float8 quantizers into the step before them,
// if the result stays the same to the bit. plan_memory makes aliases.
void fuse(Graph& graph, const Target& target = {});
// Does only the fusion that apply_policy needs: a clamp whose result is coded, into a step before it whose result is
// not.
void fuse_quantized_clamps(Graph& graph);

// Computes the first stages patch by patch: patches/patches.h.
struct PatchRequest;
void cut_patches(Graph& graph, const PatchRequest& request, const Target& target);

// Makes convolutions of one-channel depthwise convolutions, if conv2d has the faster kernels. The results stay the
// same.
void use_convolutions(Graph& graph, const Target& target);

// Orders the nodes: makes views, tries several orders, and keeps the one whose values take the fewest bytes.
void schedule(Graph& graph, const Target& target);

// Packs weights in the layouts that the target's kernels read. Constants are packed at once. Parameters get `pack`
// nodes, which derive() then takes out of the program.
void pack_weights(Graph& graph, const Target& target);

// Places every arena value. Sets offsets, steps, aliases, the banks' used bytes and the liveness bound.
void plan_memory(Graph& graph, const Target& target);

}  // namespace nacre::tools
