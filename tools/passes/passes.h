// The passes of the converter, in the order of `nacre convert`. Each takes a graph for which check() holds and leaves
// one.
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
  // For what trains: a constant that several steps read is one parameter, so no rule makes another constant of it for
  // one of them.
  bool keep_shared = false;
  bool fold_gelu = true;  // its steps by erf, whose results may differ in their last bits
  bool fold_bias = true;  // sums behind a layer into its bias, where that rounds them in another order
};
inline constexpr SimplifyOptions kSimplifyToTrain = {.fold_batch_norm = false, .keep_shared = true};

// Constant folding, dead nodes, batch norm into the preceding conv or dense, transposes that cancel or move nothing,
// reshapes of reshapes, one gelu for the steps that compute it by erf. Never changes a quantized layer's codes.
void simplify(Graph& graph, const SimplifyOptions& options = {});

// `pairs`: IN=OUT each, an input and an output of the graph. They leave it: IN becomes a value of the stream region,
// zero at first, that every run leaves as its OUT, or as the last rows of it. IN=@position and IN=@mask: an input that
// the graph counts itself. Before simplify.
void keep_states(Graph& graph, const std::vector<std::string>& pairs);

// Resolves every layer's policy into types: casts, integer forms of the ops whose values carry quantizers, quantized
// weights, visible quantize and dequantize nodes at the borders, 256-byte tables for unary int8 ops.
enum class IoTypes : uint8_t {
  kSource,  // inputs and outputs of the graph have the source's types
  kPolicy,  // those of the steps beside them: int8 codes, float16
};
struct PolicyOptions {
  // Rounding of int8 steps. kNone: LiteRT's arithmetic where it is not TensorFlow Lite Micro's: kSingle in dense
  // layers, else kDouble; sigmoid, tanh and softmax by float32 functions.
  Rounding rounding = Rounding::kDouble;
  IoTypes io_types = IoTypes::kSource;
};
void apply_policy(Graph& graph, const PolicyOptions& options = {});

// Makes a clamp of what codes did by saturating, for the nodes of `where`: onnxruntime's quantizer drops a Relu or Clip
// before codes whose lowest is the zero point (QDQRemovableActivation, quantization/operators/activation.py). For
// whoever takes the quantizers away next.
void keep_saturation(Graph& graph, const std::function<bool(const Node&)>& where);

// Pads the features and channels of dense layers and convolutions of 16 and 8 bits with zeros, up to counts that Tensor
// Cores take. Runs after apply_policy, and only on graphs that infer.
void pad_features(Graph& graph);

// Machine that a program is compiled for.
struct Target {
  std::string name = "host";
  std::vector<Bank> banks = {};  // empty: one without limit
  bool keep_inputs = false;      // inputs stay valid across runs
  // Kernel sets in the order in which bind asks them: the target's port, then the sets that stay behind it. Empty:
  // the reference kernels. The sets say what is fused, packed and done in place.
  std::vector<const KernelSet*> kernels = {};
};

// Clamps (relu, relu6, clip), activations, residual sums, casts and float8 quantizers into the step before them, where
// the result stays the same to the bit. Aliases are plan_memory's.
void fuse(Graph& graph, const Target& target = {});
// Only what apply_policy needs: a clamp whose result is coded, into the step before it, whose result is not.
void fuse_quantized_clamps(Graph& graph);

// The first stages patch by patch: patches/patches.h.
struct PatchRequest;
void cut_patches(Graph& graph, const PatchRequest& request, const Target& target);

// Depthwise convolutions of one channel as convolutions, where these have the faster kernels. Results stay the same.
void use_convolutions(Graph& graph, const Target& target);

// Orders the nodes: tries several orders and keeps the one that plan_memory places in the fewest bytes.
void schedule(Graph& graph, const Target& target);

// Gives the kernels of the target their weights in the layouts that they read: constants at once, parameters by `pack`
// nodes, which derive() then takes out of the program.
void pack_weights(Graph& graph, const Target& target);

// Places every arena value; sets offsets, steps, aliases, banks' used bytes and the liveness lower bound.
void plan_memory(Graph& graph, const Target& target);

}  // namespace nacre::tools
