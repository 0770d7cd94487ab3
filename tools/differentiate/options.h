// Options of a training run: which loss, which optimizer, what is trained, in which memory. Plain data; the commands
// fill it in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/tensor.h"
#include "engine/numeric/loss_scale.h"

namespace nacre::tools {

enum class Loss : uint8_t {
  kSoftmaxCrossEntropy,
  kDenseCrossEntropy,
  kSigmoidCrossEntropy,
  kSquaredError,
  kAbsoluteError,
  kHuber
};
enum class Optimizer : uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW, kRmsprop, kAdagrad };

struct LossOptions {
  Loss kind = Loss::kSoftmaxCrossEntropy;
  float label_smoothing = 0;  // of the cross-entropies over classes
  bool ignores = false;       // sparse labels equal to ignore_index count for nothing
  int32_t ignore_index = -1;
  float delta = 1;          // of huber
  bool sums = false;        // over what a step counts, in place of the mean
  std::string output = {};  // the name of the output that it is of; "": the first
};

// Meanings and formulas: engine/ops/optimize.h. An optimizer ignores the fields that it does not have.
struct OptimizerOptions {
  Optimizer kind = Optimizer::kSgd;
  float momentum = 0.9f;               // momentum, nesterov
  float beta1 = 0.9f, beta2 = 0.999f;  // adam, adamw
  float alpha = 0.99f;                 // rmsprop
  float epsilon = 1e-8f;               // adam, adamw, rmsprop, adagrad
  float epsilon_in_root = 0;           // 1: of rmsprop and adagrad, as Keras has it
  float epsilon_before = 0;            // 1: of adam and adamw, as Keras has it
  float weight_decay = 0;
  float decay_all = 0;  // 1: biases and what norms hold decay too, as Keras's AdamW has it
  // patterns of layers whose weights do not decay
  std::vector<std::string> no_decay;
  float clip_value = 0, clip_norm = 0;          // 0: none
  ElementType moments = ElementType::kFloat32;  // or kBfloat16
};

// Output channels of the layers that a pattern matches, the others of which stay: the leading `share`, or first .. end
// - 1 where that is 0.
struct TrainedChannels {
  std::string pattern;
  double share = 0;
  int64_t first = 0, end = 0;
};

// Which parameters are trained: those of the layers that match a pattern (none given: all), then of these the last
// `last_layers` that have any, then biases alone.
struct TrainedParameters {
  std::vector<std::string> layers;
  int last_layers = 0;
  bool biases_only = false;
  bool frozen_batch_norm = false;              // batch norms keep their running statistics
  std::vector<TrainedChannels> channels = {};  // trained_channels.h; the first that matches a layer counts
  std::string output = {};                     // only what this output depends on; "": all layers
};

// How layers train whose policy quantizes them: training_quantizers.h.
struct QuantizerTraining {
  // of int8/static activations: trained like parameters; else running means of each step's ends
  bool learned_ranges = false;
  // running = momentum running + (1 - momentum) ends. The running range is what is deployed: with 0.99 it lags behind
  // by some 100 steps, and what has grown since is cut (engine/numeric/NUMERICS.md, 48).
  float range_momentum = 0.9f;
  uint32_t freeze_steps = 0;  // steps after which running ranges stay, and cut in training too; 0: never
};

// LoRA adapters, trained instead of the layers that TrainedParameters names: adapters.h.
struct AdapterOptions {
  int rank = 0;  // 0: none
  float alpha = 16;
};

struct TrainingOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  TrainedParameters train;
  LossScaler loss_scale = loss_scaler(LossScaleSystem::kNacre, LossScale::kNone);
  float batch_norm_momentum = 0.99f;  // running = momentum running + (1 - momentum) batch
  bool unbiased_variance = false;     // of the running variance: torch; else Keras
  uint64_t seed = 1;                  // of dropout and of what is initialised here
  bool immediate = false;             // each parameter is updated as soon as its gradient is there
  uint64_t arena_limit = 0;           // bytes; above it activations are computed anew in the backward pass. 0: none
  QuantizerTraining quantizers;
  AdapterOptions adapters;
  bool codes = false;  // of int8 layers, whose scales stay: trained_codes.h
  // of int8/full: of a layer's channels, those whose codes a step writes (engine/ops/integer_share.h). 0: not asked for
  double share = 0;
};

}  // namespace nacre::tools
